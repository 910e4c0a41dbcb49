# SPDX-License-Identifier: Apache-2.0
"""The durable word of a scheduler of several: the entries that it has acknowledged, the term that
it promised, and the floor of its vote.

Owns their durability: `store` returns only when its record is on disk. A record that a crash cut
off is dropped whole, and nobody was told of it; damage before the last record is refused. A file
that is not there any more is made again as one that has forgotten everything.
"""

from __future__ import annotations

import os
import secrets
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.mesh.log.log_archive import LogArchive
from stoker.native import durable_file
from stoker.native.errors import Corrupt

NAME = "held"
KEPT_MIN = 1024
"""The number of newest entries that stay in the file after a snapshot has them, so that this
replica can append them again if the log loses its end."""
_MAGIC = b"stoker held 2\n"
_KIND, _FORMAT = b"stoker held ", 2
_MARK_BYTES = 4
_HEAD = struct.Struct("<4sII")
"""The head of a record: the file's mark, the length of the body, the CRC of length and body."""
_ASKS = "then asks the others what it has acknowledged, and takes part once enough have answered"
_CHUNK = 256
"""The number of entries in one record of a rewritten file."""

Entries = tuple[tuple[int, bytes], ...]
"""Indexes with the sealed bytes of their entries, in order."""
Rank = tuple[int, int]
"""The term and the index of the end of a chain: the one of the newest term is best, then the
longest."""
FORGOTTEN: Rank = (1 << 62, 0)
"""The floor of a scheduler whose file was lost: it does not know what others count on."""


class Word(NamedTuple):
    """The content of the file."""

    entries: Entries = ()
    promised: int = 0
    floor: Rank = (0, 0)
    """The end of the best chain that this scheduler has forgotten."""


class _Record(msgspec.Struct, array_like=True, frozen=True):
    """One store: `entries` replace all behind `after`; term and floor replace those before."""

    after: int
    promised: int
    entries: Entries
    floor: Rank


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)


class HeldEntries:
    """The file of one replica; methods may be called in any thread.

    The file grows until the next snapshot, so the log's limit bounds it: entries behind a snapshot
    are at most those that the log holds.
    """

    def __init__(self, folder: Path, *, is_new: bool = False) -> None:
        """Read the file, or make it; Corrupt if it was damaged, OSError if the disk fails.

        `is_new` is true if this folder has never had one, so that nothing can be forgotten.
        """
        self._path = folder / NAME
        self._lock = threading.Lock()
        self._descriptor = -1
        self._mark, self._end = b"", 0
        self._named = True
        folder.mkdir(mode=0o700, exist_ok=True)
        if self._path.exists():
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._cut_torn_end()
        else:
            self._replace(Word() if is_new else Word(floor=FORGOTTEN))

    def read(self) -> Word:
        """Return what was stored last."""
        with self._lock:
            return self._read()

    def store(self, after: int, entries: Entries, promised: int, floor: Rank = (0, 0)) -> None:
        """Replace the entries behind `after`, the promised term and the floor, durably; OSError if
        it cannot.

        After an error the file may have the record or not, and the process must end.
        """
        with self._lock:
            if not self._named:
                self._sync_name()
            data = _sealed(self._mark, _Record(after, promised, entries, floor))
            _write(self._descriptor, data, self._end)
            os.fdatasync(self._descriptor)
            self._end += len(data)

    def saved(self, index: int, archive: LogArchive) -> int:
        """Move the entries up to `index`, which a durable snapshot has, into the archive, except
        the newest ones; return how many old segments the archive dropped for it.

        OSError if the disk takes no new file; the old one then stays.
        """
        with self._lock:
            held = self._read()
            newest = held.entries[-1][0] if held.entries else 0
            first = min(index, newest - KEPT_MIN) + 1
            dropped = archive.add([each for each in held.entries if each[0] < first])
            kept = tuple(each for each in held.entries if each[0] >= first)
            self._replace(held._replace(entries=kept))
            return dropped

    def clear(self) -> None:
        """Drop all entries; the promised term and the floor stay."""
        with self._lock:
            self._replace(self._read()._replace(entries=()))

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    # --- the file ---------------------------------------------------------------------------------

    def _cut_torn_end(self) -> None:
        """Cut off a record that was never completed; Corrupt if a complete one follows it."""
        data = self._path.read_bytes()
        self._mark, self._end = _checked(data, self._path)
        if self._end < len(data):
            os.ftruncate(self._descriptor, self._end)
            os.fsync(self._descriptor)

    def _read(self) -> Word:
        return _word(self._path.read_bytes(), self._mark)

    def _replace(self, held: Word) -> None:
        """Write a new file and give it the name once it is durable.

        An error while it is written leaves the old file as it is.
        """
        mark = secrets.token_bytes(_MARK_BYTES)
        data = b"".join((_MAGIC, mark, *_rewritten(mark, held)))
        partial = self._path.with_name(f".{NAME}.partial")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(partial, flags, 0o600)
        try:
            _write(descriptor, data, 0)
            os.fsync(descriptor)
            partial.replace(self._path)
        except BaseException:
            os.close(descriptor)
            raise
        before, self._descriptor = self._descriptor, descriptor
        self._mark, self._end = mark, len(data)
        if before >= 0:
            os.close(before)
        self._sync_name()

    def _sync_name(self) -> None:
        """Make the new file's name durable; a store needs it, however often this failed before."""
        self._named = False
        durable_file.sync_folder(self._path.parent)
        self._named = True


