# SPDX-License-Identifier: Apache-2.0
"""The return of a replica that has lost its memory: it asks the others what it may have said.

Without I/O. Owns the rule that such a replica does nothing else until so many have answered that
any majority which counted on its word has one of them; its floor and its promise are then theirs.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.durable_word import DurableWord
from stoker.mesh.replica.peers.vote_floor import VoteFloor
from stoker.mesh.replica.peers.voter import PLEDGE_NS, Voter
from stoker.mesh.wire.peer_messages import Message, Recalled, RecallRequest

AGAIN_NS = 500_000_000
"""Others are asked again after this time."""
SILENT_NS = PLEDGE_NS
"""Nobody is asked before this time has passed: by then, what the process before this one sent to
others has come, and they know of it."""


class Recollection:
    """One replica's part, on both sides; `needed` is how many others must answer."""

    def __init__(
        self,
        needed: int,
        number: int,
        *,
        tail: HeldTail,
        voter: Voter,
        floor: VoteFloor,
        word: DurableWord,
        outbox: Outbox,
        send: Callable[[int, Message], None],
        broadcast: Callable[[Message], None],
    ) -> None:
        self._needed = needed
        self._number = number
        """The name of this process's question, which no answer to an earlier one has."""
        self._tail = tail
        self._voter = voter
        self._floor = floor
        self._word = word
        self._outbox = outbox
        self._send = send
        self._broadcast = broadcast
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
            self._broadcast(RecallRequest(self._number))

    def requested(self, sender: int, message: RecallRequest, now: Instant) -> None:
        """Tell how far the chain reaches that this replica knows of; silent if it has forgotten."""
        if not self.is_due:
            term, index = max(self._tail.end.rank, self._floor.rank)
            self._send(sender, Recalled(message.number, self._voter.promised, term, index))

    def recalled(self, sender: int, message: Recalled, now: Instant) -> None:
        """Take an answer; with enough of them, this replica takes part again."""
        if not self.is_due or message.number != self._number:
            self._outbox.count("recall_refused")
            return
        self._answers[sender] = message
        if len(self._answers) < self._needed:
            return
        self._floor.rank = max((each.term, each.index) for each in self._answers.values())
        self._voter.promise(max(each.promised for each in self._answers.values()))
        self._outbox.count("recalled")
        self._word.store_promise()
