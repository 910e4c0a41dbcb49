# SPDX-License-Identifier: Apache-2.0
"""A join request counts only if both keys that it names signed it; everything else is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.mesh.identity import identity
from stoker.mesh.wire import join_messages
from stoker.mesh.wire.join_messages import JoinReply, JoinRequest
from stoker.native.errors import BadRequest, Denied, StokerError

TOKEN, AGENT, OTHER = (identity.of_raw(bytes([number]) * 32) for number in (1, 2, 3))
NONCE = b"n" * join_messages.NONCE_BYTES


def request(**changed: Any) -> JoinRequest:
    made = JoinRequest(join_messages.FORMAT, TOKEN.public, "node", AGENT.public, NONCE)
    return msgspec.structs.replace(made, **changed)


def test_a_request_that_both_keys_signed_is_opened() -> None:
    assert join_messages.open_request(join_messages.seal(request(), TOKEN, AGENT)) == request()


def test_it_carries_no_private_key() -> None:
    sealed = join_messages.seal(request(), TOKEN, AGENT)
    for key in (TOKEN, AGENT):
        assert key.raw not in sealed and key.seed.encode() not in sealed


@pytest.mark.parametrize(("by_token", "by_agent"), [(OTHER, AGENT), (TOKEN, OTHER), (AGENT, TOKEN)])
def test_a_signature_of_another_key_is_refused(
    by_token: identity.Identity, by_agent: identity.Identity
) -> None:
    with pytest.raises(Denied, match="has not signed it"):
        join_messages.open_request(join_messages.seal(request(), by_token, by_agent))


def test_a_changed_body_is_refused() -> None:
    sealed = msgspec.msgpack.decode(join_messages.seal(request(), TOKEN, AGENT))
    sealed[0] = msgspec.msgpack.encode(request(name="other"))
    with pytest.raises(Denied):
        join_messages.open_request(msgspec.msgpack.encode(sealed))


@pytest.mark.parametrize(
    "changed",
    [
        {"format": join_messages.FORMAT + 1},
        {"nonce": b"short"},
        {"agent": "not a key"},
        {"token": "U" * 56},
        {"name": "n" * 5000},
    ],
)
def test_a_request_that_cannot_be_one_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        join_messages.open_request(join_messages.seal(request(**changed), TOKEN, AGENT))


@given(
    st.binary(max_size=1500)
    | st.recursive(
        st.none() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=3),
    ).map(msgspec.msgpack.encode)
)
def test_no_bytes_raise_anything_but_a_refusal(data: bytes) -> None:
    for opened in (
        lambda: join_messages.open_request(data),
        lambda: join_messages.open_reply(data, NONCE),
    ):
        with pytest.raises(StokerError):
            opened()


def test_a_reply_counts_for_its_own_request_alone() -> None:
    reply = JoinReply(join_messages.FORMAT, NONCE, "node", "c", (OTHER.public,), ("tls://x:1",))
    data = join_messages.encode(reply)
    assert join_messages.open_reply(data, NONCE) == reply
    with pytest.raises(BadRequest, match="another join request"):
        join_messages.open_reply(data, b"m" * join_messages.NONCE_BYTES)
    with pytest.raises(BadRequest):
        join_messages.open_reply(data + b"x" * join_messages.REPLY_BYTES_MAX, NONCE)


def test_a_reply_of_a_version_without_gossip_names_no_mesh_and_a_later_one_is_read() -> None:
    reply = JoinReply(join_messages.FORMAT, NONCE, "node", gossip=b"sealed")
    whole = msgspec.msgpack.decode(join_messages.encode(reply))
    assert whole[-1] == b"sealed"
    older = join_messages.open_reply(msgspec.msgpack.encode(whole[:-1]), NONCE)
    assert older == msgspec.structs.replace(reply, gossip=b"")
    assert join_messages.open_reply(msgspec.msgpack.encode([*whole, "later"]), NONCE) == reply
