# SPDX-License-Identifier: Apache-2.0
"""Tables travel whole, fresh and signed, or are refused."""

from __future__ import annotations

import secrets

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.wire import server_tables
from stoker.mesh.wire.server_tables import ServerTables, TablesRequest
from stoker.native.errors import BadRequest, Denied, Refused

FIRST, OTHER = (identity.of_raw(bytes([number]) * 32) for number in (1, 2))
NONCE = b"n" * server_tables.NONCE_BYTES
TABLES = ServerTables((), 3, FIRST.public, b"users", b"joins", b"revoked", b"genesis")


def test_they_arrive_as_they_were_given_out() -> None:
    sealed = server_tables.seal(TABLES, NONCE, FIRST)
    assert server_tables.open_answer(sealed, NONCE, FIRST.verifier) == TABLES
    unchanged = server_tables.seal(None, NONCE, FIRST)
    assert server_tables.open_answer(unchanged, NONCE, FIRST.verifier) is None


def test_their_digest_tells_whether_anything_changed() -> None:
    same = msgspec.structs.replace(TABLES)
    assert server_tables.digest(same) == server_tables.digest(TABLES)
    for field in ("users", "joins", "revoked", "genesis"):
        other = msgspec.structs.replace(TABLES, **{field: b"x"})
        assert server_tables.digest(other) != server_tables.digest(TABLES)


def test_an_answer_of_another_server_or_to_another_request_is_refused() -> None:
    with pytest.raises(Denied, match="not signed by the first server"):
        sealed = server_tables.seal(TABLES, NONCE, OTHER)
        server_tables.open_answer(sealed, NONCE, FIRST.verifier)
    old = server_tables.seal(TABLES, b"o" * server_tables.NONCE_BYTES, FIRST)
    with pytest.raises(BadRequest, match="another request"):
        server_tables.open_answer(old, NONCE, FIRST.verifier)
    sealed = bytearray(server_tables.seal(TABLES, NONCE, FIRST))
    sealed[20] ^= 1
    with pytest.raises(Denied):
        server_tables.open_answer(bytes(sealed), NONCE, FIRST.verifier)
    for junk in (b"", b"\xc1", b"x" * 100):
        with pytest.raises(BadRequest):
            server_tables.open_answer(junk, NONCE, FIRST.verifier)


def test_tables_that_no_message_bears_are_refused_before_they_are_sent() -> None:
    large = msgspec.structs.replace(TABLES, users=secrets.token_bytes(600 * 1024))
    with pytest.raises(Refused, match="at most"):
        server_tables.seal(large, NONCE, FIRST)


def test_a_request_is_short_and_of_the_known_format() -> None:
    request = TablesRequest(server_tables.FORMAT, NONCE, b"d" * 32)
    assert server_tables.open_request(server_tables.encode_request(request)) == request
    bad = (
        TablesRequest(server_tables.FORMAT + 1, NONCE),
        TablesRequest(server_tables.FORMAT, b"short"),
        TablesRequest(server_tables.FORMAT, NONCE, b"d" * 1000),
    )
    for each in bad:
        with pytest.raises(BadRequest):
            server_tables.open_request(server_tables.encode_request(each))
    with pytest.raises(BadRequest):
        server_tables.open_request(b"junk")
