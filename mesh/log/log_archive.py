# SPDX-License-Identifier: Apache-2.0
"""The old entries of the log, in files of the scheduler's folder.

One scheduler alone archives entries by their sequence before it trims the log. Each of several
archives those that it drops from its file of held entries, by their index. Owns the promise that an
entry is durable here before it goes there, so that the chain of all entries since the genesis can
be checked. ARCHIVE_BYTES_MAX bounds the files: past it the oldest go, which `first_index` shows.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from stoker.mesh.log import entry as entries
from stoker.native import durable_file
from stoker.native.errors import Corrupt

ARCHIVE_BYTES_MAX = 4 << 30
_MAGIC = b"stoker log segment 1\n"
_RECORD = struct.Struct("<QI")
"""The place of an entry, which is its sequence or its index, and its bytes."""
_SUFFIX = ".segment"


class SegmentWriter:
    """Writes entries into one open file, as a segment has them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.write(_MAGIC)

    def add(self, place: int, data: bytes) -> None:
        """Write the next entry."""
        self._file.write(_RECORD.pack(place, len(data)) + data)


class LogArchive:
    """The segments of one log, named by the places of their first and last entry."""

    def __init__(self, path: Path, bytes_max: int = ARCHIVE_BYTES_MAX) -> None:
        self._path = path
        self._bytes_max = bytes_max

    def add(self, found: list[tuple[int, bytes]]) -> int:
        """Store entries durably in one segment; return how many old segments were dropped for it.

        Entries that are here already are left out. Raises OSError if they cannot be written.
        """
        last = self.last_place
        new = [each for each in found if each[0] > last]
        if not new:
            return 0
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        final = self._path / f"{new[0][0]:020d}-{new[-1][0]:020d}{_SUFFIX}"
        partial = final.with_suffix(".partial")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(partial, flags, 0o600), "wb") as file:
            writer = SegmentWriter(file)
            for place, data in new:
                writer.add(place, data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(final)
        durable_file.sync_folder(self._path)
        return self._bound()

    @property
    def last_place(self) -> int:
        """The place of the newest archived entry, 0 if there is none."""
        names = self._files()
        return int(names[-1].stem.partition("-")[2]) if names else 0

    def entries(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Yield (place, entry) behind a place, in order; Corrupt if a segment is damaged."""
        for file in self._files():
            if int(file.stem.partition("-")[2]) > after:
                yield from (each for each in read_segment(file) if each[0] > after)

    def first_index(self) -> int:
        """Return the index of the oldest entry that is kept, 0 if there is none."""
        for seq, data in self.entries():
            return entries.unseal(seq, data).entry.prev_index + 1
        return 0

    def _files(self) -> list[Path]:
        return sorted(self._path.glob(f"*{_SUFFIX}"))

    def _bound(self) -> int:
        """Drop the oldest segments past the bound, but never the newest."""
        files = self._files()
        size = sum(file.stat().st_size for file in files)
        dropped = 0
        while size > self._bytes_max and len(files) > 1:
            oldest = files.pop(0)
            size -= oldest.stat().st_size
            oldest.unlink()
            dropped += 1
        return dropped


def read_segment(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the (place, entry) of one file; Corrupt where it is damaged."""
    data = file.read_bytes()
    if not data.startswith(_MAGIC):
        raise Corrupt(f"{file} is no segment of a log")
    at = len(_MAGIC)
    while at < len(data):
        if at + _RECORD.size > len(data):
            raise Corrupt(f"{file} ends within a record")
        place, size = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if at + size > len(data):
            raise Corrupt(f"{file} ends within log entry {place}")
        yield place, data[at : at + size]
        at += size
