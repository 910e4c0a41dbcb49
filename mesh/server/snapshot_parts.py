# SPDX-License-Identifier: Apache-2.0
"""The parts of the newest snapshot file, for a scheduler that the log can no longer bring up.

Guarantees that all parts of one index are of one file, also while newer snapshots are saved.
"""

from __future__ import annotations

import os
from typing import BinaryIO

from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.native.errors import Corrupt
from stoker.native.structured_log import structlog

PART_BYTES = 300_000
"""The most bytes of a file in one message, below the broker's largest payload."""

log = structlog.get_logger("scheduler")


class SnapshotParts:
    """Reads parts of one file at a time, which stays open; `part` may run in any thread."""

    def __init__(self, folder: SnapshotFolder) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._index = 0

    def part(self, wanted: events.ReadSnapshotPart) -> events.SnapshotPartRead:
        """Return a part; its size is 0 if there is no good file.

        Another index than the wanted one says that the transfer begins again with a newer file.
        """
        if self._file is None or wanted.snapshot != self._index:
            self._open_newest()
        if self._file is None:
            return events.SnapshotPartRead(wanted.to, 0, 0, 0, b"")
        descriptor = self._file.fileno()
        data = os.pread(descriptor, PART_BYTES, wanted.offset)
        size = os.fstat(descriptor).st_size
        return events.SnapshotPartRead(wanted.to, self._index, wanted.offset, size, data)

    def _open_newest(self) -> None:
        """Open and check the newest file."""
        if self._file is not None:
            self._file.close()
            self._file = None
        path = self._folder.newest_file()
        if path is None:
            return
        file = path.open("rb")
        try:
            self._index = snapshots.decode(file.read(), str(path))[0].index
        except Corrupt as error:
            log.error("snapshot damaged", what=error.message)
            file.close()
        else:
            self._file = file
