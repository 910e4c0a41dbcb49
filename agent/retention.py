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

from stoker.agent.places import folder_name
from stoker.agent.steps import Key


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[retention]` of config.toml."""

    jobs: int = 10_000
    bytes: int = 16 << 30


class Shelf:
    """Finished jobs by age, with what each takes on disk."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._sizes: OrderedDict[Key, int] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def total_bytes(self) -> int:
        """What all of them take."""
        return self._bytes

    def put(self, key: Key, size: int) -> list[Key]:
        """This attempt has ended; returns those whose folders are to go, oldest first."""
        self.drop(key)
        self._sizes[key] = size
        self._bytes += size
        gone: list[Key] = []
        while len(self._sizes) > self._keep.jobs or (
            self._bytes > self._keep.bytes and len(self._sizes) > 1
        ):
            oldest, freed = self._sizes.popitem(last=False)
            self._bytes -= freed
            gone.append(oldest)
        return gone

    def drop(self, key: Key) -> None:
        """Its folder is gone for another reason."""
        self._bytes -= self._sizes.pop(key, 0)


def scan(folder: Path, keys: Iterable[Key]) -> list[tuple[Key, int]]:
    """(attempt, bytes) of these folders, oldest first; one that is gone is left out."""
    found: list[tuple[float, Key, int]] = []
    for key in keys:
        path = folder / folder_name(*key)
        with contextlib.suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, key, size_of(path)))
    return [(key, size) for _, key, size in sorted(found)]


def size_of(folder: Path) -> int:
    """Bytes on disk of one job's files."""
    return sum(entry.stat().st_blocks * 512 for entry in folder.iterdir() if entry.is_file())
