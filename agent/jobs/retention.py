# SPDX-License-Identifier: Apache-2.0
"""Retention of finished jobs' folders: limits by number and bytes, of each user and of all.

`FinishedFolders` decides and is pure; a worker thread reads the disk. It never sees the folder of a
running job. Over a user's limit, that user's oldest folder goes; over the node's limit, a folder of
the user who has most.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from stoker.agent.jobs.attempt_folders import folder_name
from stoker.scheduler.nouns import TaskKey

CAP_MIN = 16 << 20
"""Bytes of output that a job may always write if its specification allows them."""
NOBODY = -1
"""The owner of a folder whose owner is unknown."""


class RetentionLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[retention]` of config.toml."""

    jobs: Annotated[int, Meta(ge=0)] = 10_000
    """Folders of finished jobs that are kept."""
    bytes: Annotated[int, Meta(ge=0)] = 16 << 30
    """Bytes of all these folders; beyond that the oldest of whoever has most go first."""
    user_bytes: Annotated[int, Meta(ge=0)] = 8 << 30
    """Bytes of one Unix user id, output of running jobs included."""


class _Row:
    """One user's finished jobs by age, with what each takes on disk."""

    def __init__(self) -> None:
        self.sizes: OrderedDict[TaskKey, int] = OrderedDict()
        self.bytes = 0

    def pop_oldest(self) -> TaskKey:
        key, size = self.sizes.popitem(last=False)
        self.bytes -= size
        return key


class FinishedFolders:
    """Finished jobs of all users."""

    def __init__(self, limits: RetentionLimits) -> None:
        self._limits = limits
        self._rows: dict[int, _Row] = {}
        self._owners: dict[TaskKey, int] = {}

    def __len__(self) -> int:
        return len(self._owners)

    @property
    def total_bytes(self) -> int:
        """Return the bytes of all folders."""
        return sum(row.bytes for row in self._rows.values())

    def put(self, key: TaskKey, size: int, uid: int = NOBODY, running: int = 0) -> list[TaskKey]:
        """Add an ended attempt; return the attempts whose folders must go, oldest first. `running`:
        bytes that the same user's running jobs have written."""
        self.drop(key)
        row = self._rows.setdefault(uid, _Row())
        row.sizes[key] = size
        row.bytes += size
        self._owners[key] = uid
        return [*self.fit(uid, running), *self._fit_all()]

    def fit(self, uid: int, running: int) -> list[TaskKey]:
        """Return one user's attempts that must go so that the user's output fits; the newest
        stays."""
        gone: list[TaskKey] = []
        row = self._rows.get(uid)
        while row and row.bytes + running > self._limits.user_bytes and len(row.sizes) > 1:
            gone.append(self._pop(uid))
        return gone

    def _fit_all(self) -> list[TaskKey]:
        gone: list[TaskKey] = []
        while len(self) > self._limits.jobs:
            gone.append(self._pop(max(self._rows, key=lambda uid: len(self._rows[uid].sizes))))
        while self.total_bytes > self._limits.bytes and len(self) > 1:
            gone.append(self._pop(max(self._rows, key=lambda uid: self._rows[uid].bytes)))
        return gone

    def _pop(self, uid: int) -> TaskKey:
        row = self._rows[uid]
        key = row.pop_oldest()
        del self._owners[key]
        if not row.sizes:
            del self._rows[uid]
        return key

    def drop(self, key: TaskKey) -> None:
        """Remove an attempt whose folder is gone for another reason."""
        uid = self._owners.pop(key, None)
        if uid is None:
            return
        row = self._rows[uid]
        row.bytes -= row.sizes.pop(key)
        if not row.sizes:
            del self._rows[uid]


def cap(limits: RetentionLimits, requested: int, promised: int) -> int:
    """Return the bytes that a job which starts now may write: `requested`, or half of the user's
    budget that is left after `promised` bytes of running jobs, but at least CAP_MIN."""
    return min(requested, max((limits.user_bytes - promised) // 2, CAP_MIN))


def scan(folder: Path, keys: Iterable[TaskKey]) -> list[tuple[TaskKey, int]]:
    """Return (attempt, bytes) of these folders, oldest first; a folder that is gone is left out."""
    found: list[tuple[float, TaskKey, int]] = []
    for key in keys:
        path = folder / folder_name(key)
        with contextlib.suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, key, size_of(path)))
    return [(key, size) for _, key, size in sorted(found)]


def size_of(folder: Path) -> int:
    """Return the bytes on disk of one job's files."""
    return sum(entry.stat().st_blocks * 512 for entry in folder.iterdir() if entry.is_file())
