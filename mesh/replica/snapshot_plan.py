# SPDX-License-Identifier: Apache-2.0
"""When to take a snapshot and how far the log may then be trimmed.

Owns the bound on the log: a snapshot after so many entries or bytes, and the log kept since the one
before, so that the newest file may turn out to be damaged.
"""

from __future__ import annotations

SNAPSHOT_ENTRIES = 8192
"""Entries after which a snapshot is taken: bounds what a restart has to read."""
SNAPSHOT_LOG_SHARE = 0.25
"""Part of the log's bytes after which a snapshot is taken; the log keeps two such parts."""
SNAPSHOT_BYTES = 8 << 20
"""Bytes after which one is taken in any case: a restart reads them in about a second."""


class SnapshotPlan:
    """Counts since the last snapshot; at most one is under way.

    `newest` is the log entry of the newest good file, 0 for none.
    """

    def __init__(self, log_max_bytes: int, entries_max: int, newest: int = 0) -> None:
        self.under_way = False
        self._entries_max = entries_max
        self._bytes_max = min(int(log_max_bytes * SNAPSHOT_LOG_SHARE), SNAPSHOT_BYTES)
        self._entries = 0
        self._bytes = 0
        self._asked = self._trimmed = 0
        self._refused = False
        self._before, self._newest = 0, newest

    def applied(self, size: int) -> None:
        """One more entry of `size` bytes."""
        self._entries += 1
        self._bytes += size

    def due(self) -> bool:
        """Whether it is time."""
        enough = self._entries >= self._entries_max or self._bytes >= self._bytes_max
        return enough and not self.under_way

    def begin(self) -> None:
        """A snapshot is being taken; if it fails, the next is due after another round."""
        self.under_way = True
        self._entries = self._bytes = 0

    def trim(self, seq: int) -> int | None:
        """`seq`, noted as where the log is to begin, or None if it will begin later already."""
        if seq <= self._asked:
            return None
        self._asked = seq
        return seq

    def trimmed(self, seq: int) -> None:
        """The log did begin anew; whether it has room again, the next append will show."""
        self._trimmed = max(self._trimmed, seq)
        self._refused = False

    def trim_failed(self) -> None:
        """The log is as it was: trimming may be asked for again."""
        self._asked = self._trimmed

    def refused(self) -> None:
        """The log took no entry: it is full."""
        self._refused = True

    def saved(self, seq: int, full: bool) -> int | None:
        """A file is whole on disk; up to where to trim a full log, None for a log that is not.

        To the file before this one, both are kept. Only a log that is known to have stayed full
        when it began there depends on its newest file alone.
        """
        self.under_way = False
        if seq != self._newest:
            self._before, self._newest = self._newest, seq
        if not full:
            return None
        useless = self._refused and self._before <= self._trimmed
        return self.trim(seq if useless else self._before)