def read(folder: Path) -> Word:
    """Return the content of a folder's file and change nothing, whether or not its scheduler runs;
    a file that is not there has forgotten everything. Corrupt if it was damaged."""
    path = folder / NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Word(floor=FORGOTTEN)
    mark, _ = _checked(data, path)
    return _word(data, mark)


def _checked(data: bytes, path: Path) -> tuple[bytes, int]:
    """Return the mark of a file and the end of its last whole record; Corrupt for one that is
    damaged before its end."""
    head = len(_MAGIC) + _MARK_BYTES
    found = data[: len(_MAGIC)]
    if found.startswith(_KIND) and found != _MAGIC and found[len(_KIND) : -1].isdigit():
        raise _other_format(path, int(found[len(_KIND) : -1]))
    if len(data) < head or not data.startswith(_MAGIC):
        raise _damaged(path, "it does not begin like one")
    mark, end = data[len(_MAGIC) : head], head
    for _, behind in _records(data, mark, head):
        end = behind
    if _follows(data, mark, end):
        raise _damaged(path, f"byte {end} begins a damaged record, and others follow")
    return mark, end


def _damaged(path: Path, why: str) -> Corrupt:
    return Corrupt(
        f"{path} has lost entries that this scheduler has acknowledged: {why}",
        hint=f"Move it away: this scheduler {_ASKS}",
    )


def _other_format(path: Path, found: int) -> Corrupt:
    return Corrupt(
        f"{path} has format {found}, this version reads {_FORMAT}",
        hint=f"Start the version that wrote it, or move it away: this scheduler {_ASKS}",
    )


def _word(data: bytes, mark: bytes) -> Word:
    """Return what the whole records of a file come to."""
    held: list[tuple[int, bytes]] = []
    promised, floor = 0, (0, 0)
    for record, _ in _records(data, mark, len(_MAGIC) + _MARK_BYTES):
        while held and held[-1][0] > record.after:
            held.pop()
        held += record.entries
        promised, floor = record.promised, record.floor
    return Word(tuple(held), promised, floor)


def _rewritten(mark: bytes, held: Word) -> Iterator[bytes]:
    """Yield the records of a file with this content."""
    yield _sealed(mark, _Record(0, held.promised, (), held.floor))
    for begin in range(0, len(held.entries), _CHUNK):
        chunk = held.entries[begin : begin + _CHUNK]
        yield _sealed(mark, _Record(chunk[0][0] - 1, held.promised, chunk, held.floor))


def _sealed(mark: bytes, record: _Record) -> bytes:
    body = _encoder.encode(record)
    return _HEAD.pack(mark, len(body), _crc(mark, body)) + body


def _crc(mark: bytes, body: bytes | memoryview) -> int:
    """Return the CRC of a record; it begins with the mark, which no user's job can know."""
    return zlib.crc32(body, zlib.crc32(len(body).to_bytes(4, "little") + mark))


def _records(data: bytes, mark: bytes, begin: int) -> Iterator[tuple[_Record, int]]:
    """Yield each record with its end, up to the first one that is not whole."""
    at = begin
    while (body := _body(data, mark, at)) is not None:
        at += _HEAD.size + len(body)
        yield _decoder.decode(body), at


def _body(data: bytes, mark: bytes, at: int) -> memoryview | None:
    """Return the body of the record that begins at `at`; None if no whole one does."""
    if at + _HEAD.size > len(data):
        return None
    found, length, crc = _HEAD.unpack_from(data, at)
    body = memoryview(data)[at + _HEAD.size : at + _HEAD.size + length]
    whole = found == mark and len(body) == length and _crc(mark, body) == crc
    return body if whole else None


def _follows(data: bytes, mark: bytes, begin: int) -> bool:
    """True if a whole record begins anywhere behind `begin`."""
    at = data.find(mark, begin + 1)
    while at >= 0:
        if _body(data, mark, at) is not None:
            return True
        at = data.find(mark, at + 1)
    return False


def _write(descriptor: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, at)
        at, view = at + written, view[written:]
