# SPDX-License-Identifier: Apache-2.0
"""The tables that every server of a cluster must have alike, as the first server gives them out.

A server asks with a TablesRequest; a ServerTables is the answer, signed by the first server's
registrar. Owns that an answer is fresh and whole: it repeats the nonce of its request, so that no
older one, in which a revoked key counted, can take its place.
"""

from __future__ import annotations

import hashlib
import zlib

import msgspec

from stoker.mesh.identity.identity import Checks, Signs
from stoker.mesh.wire.cluster_server import ClusterServer
from stoker.native.errors import BadRequest, Denied, Refused
from stoker.scheduler.nouns import Record

FORMAT = 1
NONCE_BYTES = 16
REQUEST_BYTES_MAX = 256
ANSWER_BYTES_MAX = 500 * 1024
"""The largest answer; the broker takes 512 KB."""
BODY_BYTES_MAX = 8 << 20
"""The largest answer before it is compressed."""
_DOMAIN = b"stoker.v1.tables\0"
"""A prefix that is signed with the body, so that no other signature of a key fits an answer."""


class TablesRequest(Record, frozen=True):
    """A server requests the tables."""

    format: int
    nonce: bytes
    have: bytes = b""
    """The digest of the tables that it has."""


class ServerTables(Record, frozen=True):
    """The tables. Each of the byte strings is the content of a file of that name."""

    servers: tuple[ClusterServer, ...]
    """All servers that have joined, the first one first."""
    wanted: int
    """The number of servers of the cluster."""
    guest: str
    """The public key in every join token."""
    users: bytes = b""
    joins: bytes = b""
    """The nodes that joined, without tokens."""
    revoked: bytes = b""
    genesis: bytes = b""
    """The configuration that founds the cluster; empty until all servers have joined."""


class _Answer(Record, frozen=True):
    format: int
    nonce: bytes
    tables: ServerTables | None
    """None if the server has the newest."""


class _Sealed(Record, frozen=True):
    body: bytes
    signature: bytes


def digest(tables: ServerTables) -> bytes:
    """Return blake2b-256 of the tables."""
    data = msgspec.msgpack.encode(tables)
    return hashlib.blake2b(data, digest_size=32, person=b"stoker tables").digest()


def encode_request(request: TablesRequest) -> bytes:
    return msgspec.msgpack.encode(request)


def open_request(data: bytes) -> TablesRequest:
    """Return a request, or BadRequest."""
    try:
        if len(data) > REQUEST_BYTES_MAX:
            raise msgspec.DecodeError("too long")
        request = msgspec.msgpack.decode(data, type=TablesRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadRequest("this is not a request for tables") from None
    if request.format != FORMAT or len(request.nonce) != NONCE_BYTES:
        raise BadRequest(f"a request for tables of format {request.format}, not {FORMAT}")
    return request


def seal(tables: ServerTables | None, nonce: bytes, signer: Signs) -> bytes:
    """Return the answer as it travels; Refused if the tables are too large for one message."""
    body = zlib.compress(msgspec.msgpack.encode(_Answer(FORMAT, nonce, tables)), 1)
    sealed = msgspec.msgpack.encode(_Sealed(body, signer.sign(_DOMAIN + body)))
    if len(sealed) > ANSWER_BYTES_MAX:
        raise Refused(f"the tables take {len(sealed)} bytes, at most {ANSWER_BYTES_MAX}")
    return sealed


def open_answer(data: bytes, nonce: bytes, key: Checks) -> ServerTables | None:
    """Return the tables of the answer to the request with this nonce, None if they are the same as
    before; BadRequest, or Denied unless `key` signed it."""
    try:
        sealed = msgspec.msgpack.decode(data, type=_Sealed)
        if not key.verify(_DOMAIN + sealed.body, sealed.signature):
            raise Denied("these tables are not signed by the first server")
        answer = msgspec.msgpack.decode(_inflated(sealed.body), type=_Answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, zlib.error):
        raise BadRequest("this is not the answer to a request for tables") from None
    if answer.format != FORMAT or answer.nonce != nonce:
        raise BadRequest("this is the answer to another request for tables")
    return answer.tables


def _inflated(data: bytes) -> bytes:
    opened = zlib.decompressobj()
    body = opened.decompress(data, BODY_BYTES_MAX)
    if opened.unconsumed_tail:
        raise zlib.error("too long")
    return body
