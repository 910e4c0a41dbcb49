# SPDX-License-Identifier: Apache-2.0
"""A join token: one line of text by which one host may become a node or a server of a cluster.

It says where the broker is, which certificate proves it, and holds two secrets: the guest key that
the broker lets in, and a key of its own, of which the cluster keeps the public half alone. Owns the
form of the text; a mistyped or cut text is refused before anything is sent.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import struct
from dataclasses import dataclass, field

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import RAW_BYTES, Identity
from stoker.native.errors import BadRequest

PREFIX = "stoker-join-1-"
SERVER_PREFIX = "stoker-server-1-"
"""The text begins with one of these, so that people and scanners for leaked secrets know it, and
what it makes of a host; 1 is its format."""
FINGERPRINT_BYTES = 32
TEXT_BYTES_MAX = 256
_BODY = struct.Struct(f"!4sH{FINGERPRINT_BYTES}s{RAW_BYTES}s{RAW_BYTES}s")
_CHECK_BYTES = 4


@dataclass(frozen=True)
class JoinToken:
    """The content of a join token. Its repr shows no secret."""

    address: str
    """The IPv4 address of the broker."""
    port: int
    fingerprint: bytes
    """The SHA-256 of the broker's certificate."""
    guest: Identity
    key: Identity
    server: bool = False
    """True if the host becomes a server beside the first one."""

    text: str = field(init=False, repr=False)
    """The whole token, which whoever has it can use."""

    def __post_init__(self) -> None:
        body = _BODY.pack(
            ipaddress.IPv4Address(self.address).packed,
            self.port,
            self.fingerprint,
            self.guest.raw,
            self.key.raw,
        )
        encoded = base64.urlsafe_b64encode(body + _check(body, self.server)).rstrip(b"=").decode()
        object.__setattr__(self, "text", _prefix(self.server) + encoded)


def parse(text: str) -> JoinToken:
    """Return what a text says; BadRequest, which never shows the text, unless it is a token."""
    word = text.strip()
    server = word.startswith(SERVER_PREFIX)
    prefix = _prefix(server)
    if len(word) > TEXT_BYTES_MAX or not word.startswith(prefix):
        raise BadRequest(
            "this is no join token of a format that this stoker knows",
            hint=f"`stoker cluster token` prints one; it begins with {PREFIX}",
        )
    body = _decoded(word.removeprefix(prefix))
    whole = len(body) == _BODY.size + _CHECK_BYTES
    if not whole or _check(body[:-_CHECK_BYTES], server) != body[_BODY.size :]:
        raise BadRequest("this join token is cut or mistyped", hint="Copy the whole line again")
    address, port, fingerprint, guest, own = _BODY.unpack(body[: _BODY.size])
    return JoinToken(
        str(ipaddress.IPv4Address(address)),
        port,
        fingerprint,
        identity.of_raw(guest),
        identity.of_raw(own),
        server,
    )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _prefix(server: bool) -> str:
    return SERVER_PREFIX if server else PREFIX


def _check(body: bytes, server: bool) -> bytes:
    person = b"stoker server" if server else b"stoker join"
    return hashlib.blake2b(body, digest_size=_CHECK_BYTES, person=person).digest()
