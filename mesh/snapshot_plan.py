# SPDX-License-Identifier: Apache-2.0
"""When to take a snapshot and how far the log may then be trimmed.

Relied on by replica. Owns the bound on the log: a snapshot after so many entries or bytes, and the
log kept since the one before, so that the newest file may turn out to be damaged.
"""

from __future__ import annotations

SNAPSHOT_ENTRIES = 8192
"""Entries after which a snapshot is taken: bounds what a restart has to read."""
SNAPSHOT_LOG_SHARE = 0.25
"""Part of the log's bytes after which a snapshot is taken; the log keeps two such parts."""
SNAPSHOT_BYTES = 8 << 20
"""Bytes after which one is taken in any case: a restart reads them in about a second."""


class SnapshotPlan:
    """Counts since the last snapshot; at most one is under way."""

    def __init__(self, log_max_bytes: int, entries_max: int) -> None:
        self.under_way = False
        self._entries_max = entries_max
        self._bytes_max = min(int(log_max_bytes * SNAPSHOT_LOG_SHARE), SNAPSHOT_BYTES)
        self._entries = 0
        self._bytes = 0
        self._trimmed = 0

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

    def trim(self, seq: int) -> int:
        """Note that the log is trimmed up to `seq`, and return it."""
        self._trimmed = seq
        return seq

    def make_room(self, newest: int, before: int) -> int:
        """Up to where to trim a full log: to the snapshot before, else to the newest."""
        return self.trim(before if before > self._trimmed else newest)
