# SPDX-License-Identifier: Apache-2.0
"""Identities: each is one Ed25519 nkey, with its seed in a file that only its owner can read.

Owns the rule that a seed is read into this process's memory and appears nowhere else: in no
argument, log line, exception or repr.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from pathlib import Path
from typing import Protocol

import nkeys
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from stoker.native.errors import BadRequest, Corrupt, Denied, NotFound, Refused

SIGNATURE_BYTES = 64
RAW_BYTES = 32
"""The bytes of chance that a key pair is made of."""
_PUBLIC_RAW_BYTES = 35
"""A public nkey is a prefix byte, 32 bytes of key and a CRC-16 (little endian), as specified."""


class Signs(Protocol):
    """Signs records."""

    def sign(self, data: bytes) -> bytes: ...


class Checks(Protocol):
    """Verifies signatures of sealed records."""

    def verify(self, data: bytes, signature: bytes) -> bool: ...


class Verifier:
    """Verifies signatures of one public nkey (`U...`)."""

    def __init__(self, public: str) -> None:
        self.public = public
        self._key = VerifyKey(_public_bytes(public))

    def verify(self, data: bytes, signature: bytes) -> bool:
        """Return True if this key signed these bytes; a bad signature raises nothing."""
        if len(signature) != SIGNATURE_BYTES:
            return False
        try:
            self._key.verify(data, signature)
        except (BadSignatureError, ValueError):
            return False
        return True


class Identity:
    """A key pair. `public` is its public nkey."""

    def __init__(self, seed: bytes) -> None:
        try:
            prefix, raw = nkeys.decode_seed(seed)  # type: ignore[no-untyped-call]
            key = SigningKey(raw)
            whole = base64.b32decode(seed + b"=" * (-len(seed) % 8))  # nkeys ignores its CRC
        except (nkeys.NkeysError, ValueError, TypeError, AttributeError):
            raise Corrupt("not an nkey seed") from None
        # The last character has two bits that decoding ignores, so the text is compared as well.
        if _crc16(whole[:-2]) != whole[-2:] or base64.b32encode(whole).rstrip(b"=") != seed:
            raise Corrupt("a damaged nkey seed (checksum)")
        self._seed = seed
        self._key = key
        self.public = _encode_public(prefix, bytes(key.verify_key))

    def __repr__(self) -> str:
        return f"Identity({self.public})"

    def sign(self, data: bytes) -> bytes:
        """Return an Ed25519 signature (RFC 8032) of 64 bytes; equal data gives equal signatures."""
        return self._key.sign(data).signature

    def verify(self, data: bytes, signature: bytes) -> bool:
        """Return True if this key signed these bytes; for tests and self-checks."""
        return Verifier(self.public).verify(data, signature)

    @property
    def raw(self) -> bytes:
        """The secret bytes that `of_raw` makes this key pair of; a join token carries them."""
        return bytes(self._key)

    @property
    def seed(self) -> str:
        """The text of the seed, for a connection whose key is in no file."""
        return self._seed.decode()

    @property
    def verifier(self) -> Verifier:
        """The verifier with the public half of this key."""
        return Verifier(self.public)

    def sign_nonce(self, nonce: str) -> bytes:
        """Return the signed nonce of the server in base64; nats-py's `signature_cb`."""
        return base64.b64encode(self.sign(nonce.encode()))

    def public_bytes(self) -> bytearray:
        """Return the public nkey as nats-py's counterpart of `user_jwt_cb` takes it."""
        return bytearray(self.public.encode())


def of_raw(raw: bytes) -> Identity:
    """Return the key pair that RAW_BYTES secret bytes make, which is in no file."""
    return Identity(_seed_text(raw))


def _seed_text(raw: bytes) -> bytes:
    seed: bytes = nkeys.encode_seed(raw, nkeys.PREFIX_BYTE_USER)  # type: ignore[no-untyped-call]
    return seed


def create(path: Path) -> Identity:
    """Write a new user seed to `path` with mode 0600 and load it; an existing file is refused."""
    seed = _seed_text(os.urandom(RAW_BYTES))
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(seed + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # unlike rename, never replaces another key
    except FileExistsError:
        raise Refused(
            f"{path} exists", hint="A key is never overwritten; remove it first"
        ) from None
    finally:
        partial.unlink(missing_ok=True)
    return Identity(seed)


def load(path: Path) -> Identity:
    """Read a seed; a file that others can read or that someone else owns is refused by name."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotFound(f"no key at {path}") from None
    except PermissionError:
        raise Denied(f"{path} cannot be read by this user") from None
    except OSError as error:
        raise Denied(f"{path}: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        _check_owner(path, os.fstat(file.fileno()))
        seed = file.read(256).strip()
    try:
        return Identity(seed)
    except Corrupt:
        raise Corrupt(f"{path} does not hold an nkey seed") from None


def load_or_create(path: Path) -> Identity:
    """Return the key at `path`; create it if there is none."""
    try:
        return load(path)
    except NotFound:
        return create(path)


def _check_owner(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise Denied(f"{path} is not a regular file")
    if status.st_mode & 0o077:
        # Only a file named .nk is surely a key; changing the mode of another file may be wrong.
        own = f"chmod 600 {path}" if path.suffix == ".nk" else "Keep the key in a file of its own"
        raise Denied(f"{path} can be read by others", hint=own)
    if status.st_uid not in (os.geteuid(), 0):
        raise Denied(f"{path} belongs to uid {status.st_uid}")


def _encode_public(prefix: int, raw: bytes) -> str:
    body = bytes([prefix]) + raw
    return base64.b32encode(body + _crc16(body)).decode()


def _crc16(body: bytes) -> bytes:
    crc: int = nkeys.crc16(body)  # type: ignore[no-untyped-call]
    return crc.to_bytes(2, "little")


def _public_bytes(public: str) -> bytes:
    """Return the 32 key bytes of a public user nkey; BadRequest says what is wrong with it."""
    try:
        raw = base64.b32decode(public + "=" * (-len(public) % 8))
    except (binascii.Error, ValueError):
        raise BadRequest(f"not a public nkey: {public[:60]!r}") from None
    body, crc = raw[:-2], raw[-2:]
    if len(raw) != _PUBLIC_RAW_BYTES or body[0] != nkeys.PREFIX_BYTE_USER:
        raise BadRequest(f"not a public user nkey: {public[:60]!r}")
    if _crc16(body) != crc:
        raise BadRequest(f"mistyped public nkey (checksum): {public[:60]!r}")
    return body[1:]
