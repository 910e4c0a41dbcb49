# SPDX-License-Identifier: Apache-2.0
"""The servers outside the roster, which may enter it: how far each has read the log.

Without I/O. Owns that a leader lets nobody enter who is not there, or who lacks what the leader had
at the question before last: from the entry on, majorities are counted with the new one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from stoker.mesh.identity.identity import Checks
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.peers.quorum import Quorum
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import Message, Witnessed, WitnessRequest

AGAIN_NS = 1_000_000_000
"""They are asked again after this time."""
HEARD_NS = 3_000_000_000
"""A server that has not answered for so long is not there."""


class Applicants:
    """Those that one replica, whose number is `own`, knows; `send` sends to another scheduler.

    The numbers of its questions follow from `seed`, so that no answer to another process counts.
    """

    def __init__(
        self,
        seed: int,
        *,
        own: int,
        roster: Roster,
        quorum: Quorum,
        tail: HeldTail,
        send: Callable[[int, Message], None],
    ) -> None:
        self._own = own
        self._roster = roster
        self._quorum = quorum
        self._tail = tail
        self._send = send
        self._keys: Mapping[int, Checks | None] | None = None
        self._question = random.Random(f"applicants {seed}").getrandbits(48)
        self.requested: frozenset[int] = frozenset()
        """The servers outside the roster that were requested last to pledge."""
        self._asked_ns = 0
        self._ends = (-1, -1)
        """The end of the leader's chain at the question before last and at the last; -1 before."""
        self._told: dict[int, tuple[int, int, bool]] = {}
        """The time of each one's answer, the entry that it had reached, and if that was enough."""

    def know(self, servers: Iterable[RosterMember]) -> None:
        """Know these servers, whether or not they are in the roster."""
        self._keys = {each.number: self._roster.opened(each) for each in servers}

    def key(self, number: int) -> Checks | None:
        """Return the verifier of a server; None of one that nobody has named."""
        return self._keys.get(number) if self._keys is not None else None

    # --- the leader -------------------------------------------------------------------------------

    def tick(self, now: Instant, *, leads: bool) -> None:
        """Ask those outside the roster how far they are, once a second while this replica leads."""
        if not leads or not (outside := self._outside()):
            self._told.clear()
            self._ends = (-1, -1)
        elif now.boot_ns - self._asked_ns >= AGAIN_NS:
            self._asked_ns = now.boot_ns
            self._question += 1
            self._ends = self._ends[1], self._tail.end.index
            for each in sorted(outside):
                self._send(each, WitnessRequest(self._question))

    def _outside(self) -> set[int]:
        return {*(self._keys or ())} - self._quorum.numbers - {self._own}

    def told(self, sender: int, message: Witnessed, now: Instant) -> bool:
        """Take an answer; False if it is none to the last question here."""
        if message.number != self._question:
            return False
        enough = 0 <= self._ends[0] <= message.last
        self._told[sender] = now.boot_ns, message.last, enough
        return True

    def answering(self, now_ns: int) -> frozenset[int]:
        """Return those outside the roster that are there."""
        there = {each for each, told in self._told.items() if now_ns - told[0] < HEARD_NS}
        return frozenset(there & self._outside())

    def pledging(self, now_ns: int, *, leads: bool) -> frozenset[int]:
        """Return those whose pledges a leader requests before they are in the roster, and note
        them: beside one scheduler a second one is half of the next majority, which must have
        pledged when the change is held. They are there, and have read the log.
        """
        one = leads and len(self._quorum.numbers) == 1
        ready = (each for each in self.answering(now_ns) if self._told[each][2])
        self.requested = frozenset(ready) if one else frozenset()
        return self.requested

    def voter_key(self, number: int, state: ReplicaState) -> Checks | None:
        """Return the verifier of a scheduler of the roster, or of a server outside it that was
        requested to pledge."""
        outside = self.key(number) if number in self.requested else None
        return self._roster.key(number, state) or outside

    @property
    def known(self) -> frozenset[int]:
        """The servers that were named, in the roster or not."""
        return frozenset(self._keys or ())

    def lack(self, number: int, now: Instant) -> str:
        """Return why one of them does not enter yet; empty if it may, and where nobody was named
        at all."""
        if self._keys is None:
            return ""
        if number not in self.answering(now.boot_ns):
            return "the scheduler of that server does not answer the leader"
        _, last, enough = self._told[number]
        end = self._tail.end.index
        return "" if enough else f"that server has read entry {min(last, end)} of {end}"
