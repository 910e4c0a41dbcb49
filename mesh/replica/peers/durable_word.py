# SPDX-License-Identifier: Apache-2.0
"""One replica's word to the others as its disk has it: what it holds, promises and has forgotten.

Without I/O. Owns the order: whatever another scheduler may count on is stored by an effect that
comes before the one that tells it, or before the one that forgets it.
"""

from __future__ import annotations

from stoker.mesh.log.held_entries import Rank
from stoker.mesh.replica import events
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.vote_floor import VoteFloor
from stoker.mesh.replica.peers.voter import Voter


class DurableWord:
    """The disk of one replica, as far as others depend on it."""

    def __init__(self, tail: HeldTail, voter: Voter, floor: VoteFloor, outbox: Outbox) -> None:
        self._tail = tail
        self._voter = voter
        self._floor = floor
        self._outbox = outbox
        self._stored = tail.end

    def store_new(self) -> bool:
        """Store what was held or dropped since the last time; False if nothing was."""
        end, before = self._tail.end, self._stored
        if end == before and not self._tail.dropped:
            return False
        kept = min(before.index, (self._tail.dropped or before.index + 1) - 1, end.index)
        self._store(kept)
        return True

    def store_promise(self) -> None:
        """Store the promised term and the floor of the vote, with what else is new."""
        if not self.store_new():
            self._store(self._tail.end.index)

    def install(self, data: bytes, why: str, reached: Rank = (0, 0)) -> None:
        """Begin again with a snapshot file that reaches this far, or with nothing.

        The floor is durable before anything is forgotten, since others count on what this replica
        has acknowledged.
        """
        self._floor.forget(reached)
        self.store_promise()
        self._outbox.put(events.Install(data, why))

    def _store(self, after: int) -> None:
        """Store the entries behind `after`, and the word itself, before any later effect."""
        held = tuple((each.index, each.data) for each in self._tail.after(after))
        self._outbox.put(events.Store(after, held, self._voter.promised, self._floor.rank))
        self._tail.dropped = 0
        self._stored = self._tail.end
