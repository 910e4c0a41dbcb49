# SPDX-License-Identifier: Apache-2.0
"""The owners of finished jobs' folders, in a file of fixed records: `<state>/agent/owners`.

A record is appended when a job with a folder is over. The file is rewritten at each start of the
agent and when it has grown past RECORDS_MAX. A folder without a record, after a torn write or an
upgrade, belongs to nobody: it is kept and counted as one more user's.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

from stoker.agent.jobs.steps import Key

RECORDS_MAX = 65_536
_RECORD = struct.Struct("<QIi")
"""One record: job, attempt, Unix user id."""


def read(path: Path) -> dict[Key, int]:
    """Return attempt -> user id, empty if there is no file; a torn last record is left out."""
    try:
        data = path.read_bytes()[: RECORDS_MAX * 2 * _RECORD.size]
    except OSError:
        return {}
    whole = len(data) - len(data) % _RECORD.size
    return {(job, attempt): uid for job, attempt, uid in _RECORD.iter_unpack(data[:whole])}


class FolderOwners:
    """The file of owners, written by one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._count = 0

    def begin(self, owners: Mapping[Key, int]) -> None:
        """Rewrite the file with these owners; OSError if the disk is full."""
        fresh = self._path.with_name(f".{self._path.name}.new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(fresh, flags, 0o600)
        try:
            data = b"".join(_RECORD.pack(*key, uid) for key, uid in owners.items())
            if os.write(descriptor, data) != len(data):
                raise OSError(28, "No space left on device", str(fresh))
            fresh.rename(self._path)
        except OSError:
            os.close(descriptor)
            raise
        self.close()
        self._descriptor, self._count = descriptor, len(owners)

    def add(self, key: Key, uid: int) -> bool:
        """Append one owner; False when the file must be rewritten. OSError if the disk is full."""
        if self._descriptor >= 0:
            if os.write(self._descriptor, _RECORD.pack(*key, uid)) != _RECORD.size:
                os.ftruncate(self._descriptor, self._count * _RECORD.size)
                raise OSError(28, "No space left on device", str(self._path))
            self._count += 1
        return self._count < RECORDS_MAX

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
