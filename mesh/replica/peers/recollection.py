# SPDX-License-Identifier: Apache-2.0
"""The return of a replica that has lost its memory: it asks the others what it may have said.

Without I/O. Owns the rule that such a replica does nothing else until so many have answered that
any majority which counted on its word has one of them; its floor and its promise are then theirs.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.log.log_time import Instant
from stoker.mesh.log.roster_change import present
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.durable_word import DurableWord
from stoker.mesh.replica.peers.vote_floor import VoteFloor
from stoker.mesh.replica.peers.voter import PLEDGE_NS, Voter
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import Message, Recalled, RecallRequest

AGAIN_NS = 500_000_000
"""Others are asked again after this time."""
SILENT_NS = PLEDGE_NS
"""Nobody is asked before this time has passed: by then, what the process before this one sent to
others has come, and they know of it."""


class Recollection:
    """One replica's part, on both sides."""

    def __init__(
        self,
        number: int,
        *,
        own: int,
        roster: Roster,
        state: ReplicaState,
        tail: HeldTail,
        voter: Voter,
        floor: VoteFloor,
        word: DurableWord,
        outbox: Outbox,
        send: Callable[[int, Message], None],
        known: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        """`known`: the servers that this host knows, who are asked where the roster has nobody
        else: it may be that of a genesis with one scheduler, beside which others have entered."""
        self._roster = roster
        self._state = state
        self._own = own
        self._number = number
        """The name of this process's question, which no answer to an earlier one has."""
        self._tail = tail
        self._voter = voter
        self._floor = floor
        self._word = word
        self._outbox = outbox
        self._send = send
        self._known = known
        self._next_ns: int | None = None
        self._answers: dict[int, Recalled] = {}

    @property
    def is_due(self) -> bool:
        """True while this replica does not know what it has said."""
        return self._floor.is_unknown

    def tick(self, now: Instant) -> None:
        """Ask all others, and ask them again."""
        if self._next_ns is None:
            self._next_ns = now.boot_ns + SILENT_NS
        if now.boot_ns >= self._next_ns:
            self._next_ns = now.boot_ns + AGAIN_NS
            for each in sorted(self._others() or self._known() - {self._own}):
                self._send(each, RecallRequest(self._number))

    def requested(self, sender: int, message: RecallRequest, now: Instant) -> None:
        """Tell how far the chain reaches that this replica knows of; silent if it has forgotten."""
        if not self.is_due:
            term, index = max(self._tail.end.rank, self._floor.rank)
            members = self._roster.members(self._state)
            roster = tuple((each.number, each.public_key) for each in members)
            recalled = Recalled(message.number, self._voter.promised, term, index, roster)
            self._send(sender, recalled)

    def recalled(self, sender: int, message: Recalled, now: Instant) -> None:
        """Take an answer; with enough of them, this replica takes part again."""
        if not self.is_due or message.number != self._number:
            self._outbox.count("recall_refused")
            return
        self._answers[sender] = message
        self._learn()
        if len(self._answers.keys() & self._others()) < self._needed:
            return
        self._floor.rank = max((each.term, each.index) for each in self._answers.values())
        self._voter.promise(max(each.promised for each in self._answers.values()))
        self._outbox.count("recalled")
        self._word.store_promise()

    # --- who must answer --------------------------------------------------------------------------

    def _learn(self) -> None:
        """Take the roster of the longest chain that was told, which may name others to ask."""
        best = max(self._answers.values(), key=lambda each: (each.term, each.index))
        if best.roster:
            self._roster.tell(tuple(RosterMember(*each) for each in best.roster))

    def _others(self) -> set[int]:
        members = self._roster.told or self._roster.members(self._state)
        return {each.number for each in present(members)} - {self._own}

    @property
    def _needed(self) -> int:
        """The number of others that must answer, which is a majority of all.

        So many have one in each majority that this replica was in, of this roster and of one with
        one scheduler more, of which perhaps only those know who have not answered.
        """
        return (len(self._others()) + 1) // 2 + 1
