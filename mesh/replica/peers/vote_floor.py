# SPDX-License-Identifier: Apache-2.0
"""The floor of one replica's vote: how far the chain reached that it once held.

Without I/O. Owns the rule that what a replica acknowledged and forgot is not voted away: below its
floor it stands for nothing itself, and pledges only to a scheduler whose own chain reaches it.
"""

from __future__ import annotations

from stoker.mesh.log.held_entries import FORGOTTEN, Rank
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.outbox import Outbox


class VoteFloor:
    """The floor of one replica; `rank` is what its disk has."""

    def __init__(self, rank: Rank, tail: HeldTail, outbox: Outbox) -> None:
        self.rank = rank
        """The best end that this replica ever forgot; (0, 0) if it has forgotten nothing."""
        self._tail = tail
        self._outbox = outbox

    @property
    def is_unknown(self) -> bool:
        """True if this replica does not know what it has acknowledged."""
        return self.rank == FORGOTTEN

    @property
    def is_reached(self) -> bool:
        """True if this replica holds again what it has forgotten, or something later."""
        return self._tail.end.rank >= self.rank

    def admits(self, candidate: Rank) -> bool:
        """True if a vote for a candidate whose chain ends there gives up nothing forgotten.

        A chain of the same rank has every entry that a majority could count on: one of an older
        term or a shorter one may lack what this replica alone had acknowledged beside the leader.
        """
        if self.is_reached or candidate >= self.rank:
            return True
        self._outbox.count("pledge_withheld")
        return False

    def forget(self, reached: Rank) -> None:
        """Note that this replica is about to forget what it holds, which reaches this far."""
        self.rank = max(self.rank, self._tail.end.rank, reached)
