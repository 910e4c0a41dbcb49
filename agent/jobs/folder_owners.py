# SPDX-License-Identifier: Apache-2.0
"""The owners of finished jobs' folders, in a file of fixed records: `<state>/agent/owners`.

A record is appended when a job with a folder is over. The file is rewritten at each start of the
agent and when it has grown past RECORDS_MAX. A folder without a record, after a torn write or an
upgrade, belongs to nobody: it is kept and counted as one more user's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from stoker.agent.state.append_file import AppendFile
from stoker.scheduler.nouns import TaskKey

RECORDS_MAX = 65_536
_RECORD = struct.Struct("<QIIi")
"""One record: the name of an attempt, Unix user id."""


def read(path: Path) -> dict[TaskKey, int]:
    """Return name of an attempt -> user id, empty if there is no file; a torn last record is left
    out."""
    try:
        data = path.read_bytes()[: RECORDS_MAX * 2 * _RECORD.size]
    except OSError:
        return {}
    whole = len(data) - len(data) % _RECORD.size
    records = _RECORD.iter_unpack(data[:whole])
    return {TaskKey(job, attempt, task): uid for job, attempt, task, uid in records}


class FolderOwners:
    """The file of owners, written by one thread."""

    def __init__(self, path: Path) -> None:
        self._file = AppendFile(path)

    def begin(self, owners: Mapping[TaskKey, int]) -> None:
        """Rewrite the file with these owners; OSError if the disk is full."""
        self._file.rewrite(b"".join(_packed(key, uid) for key, uid in owners.items()))

    def add(self, owners: Iterable[tuple[TaskKey, int]]) -> bool:
        """Append owners in one write; False when the file must be rewritten. OSError if the disk is
        full."""
        if self._file.opened:
            self._file.append(b"".join(_packed(key, uid) for key, uid in owners))
        return self._file.size < RECORDS_MAX * _RECORD.size

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _packed(key: TaskKey, uid: int) -> bytes:
    return _RECORD.pack(key.job, key.attempt, key.task, uid)
