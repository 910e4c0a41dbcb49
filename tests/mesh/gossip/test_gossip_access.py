# SPDX-License-Identifier: Apache-2.0
"""The access to the mesh: it travels to one host alone, and no text shows a key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from nacl.public import SealedBox
from nacl.signing import SigningKey

from stoker.mesh.gossip import gossip_access
from stoker.mesh.gossip.gossip_access import GossipAccess
from stoker.mesh.identity import identity
from stoker.native.errors import BadRequest, Denied

OWN, OTHER = (identity.of_raw(bytes([number]) * 32) for number in (1, 2))


def access(count: int = 1) -> GossipAccess:
    return GossipAccess(tuple(gossip_access.new_key() for _ in range(count)), 7000)


def test_the_host_that_it_is_sealed_to_opens_it_and_no_other_does() -> None:
    made = access(2)
    sealed = gossip_access.seal(made, OWN.public)
    assert gossip_access.unseal(sealed, OWN) == made
    assert made.keys[0].encode() not in sealed
    for data, key in ((sealed, OTHER), (sealed[:-1], OWN), (b"", OWN), (b"x" * 90, OWN)):
        with pytest.raises(Denied, match="sealed to another host"):
            gossip_access.unseal(data, key)


@pytest.mark.parametrize(
    "content",
    [
        [[]],
        [["short"]],
        [["x" * 44]],
        [[gossip_access.new_key()], 0],
        [[gossip_access.new_key()] * 2],
        [[gossip_access.new_key() for _ in range(gossip_access.KEYS_MAX + 1)]],
        "other",
    ],
)
def test_what_is_sealed_and_no_access_is_refused_without_its_keys(content: Any) -> None:
    box = SealedBox(SigningKey(OWN.raw).to_curve25519_private_key().public_key)
    with pytest.raises(BadRequest) as refused:
        gossip_access.unseal(bytes(box.encrypt(msgspec.msgpack.encode(content))), OWN)
    assert not any(key in refused.value.message for key in content[0] if len(key) > 40)


def test_a_later_field_is_passed_over() -> None:
    made = access()
    later = {"keys": made.keys, "port": 7000, "later": 1}
    box = SealedBox(SigningKey(OWN.raw).to_curve25519_private_key().public_key)
    assert gossip_access.unseal(bytes(box.encrypt(msgspec.msgpack.encode(later))), OWN) == made


def test_a_repr_and_a_digest_tell_keys_apart_and_show_none() -> None:
    made = access(2)
    assert not any(key in repr(made) for key in made.keys)
    assert made.digests == ",".join(map(gossip_access.digest, made.keys))
    assert len(set(made.digests.split(","))) == 2
