# SPDX-License-Identifier: Apache-2.0
"""Which finished jobs keep their folder: so many and so many bytes of each user and of all.

Deciding is pure (`Shelf`); reading the disk is for a worker thread. A folder whose job is still
running is never on the shelf. A user's own oldest folder goes for what that user has too much of;
what all have too much of goes from whoever has most.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.agent.jobs.attempt_folders import folder_name
from stoker.agent.jobs.steps import Key

CAP_MIN = 16 << 20
"""Bytes of output that a job may write in any case, if it asked for so many."""
NOBODY = -1
"""Whose a folder is of which that is not known any more."""


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[retention]` of config.toml."""

    jobs: int = 10_000
    bytes: int = 16 << 30
    user_bytes: int = 8 << 30
    """Of one user (by the Unix user id of the jobs), those of running jobs among them."""


class _Row:
    """One user's finished jobs by age, with what each takes on disk."""

    def __init__(self) -> None:
        self.sizes: OrderedDict[Key, int] = OrderedDict()
        self.bytes = 0

    def pop_oldest(self) -> Key:
        key, size = self.sizes.popitem(last=False)
        self.bytes -= size
        return key


class Shelf:
    """Finished jobs of all users."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._rows: dict[int, _Row] = {}
        self._owners: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def total_bytes(self) -> int:
        """What all of them take."""
        return sum(row.bytes for row in self._rows.values())

    def put(self, key: Key, size: int, uid: int = NOBODY, running: int = 0) -> list[Key]:
        """This attempt has ended; returns those whose folders are to go, oldest first. `running`:
        bytes that the same user's running jobs have written."""
        self.drop(key)
        row = self._rows.setdefault(uid, _Row())
        row.sizes[key] = size
        row.bytes += size
        self._owners[key] = uid
        return [*self.fit(uid, running), *self._fit_all()]

    def fit(self, uid: int, running: int) -> list[Key]:
        """Those of one user that go so that all of this user's output fits; the newest stays."""
        gone: list[Key] = []
        row = self._rows.get(uid)
        while row and row.bytes + running > self._keep.user_bytes and len(row.sizes) > 1:
            gone.append(self._pop(uid))
        return gone

    def _fit_all(self) -> list[Key]:
        gone: list[Key] = []
        while len(self) > self._keep.jobs:
            gone.append(self._pop(max(self._rows, key=lambda uid: len(self._rows[uid].sizes))))
        while self.total_bytes > self._keep.bytes and len(self) > 1:
            gone.append(self._pop(max(self._rows, key=lambda uid: self._rows[uid].bytes)))
        return gone

    def _pop(self, uid: int) -> Key:
        row = self._rows[uid]
        key = row.pop_oldest()
        del self._owners[key]
        if not row.sizes:
            del self._rows[uid]
        return key

    def drop(self, key: Key) -> None:
        """Its folder is gone for another reason."""
        uid = self._owners.pop(key, None)
        if uid is None:
            return
        row = self._rows[uid]
        row.bytes -= row.sizes.pop(key)
        if not row.sizes:
            del self._rows[uid]


def cap(keep: Keep, requested: int, promised: int) -> int:
    """Bytes that a job which starts now may write: what it asked for, or half of what its user's
    running jobs, which may write `promised`, have left of the budget, but at least CAP_MIN."""
    return min(requested, max((keep.user_bytes - promised) // 2, CAP_MIN))


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
