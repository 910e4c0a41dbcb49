# SPDX-License-Identifier: Apache-2.0
"""The plan of snapshots: when to take one, and how far the log may then be trimmed.

Owns the bound on the log: a snapshot follows after a number of entries or bytes, and the log is
kept since the snapshot before it, in case the newest file is damaged.
"""

from __future__ import annotations

SNAPSHOT_LOG_SHARE = 0.25
"""A snapshot is taken after this part of the log's bytes; the log keeps up to two parts."""
SNAPSHOT_BYTES = 8 << 20
"""A snapshot is taken after this many bytes in any case; a restart reads them in about 1 s."""


class SnapshotPlan:
    """Counts entries and bytes since the last snapshot; at most one is under way.

    `newest` is the log entry of the newest good file, or 0.
    """

    def __init__(self, log_max_bytes: int, entries_max: int, newest: int = 0) -> None:
        self.under_way = False
        self._entries_max = entries_max
        self._bytes_max = min(int(log_max_bytes * SNAPSHOT_LOG_SHARE), SNAPSHOT_BYTES)
        self._entries = 0
        self._bytes = 0
        self._requested = self._trimmed = 0
        self._refused = False
        self._before, self._newest = 0, newest

    def applied(self, size: int) -> None:
        """An entry of `size` bytes was applied."""
        self._entries += 1
        self._bytes += size

    def due(self) -> bool:
        """Return True if a snapshot should be taken now."""
        enough = self._entries >= self._entries_max or self._bytes >= self._bytes_max
        return enough and not self.under_way

    def begin(self) -> None:
        """A snapshot is being taken; if it fails, the next is due after as many entries again."""
        self.under_way = True
        self._entries = self._bytes = 0

    def trim(self, seq: int) -> int | None:
        """Return `seq` if the log must be trimmed up to it, None if it was trimmed further."""
        if seq <= self._requested:
            return None
        self._requested = seq
        return seq

    def trimmed(self, seq: int) -> None:
        """The log was trimmed up to `seq`; the next append will show if it has room."""
        self._trimmed = max(self._trimmed, seq)
        self._refused = False

    def trim_failed(self) -> None:
        """The log was not trimmed: it may be requested again."""
        self._requested = self._trimmed

    def refused(self) -> None:
        """The log refused an entry because it is full."""
        self._refused = True

    def saved(self, seq: int, full: bool) -> int | None:
        """A snapshot is durable; return how far to trim the log if it is `full`, else None.

        The log is trimmed to the snapshot before this one, so that either file suffices. Only a log
        that stayed full after that is trimmed to the newest file.
        """
        self.under_way = False
        if seq != self._newest:
            self._before, self._newest = self._newest, seq
        if not full:
            return None
        useless = self._refused and self._before <= self._trimmed
        return self.trim(seq if useless else self._before)
