# SPDX-License-Identifier: Apache-2.0
"""The node's position in its commands, in a file of two slots that are written alternately.

One slot is whole at any moment, so kill -9 does no harm. The file is not synced to disk: after a
power loss the boot id differs, and then no command is obeyed before a signed desired state, which
answers this agent's own nonce, has moved the position forward.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Self

from stoker.mesh.wire.command import HASH_BYTES, Position
from stoker.native.errors import Refused

_SLOT = struct.Struct(f"<QQQ{HASH_BYTES}sI")
"""Number of the write, term, sequence, hash, CRC-32 of the fields before."""
_SLOT_BYTES = 64


class PositionFile:
    """The open file; `position` is its content."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._count, self.position = 0, Position()
        for slot in (0, 1):
            found = _read(os.pread(descriptor, _SLOT.size, slot * _SLOT_BYTES))
            if found is not None and found[0] > self._count:
                self._count, self.position = found

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open or make the file at `path`; an empty or torn file is the first position.

        Its space is reserved now, so that storing needs none; Refused if the disk is full.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, 0o600)
            if os.fstat(descriptor).st_size < 2 * _SLOT_BYTES:
                os.pwrite(descriptor, bytes(_SLOT_BYTES), _SLOT_BYTES)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from error
        return cls(descriptor)

    def store(self, position: Position) -> None:
        """Replace the older slot in one write."""
        self._count += 1
        fixed = struct.pack(
            f"<QQQ{HASH_BYTES}s", self._count, position.term, position.seq, position.hash
        )
        slot = fixed + struct.pack("<I", zlib.crc32(fixed))
        os.pwrite(self._descriptor, slot, (self._count % 2) * _SLOT_BYTES)
        self.position = position

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _read(slot: bytes) -> tuple[int, Position] | None:
    if len(slot) != _SLOT.size or zlib.crc32(slot[:-4]) != _SLOT.unpack(slot)[4]:
        return None
    count, term, seq, digest, _ = _SLOT.unpack(slot)
    return count, Position(term, seq, digest)
