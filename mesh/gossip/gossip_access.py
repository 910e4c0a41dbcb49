# SPDX-License-Identifier: Apache-2.0
"""The access to the gossip mesh: its keys and its port, as a host keeps them and as they travel.

Owns that a key travels sealed to the one host that may have it: to the key of its agent, by an
anonymous box (X25519, from the agent's Ed25519 key), so that whoever else hears it learns nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets

import msgspec
from nacl.exceptions import CryptoError
from nacl.public import SealedBox
from nacl.signing import SigningKey, VerifyKey

from stoker.mesh.identity.identity import Identity, Verifier
from stoker.native.errors import BadRequest, Denied

KEY_BYTES = 32
KEYS_MAX = 4
"""The most keys at a time: the present one, and others while it is replaced."""
PORT = 7946
_DIGEST_BYTES = 4


class GossipAccess(msgspec.Struct, frozen=True):
    """The keys that let a host into the mesh; its repr shows none of them."""

    keys: tuple[str, ...]
    """The keys in base64. All open what others send; the first one seals what this host sends."""
    port: int = PORT
    """The port of the mesh on the host that gave this out."""

    def __repr__(self) -> str:
        return f"GossipAccess({self.digests}, port={self.port})"

    @property
    def digests(self) -> str:
        """The digests of the keys, which tell keys apart and tell nothing of them."""
        return ",".join(digest(key) for key in self.keys)


def new_key() -> str:
    """Return a new key in base64."""
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def digest(key: str) -> str:
    """Return the digest of a key, 8 hexadecimal digits."""
    raw = base64.b64decode(key)
    return hashlib.blake2b(raw, digest_size=_DIGEST_BYTES, person=b"stoker gossip").hexdigest()


def check(access: GossipAccess) -> None:
    """Raise BadRequest for what is no access; the message shows no key."""
    if not 0 < len(access.keys) <= KEYS_MAX or len(set(access.keys)) != len(access.keys):
        raise BadRequest(f"{len(access.keys)} gossip keys, of which 1 to {KEYS_MAX} are good")
    for key in access.keys:
        try:
            raw = base64.b64decode(key, validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != KEY_BYTES:
            raise BadRequest(f"a gossip key is {KEY_BYTES} bytes in base64")
    if not 0 < access.port < 65_536:
        raise BadRequest(f"{access.port} is not a port")


def seal(access: GossipAccess, public: str) -> bytes:
    """Return the access as it travels to the host whose agent has this public nkey."""
    Verifier(public)
    raw = base64.b32decode(public + "=" * (-len(public) % 8))[1:-2]
    box = SealedBox(VerifyKey(raw).to_curve25519_public_key())
    return bytes(box.encrypt(msgspec.msgpack.encode(access)))


def unseal(data: bytes, own: Identity) -> GossipAccess:
    """Return the access that is sealed to this agent's key; Denied, or BadRequest for no access."""
    box = SealedBox(SigningKey(own.raw).to_curve25519_private_key())
    try:
        access = msgspec.msgpack.decode(box.decrypt(data), type=GossipAccess)
    except CryptoError:
        raise Denied("the gossip keys are sealed to another host, or were changed") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise BadRequest("the gossip keys cannot be read") from None
    check(access)
    return access
