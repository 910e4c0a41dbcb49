# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that a scheduler signs: how far it had applied the log, and to which hashes.

A signature over the hash of an entry is one over all entries before it, since each names the hash
of the one before. Owns the file of one scheduler's checkpoints, beside the segments of its archive:
CHECKPOINTS_MAX bounds it, and the oldest go, which the newer ones imply.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from stoker.mesh.identity.identity import Identity, Verifier
from stoker.native import durable_file
from stoker.native.errors import Corrupt, StokerError

CHECKPOINTS_MAX: Final = 16_384
"""The most checkpoints in a file, of some 500 bytes each."""
FILE: Final = "checkpoints"
_DOMAIN: Final = b"stoker checkpoint 1\n"
"""The first bytes of what is signed, so that it is a signature of nothing else."""


class SignedCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the log as one scheduler had applied it; bytes are in hexadecimal."""

    cluster: str
    index: int
    hash: str
    """The hash of the entry of this index."""
    trail: str
    """The digest of all effects up to it."""
    state: str = ""
    """The digest of the whole state behind it; empty where no snapshot was made of it."""
    t_ns: int
    """The time of the signature, as the signer's clock had it (CLOCK_REALTIME)."""
    key: str
    """The public key of the signer."""
    signature: str = ""

    @property
    def signed(self) -> bytes:
        """The bytes that the signature is over."""
        return _DOMAIN + _encoder.encode(msgspec.structs.replace(self, signature=""))

    def check(self) -> None:
        """Raise Corrupt unless its own key has signed it."""
        try:
            holds = Verifier(self.key).verify(self.signed, bytes.fromhex(self.signature))
        except (StokerError, ValueError):
            holds = False
        if not holds:
            raise Corrupt(f"the checkpoint of entry {self.index} was not signed by {self.key[:60]}")


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(SignedCheckpoint)


def signed(made: SignedCheckpoint, identity: Identity) -> SignedCheckpoint:
    """Return the checkpoint with this scheduler's key and signature."""
    own = msgspec.structs.replace(made, key=identity.public, signature="")
    return msgspec.structs.replace(own, signature=identity.sign(own.signed).hex())


def encode(made: Iterable[SignedCheckpoint]) -> bytes:
    """Return checkpoints as the lines of a file."""
    return b"".join(_encoder.encode(each) + b"\n" for each in made)


def read(path: Path) -> list[SignedCheckpoint]:
    """Return the checkpoints of a file, none if there is no file; Corrupt names a bad line. A last
    line without an end is one that a power failure has torn."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [*_lines(path, data[: data.rfind(b"\n") + 1])]


def _lines(path: Path, data: bytes) -> Iterator[SignedCheckpoint]:
    for number, line in enumerate(data.splitlines(), 1):
        try:
            yield _decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Corrupt(f"{path}, line {number} is no signed checkpoint: {error}") from None


def append(path: Path, made: SignedCheckpoint) -> None:
    """Add a checkpoint durably; a file that is full loses its older half first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = read(path)
    if len(kept) >= CHECKPOINTS_MAX or (kept and not path.read_bytes().endswith(b"\n")):
        durable_file.replace(path, encode(kept[-CHECKPOINTS_MAX // 2 :]))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(encode([made]))
        file.flush()
        os.fsync(file.fileno())
