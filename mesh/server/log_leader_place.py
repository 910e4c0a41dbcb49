# SPDX-License-Identifier: Apache-2.0
"""The decision to move the log's leader off the host of the leading scheduler.

Pure. If one host has both and dies, whoever leads next waits for the election of the brokers, which
takes 4 s at least; otherwise it leads at once. Owns the bounds: only a log whose copies are all
current is moved, after this scheduler has led for a while, and seldom.
"""

from __future__ import annotations

from typing import Final

from stoker.mesh.wire.schema_cluster import LogView

SETTLED_NS: Final = 10_000_000_000
"""A leader moves the log after it has led for so long: what its beginning brings, as evictions,
comes first."""
AGAIN_NS: Final = 60_000_000_000


class LogLeaderPlace:
    """The view of one scheduler, whose broker has the name `home`."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._since_ns: int | None = None
        """The moment since which this scheduler leads."""
        self._moved_ns: int | None = None

    def is_due(self, log: LogView | None, now_ns: int, *, leads: bool) -> bool:
        """Return True if the log's leader should move now, and note that it does."""
        if not leads:
            self._since_ns = None
            return False
        if self._since_ns is None:
            self._since_ns = now_ns
        if now_ns - self._since_ns < SETTLED_NS or log is None or log.leader != self._home:
            return False
        moved_lately = self._moved_ns is not None and now_ns - self._moved_ns < AGAIN_NS
        if moved_lately or len(log.copies) < 2 or not all(copy.current for copy in log.copies):
            return False
        self._moved_ns = now_ns
        return True
