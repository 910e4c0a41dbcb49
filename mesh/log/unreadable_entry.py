# SPDX-License-Identifier: Apache-2.0
"""An entry at the end of the log that JetStream counts and cannot read: when to append behind it.

A write that was cut off, for example by a full disk, may leave a number without an entry. JetStream
then refuses every append before that number, and no reading reaches it. Owns the rule that
HOLE_READS readings to the end must agree before the number is passed over. The replica makes sure
that no acknowledged entry is missing.
"""

from __future__ import annotations

HOLE_READS = 3


class UnreadableEntry:
    """Compares the last entry that JetStream names with the last one that was read."""

    def __init__(self) -> None:
        self._last, self._readings = 0, 0
        self._passed_from: int | None = None

    def said(self, last: int) -> None:
        """Note that JetStream refused an append because it has entry `last`; 0 if it named none."""
        if last != self._last:
            self._last, self._readings = last, 0

    def passes(self, seen: int) -> int | None:
        """Note that a reading ended at `seen`; return the number to append behind, or None."""
        if self._last <= seen:
            return None
        self._readings += 1
        if self._readings < HOLE_READS:
            return None
        last, self._last, self._passed_from = self._last, 0, seen
        return last

    def sealed(self) -> None:
        """Forget the number that was passed over, since an entry was appended."""
        self._last, self._passed_from = 0, None

    def withdrawn(self) -> int | None:
        """JetStream no longer counts the number that was passed over, for example after a restart.

        Return where reading had ended, or None if nothing was passed over.
        """
        seen, self._passed_from = self._passed_from, None
        return seen
