# SPDX-License-Identifier: Apache-2.0
"""The reading of the log that is under way, and the one that follows it.

Without I/O. Owns two bounds: one reading is under way at a time, and after a gap nothing more of it
is taken.
"""

from __future__ import annotations

from stoker.mesh.replica import events
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.state import ReplicaState


class LogReader:
    """The readings of one replica."""

    def __init__(self, state: ReplicaState, tail: HeldTail, outbox: Outbox) -> None:
        self.skips = False
        """True after a gap, until the reading ends."""
        self.passes_orphans = False
        """True while entries of another chain than a majority's are passed over."""
        self._state = state
        self._tail = tail
        self._outbox = outbox
        self._under_way = False
        self._next: bool | None = None
        """The next reading: True begins at the oldest held entry, False goes on, None is none."""

    def begin(self, *, again: bool) -> bool:
        """Read forward, or from the oldest held entry if `again`; False if it has to wait."""
        if self._under_way:
            self._next = again or bool(self._next)
            return False
        if again:
            self._state.pass_over(max(0, self._tail.forget_places() - 1))
        self._under_way = True
        self._outbox.put(events.Read(self._state.seen + 1))
        return True

    def over(self) -> bool:
        """Note the end of the reading; True if the next one began."""
        self._under_way = self.skips = self.passes_orphans = False
        again, self._next = self._next, None
        return again is not None and self.begin(again=again)
