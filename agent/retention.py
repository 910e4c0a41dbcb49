# SPDX-License-Identifier: Apache-2.0
"""Which finished jobs keep their folder: the newest JOBS of them, within BYTES, oldest go first.

Relied on by keeping, which deletes. Deciding is pure (`Shelf`); reading the disk is for a worker
thread. A folder whose job is still running is never on the shelf.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

import msgspec


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[retention]` of config.toml."""

    jobs: int = 10_000
    bytes: int = 16 << 30


class Shelf:
    """Finished jobs by age, with what each takes on disk."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def total_bytes(self) -> int:
        """What all of them take."""
        return self._bytes

    def put(self, job: int, size: int) -> list[int]:
        """This job has ended; returns the jobs whose folders are to go, oldest first."""
        self.drop(job)
        self._sizes[job] = size
        self._bytes += size
        gone: list[int] = []
        while len(self._sizes) > self._keep.jobs or (
            self._bytes > self._keep.bytes and len(self._sizes) > 1
        ):
            oldest, freed = self._sizes.popitem(last=False)
            self._bytes -= freed
            gone.append(oldest)
        return gone

    def drop(self, job: int) -> None:
        """Its folder is gone for another reason."""
        self._bytes -= self._sizes.pop(job, 0)


def scan(folder: Path, jobs: Iterable[int]) -> list[tuple[int, int]]:
    """(job, bytes) of these jobs' folders, oldest first; one that is gone is left out."""
    found: list[tuple[float, int, int]] = []
    for job in jobs:
        path = folder / str(job)
        with contextlib.suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, job, size_of(path)))
    return [(job, size) for _, job, size in sorted(found)]


def size_of(folder: Path) -> int:
    """Bytes on disk of one job's files."""
    return sum(entry.stat().st_blocks * 512 for entry in folder.iterdir() if entry.is_file())
