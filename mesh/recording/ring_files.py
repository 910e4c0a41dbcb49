# SPDX-License-Identifier: Apache-2.0
"""The ring of a node: segment files of recorded moments, bounded by bytes and by age.

The agent's recorder writes it, `stoker record` reads it. Owns the bounds, and that a segment is a
recording by itself: a writer that died in the middle of a block costs that block alone.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from stoker.mesh.recording import blocks
from stoker.mesh.recording.blocks import Recorded
from stoker.native.errors import BadRequest

FOLDER: Final = "ring"
SUFFIX: Final = ".rec"
SEGMENT_NS: Final = 60_000_000_000
"""A segment holds this much time at most, so that old time goes in small pieces."""
SEGMENTS_LEAST: Final = 8
"""A segment holds this part of the ring's bytes at most, give or take a block."""
BYTES_MIN: Final = 1 << 20
AGE_MIN_S: Final = 60
INTERVAL_MIN_S: Final = 0.1


class RecordingLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[recording]` of config.toml: whether and how much a node records of itself."""

    enabled: bool = True
    """True if this node records."""
    bytes: int = 64 << 20
    """The most bytes of the ring; beyond that its oldest minutes are removed."""
    age_s: int = 3600
    """Older minutes are removed."""
    interval_s: float = 1.0
    """The time between two samples."""


def check(limits: RecordingLimits) -> None:
    """Raise BadRequest for a bound that no ring can keep."""
    for name, value, least in (
        ("bytes", limits.bytes, BYTES_MIN),
        ("age_s", limits.age_s, AGE_MIN_S),
        ("interval_s", limits.interval_s, INTERVAL_MIN_S),
    ):
        if not value >= least:
            raise BadRequest(f"recording.{name} is {value:g}, and the least is {least:g}")


class RecordingRing:
    """The writing side of a ring; one thread uses it, and none that serves jobs."""

    def __init__(self, folder: Path, limits: RecordingLimits) -> None:
        self._folder, self._limits = folder, limits
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sizes = {path: path.stat().st_size for path in segments(folder)}
        self._open: Path | None = None
        self._begun_ns = 0
        self.counters: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        """The bytes of all segments."""
        return sum(self._sizes.values())

    @property
    def last_ns(self) -> int:
        """The time at which a segment was written last; 0 for an empty ring."""
        return max((path.stat().st_mtime_ns for path in self._sizes if path.exists()), default=0)

    def wants_key(self, now_ns: int) -> bool:
        """Return True if the next block must be a key block, because it begins a segment."""
        if self._open is None or not 0 <= now_ns - self._begun_ns < SEGMENT_NS:
            return True
        return self._sizes[self._open] > self._limits.bytes // SEGMENTS_LEAST

    def append(self, moments: Sequence[Recorded], *, key: bool, now_ns: int | None = None) -> bool:
        """Write one block; a key block begins a segment. False if the disk did not take it, after
        which the next block must be a key block."""
        now_ns = time.time_ns() if now_ns is None else now_ns
        block = blocks.encode(moments, key=key)
        try:
            if key:
                self._begin(now_ns)
            if self._open is None:
                return self._dropped()
            with self._open.open("ab") as file:
                file.write(block)
        except OSError:
            return self._dropped()
        self._sizes[self._open] += len(block)
        self.counters["recording_bytes"] += len(block)
        self._trim(now_ns)
        return True

    def _dropped(self) -> bool:
        """Count a block that is lost. What follows it begins a new segment."""
        self._open = None
        self.counters["recording_blocks_dropped"] += 1
        return False

    def _begin(self, now_ns: int) -> None:
        path = self._folder / f"{now_ns:020d}{SUFFIX}"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(blocks.HEADER)
        self._sizes[path] = len(blocks.HEADER)
        self._open, self._begun_ns = path, now_ns

    def _trim(self, now_ns: int) -> None:
        """Remove the oldest segments until bytes and age are within their bounds."""
        oldest_ns = now_ns - self._limits.age_s * 1_000_000_000
        for path in sorted(self._sizes):
            over = self.bytes > self._limits.bytes or _begun(path) + SEGMENT_NS < oldest_ns
            if path == self._open or not over:
                return
            path.unlink(missing_ok=True)
            del self._sizes[path]
            self.counters["recording_segments_removed"] += 1


def segments(folder: Path) -> list[Path]:
    """Return the segment files of a ring, the oldest first; other files are no part of it."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdigit())


def since(folder: Path, from_ns: int) -> list[Path]:
    """Return the segments that may hold something from this time on."""
    found = segments(folder)
    later = [at for at, path in enumerate(found) if _begun(path) > from_ns]
    first = later[0] - 1 if later else len(found) - 1
    return found[max(0, first) :]


def _begun(path: Path) -> int:
    return int(path.stem)
