# SPDX-License-Identifier: Apache-2.0
"""An attempt whose output is spooled: up to which byte the brokers have each of its streams.

The record is on disk before the next piece is sent, so that an agent which starts again repeats one
piece at most, which readers know by its offset. Owns when a piece is due: at once when there is
enough for a whole one or when the attempt is over, else after a pause that grows with the time for
which the attempt runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from stoker.agent.jobs.attempt_folders import folder_name
from stoker.mesh.wire.output_spool import PIECE_BYTES, PIECES_MAX, OutputPiece
from stoker.scheduler.nouns import TaskKey

PAUSE_LEAST_S: Final = 2.0
"""The pause before a piece that is not whole, in the first half hour of an attempt."""
PAUSE_MOST_S: Final = 60.0
PAUSE_PART: Final = 1000
"""Later it is this part of the time for which the attempt has run, so that months of short lines
fit into PIECES_MAX."""

Stream = Literal["out", "err"]


class SpooledStream(msgspec.Struct):
    """One stream. `end`: the brokers have all bytes before it."""

    stream: Stream
    end: int = 0
    pieces: int = 0
    closed: bool = False
    """True once the last piece was taken."""
    size: int = 0
    """The bytes that the file had at the latest look."""
    sent_s: float = 0.0
    """The time of the latest piece (CLOCK_REALTIME)."""


class SpooledAttempt(msgspec.Struct):
    """One attempt of one task, as its record on disk has it."""

    key: TaskKey
    limit: int
    """The bytes of each stream that are spooled."""
    began_s: float
    streams: tuple[SpooledStream, ...]

    @property
    def name(self) -> str:
        """The name of its record; no two attempts share one."""
        return ".".join(map(str, self.key))

    @property
    def open(self) -> bool:
        """True while a piece may follow."""
        return not all(each.closed for each in self.streams)


def spooled_attempt(key: TaskKey, limit: int, now_s: float) -> SpooledAttempt:
    """Return an attempt of which nothing was spooled yet."""
    return SpooledAttempt(key, limit, now_s, (SpooledStream("out"), SpooledStream("err")))


def due(
    jobs: Path, attempt: SpooledAttempt, each: SpooledStream, now_s: float, *, lives: bool
) -> OutputPiece | None:
    """Return the next piece of a stream; None if there is none now. OSError of the disk counts as
    a file that is not there."""
    if each.closed:
        return None
    most = min(PIECE_BYTES, attempt.limit - each.end)
    data = b""
    try:
        with (jobs / folder_name(attempt.key) / each.stream).open("rb") as file:
            each.size = max(os.fstat(file.fileno()).st_size, each.end)
            if _sends(attempt, each, most, now_s, lives=lives):
                data = os.pread(file.fileno(), most, each.end)
    except OSError:
        pass
    last = not lives and _is_last(attempt, each, len(data))
    if not data and not last:
        return None
    t_ns = int(now_s * 1_000_000_000)
    return OutputPiece(each.end, data, t_ns, each.size, attempt.limit, over=last)


def _sends(
    attempt: SpooledAttempt, each: SpooledStream, most: int, now_s: float, *, lives: bool
) -> bool:
    waiting = min(each.size - each.end, most)
    if waiting <= 0 or each.pieces >= PIECES_MAX - 1:
        return False
    return not lives or waiting == most or now_s - each.sent_s >= pause_s(attempt, now_s)


def _is_last(attempt: SpooledAttempt, each: SpooledStream, read: int) -> bool:
    """Return True if no piece follows this one of an attempt that is over."""
    end = each.end + read
    return not read or end >= min(each.size, attempt.limit)


def pause_s(attempt: SpooledAttempt, now_s: float) -> float:
    """Return the pause before a piece that is not whole."""
    part = (now_s - attempt.began_s) / PAUSE_PART
    return min(max(part, PAUSE_LEAST_S), PAUSE_MOST_S)


class SpoolRecords:
    """The records on disk, one file for each attempt; each is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Iterator[SpooledAttempt]:
        """Yield what an earlier agent had not finished; what cannot be read is removed."""
        for path in sorted(self._folder.glob("*")) if self._folder.is_dir() else ():
            try:
                yield _records.decode(path.read_bytes())
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
                path.unlink(missing_ok=True)

    def write(self, attempt: SpooledAttempt) -> None:
        """Replace the record of an attempt; OSError if the disk is full."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        fresh = self._folder / f".{attempt.name}.new"
        fresh.write_bytes(msgspec.json.encode(attempt))
        fresh.replace(self._folder / attempt.name)

    def drop(self, attempt: SpooledAttempt) -> None:
        """Remove the record of an attempt."""
        (self._folder / attempt.name).unlink(missing_ok=True)


_records = msgspec.json.Decoder(SpooledAttempt)
