# SPDX-License-Identifier: Apache-2.0
"""The pledges that a candidate or leader holds: its authority, and until when.

Without I/O; `now_ns` is CLOCK_BOOTTIME. Guarantees that a pledge ends at the moment of the request
that it answers plus PLEDGE_NS, so that no delay of the answer lengthens it, and that they give no
authority to a scheduler which is not in the roster at the end of its own chain, nor to one whose
chain a voter knows to go on: the roster may have changed there.
"""

from __future__ import annotations

from stoker.mesh.replica.log.held_entry import ChainPlace
from stoker.mesh.replica.peers.quorum import Quorum
from stoker.mesh.replica.peers.voter import PLEDGE_NS
from stoker.mesh.wire.peer_messages import Pledge


class Pledges:
    """The pledges for one term at a time to the scheduler `own`, its own vote among them."""

    def __init__(self, own: int, quorum: Quorum) -> None:
        self._own = own
        self.term = 0
        self.quorum = quorum
        self.requested_ns = 0
        """The stamp of the newest request for pledges."""
        self.won_ns = 0
        """The moment at which a majority had pledged for this term; 0 until then."""
        self._is_early = False
        """True if a voter pledged for this term because another candidate had resigned."""
        self._until: dict[int, int] = {}
        self._until_ns = 0
        self._counted_of = quorum.numbers
        """The schedulers of which `_until_ns` was counted."""
        self._sealed: dict[int, bytes] = {}
        self._ends: dict[int, ChainPlace] = {}
        """The end of the chain of each voter of this term, as it was with its newest pledge."""

    def begin(self, term: int) -> None:
        """Begin to collect for a term."""
        self.term = term
        self._until_ns = self.won_ns = 0
        self._is_early = False
        self._until.clear()
        self._sealed.clear()
        self._ends.clear()

    def end(self) -> None:
        """Hold no pledge any more."""
        self.begin(0)

    def take(self, pledge: Pledge, sealed: bytes, now_ns: int, *, early: bool = False) -> bool:
        """Hold a pledge of a voter; False if it is not for this term, from the future, or not newer
        than the one that is held. `early` is as in `Promised`."""
        if pledge.term != self.term or pledge.stamp_ns > now_ns:
            return False
        until_ns = pledge.stamp_ns + PLEDGE_NS
        if until_ns <= self._until.get(pledge.voter, 0):
            return False
        self._is_early |= early
        self._until[pledge.voter] = until_ns
        self._sealed[pledge.voter] = sealed
        self._recount()
        if self._until_ns and not self.won_ns:
            self.won_ns = now_ns
        return True

    @property
    def until_ns(self) -> int:
        """The moment up to which a majority's pledges hold; 0 if there is no majority, or if this
        scheduler has left the roster.

        With another roster it may be another majority, which has to be won anew.
        """
        if self._until and self.of_another_roster:
            self._recount()
            if not self._until_ns:
                self.won_ns = 0
        return self._until_ns

    @property
    def of_another_roster(self) -> bool:
        """True from a change of the roster until the majority is counted anew, if there is anything
        to count."""
        return bool(self._until) and self._counted_of is not self.quorum.numbers

    def _recount(self) -> None:
        self._counted_of = numbers = self.quorum.numbers
        self._until_ns = self.quorum.reached(self._until) if self._own in numbers else 0

    @property
    def others_ns(self) -> int:
        """Return the moment since which no other scheduler can have had a majority pledge to it.

        Each voter of this majority had waited for the end of its last pledge to another, and one of
        them is in every other majority. A voter that did not wait knew that the other had resigned
        by then.
        """
        return self.won_ns if self._is_early else self.won_ns - PLEDGE_NS

    def names_end(self, voter: int, end: ChainPlace) -> None:
        """Note the end of the chain that a voter has with its pledge."""
        self._ends[voter] = end

    def best(self, own: ChainPlace) -> tuple[int, ChainPlace] | None:
        """Return the voter that holds a longer chain of a newer or equal term than one with this
        end. Entries of the own term are not looked at: they are of this scheduler, and a voter may
        read one in the log before its append is acknowledged. Nor is a voter that has left: no
        entry of it is heard, and what was confirmed is held by one of those who count.
        """
        found, rank = None, own.rank
        for voter, end in self._ends.items():
            if voter not in self.quorum.numbers:
                continue
            if end.term != self.term and end.rank > rank:
                found, rank = (voter, end), end.rank
        return found

    def right_ns(self, own: ChainPlace) -> int:
        """Return the moment up to which this scheduler, with this end of its chain, has authority;
        0 while a voter has more.

        What it lacks may be a change of the roster that let voters of this one go. They are bound
        to nobody who leads by the next roster, so their pledges exclude nobody.
        """
        until_ns = self.until_ns
        return until_ns if until_ns and self.best(own) is None else 0

    def since(self, stamp_ns: int) -> set[int]:
        """Return the voters that have pledged on a request of a later stamp than this one."""
        return {voter for voter, until in self._until.items() if until - PLEDGE_NS > stamp_ns}

    @property
    def count(self) -> int:
        """The number of voters that pledged for this term, whether or not the pledges hold yet."""
        return self.quorum.count(self._until)

    def lets(self, members: Quorum, now_ns: int) -> bool:
        """True while the pledges that are held would be a majority's in another roster."""
        return now_ns < members.reached(self._until)

    def hold(self, now_ns: int) -> bool:
        """True while a majority's pledges are unexpired."""
        return now_ns < self.until_ns

    def has(self, voter: int, now_ns: int) -> bool:
        """True while the pledge of this voter is unexpired."""
        return now_ns < self._until.get(voter, 0)

    def vouchers(self) -> tuple[bytes, ...]:
        """Return the sealed pledges of all others."""
        return tuple(data for _, data in sorted(self._sealed.items()) if data)

    def sealed(self, own: int) -> tuple[bytes, ...]:
        """Return the sealed pledges of the others, as many as a majority needs."""
        counted = self.quorum.numbers - {own}
        others = [data for voter, data in sorted(self._sealed.items()) if voter in counted]
        return tuple(others[: self.quorum.majority - 1])
