# SPDX-License-Identifier: Apache-2.0
"""An end of the log that the engine counts and nobody can read: when to go on behind it.

A write that was cut off, as by a full disk, may leave a number without an entry: the engine then
refuses every append before it, and a reading never comes to it. Owns the rule that HOLE_READS
readings to the end must agree; that nothing was promised by what is missing is for the replica to
know. An entry behind a hole is signed and names the last one that counted.
"""

from __future__ import annotations

HOLE_READS = 3


class UnreadableEntry:
    """What the engine says against what was read."""

    def __init__(self) -> None:
        self._last, self._readings = 0, 0
        self._passed_from: int | None = None

    def said(self, last: int) -> None:
        """The engine refused an append because entry `last` is there; 0: it said nothing."""
        if last != self._last:
            self._last, self._readings = last, 0

    def passes(self, seen: int) -> int | None:
        """A reading ended at `seen`: where to append behind instead, if it is time."""
        if self._last <= seen:
            return None
        self._readings += 1
        if self._readings < HOLE_READS:
            return None
        last, self._last, self._passed_from = self._last, 0, seen
        return last

    def sealed(self) -> None:
        """An entry was appended: it stands behind whatever was missing."""
        self._last, self._passed_from = 0, None

    def withdrawn(self) -> int | None:
        """The engine does not even have what was passed, as after its restart: where reading had
        ended. None if nothing was passed."""
        found, self._passed_from = self._passed_from, None
        return found
