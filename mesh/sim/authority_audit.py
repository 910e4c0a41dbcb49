# SPDX-License-Identifier: Apache-2.0
"""The auditor of authority: who pledged to whom, and who acts as a leader.

It keeps books of its own of every vote, in simulated time and by all clocks at once, and trusts no
scheduler's opinion of its own pledges. Owns the rules that no vote is given twice at one time, that
nobody acts without a majority's votes, and that no promise is taken back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from stoker.mesh.log.entry import Entry, Opened
from stoker.mesh.log.held_entries import FORGOTTEN
from stoker.mesh.replica.peers.voter import PLEDGE_NS
from stoker.mesh.replica.replica import Replica
from stoker.mesh.sim.host_clock import DRIFT_PPM_MAX, HostClock
from stoker.mesh.sim.roster_book import RosterBook
from stoker.mesh.sim.scheduler_disk import SchedulerDisk
from stoker.mesh.sim.timeline import Timeline
from stoker.mesh.wire.term_owner import owner_place

BELIEVED_NS = PLEDGE_NS + PLEDGE_NS * DRIFT_PPM_MAX // 1_000_000
"""The longest simulated time for which the slowest clock lets a candidate believe in a pledge."""


class AuditedScheduler(Protocol):
    """A scheduler as its auditors see it; `number` is its place in the roster from 1."""

    name: str
    number: int
    alive: bool
    clock: HostClock
    disk: SchedulerDisk
    replica: Replica


class Vote(NamedTuple):
    """A vote: when it was given, what the candidate's clock showed at that moment, and its term."""

    at_ns: int
    candidate_ns: int
    term: int


NO_VOTES: dict[int, Vote] = {}


class AuthorityAudit:
    """The auditor of the authority of these schedulers."""

    def __init__(
        self,
        violated: Callable[[str], None],
        timeline: Timeline,
        schedulers: list[AuditedScheduler],
        several: bool,
        book: RosterBook,
    ) -> None:
        self._violated = violated
        self._timeline = timeline
        self._schedulers = schedulers
        self._several = several
        self._book = book
        self._votes: dict[int, dict[int, Vote]] = {}
        """The last vote of each voter for each candidate."""
        self._pledged: set[tuple[int, int]] = set()
        """Each voter with each term for which it voted."""
        self._told: dict[int, int] = {}
        """The newest term of which each scheduler told another that it follows it."""
        self._resigned: dict[int, int] = {}
        """The newest term from which each scheduler has resigned."""
        self._origins: dict[bytes, int] = {}
        """The scheduler that appended the entry of each hash first."""
        self._made: dict[tuple[int, int], bytes] = {}
        """The hash of the entry of each term and index."""
        self._term = 0

    # --- votes ------------------------------------------------------------------------------------

    def voted(self, voter: AuditedScheduler, candidate: int, term: int) -> None:
        """Note a vote; it may not overlap one for another candidate."""
        now = self._timeline.now
        votes = self._votes.setdefault(voter.number, {})
        for other, vote in votes.items():
            if other != candidate and self._binds(other, vote) and now - vote.at_ns < BELIEVED_NS:
                ago = (now - vote.at_ns) / 1_000_000
                self._violated(
                    f"{voter.name} pledges to scheduler {candidate}, {ago:.1f} ms after it pledged"
                    f" to scheduler {other}"
                )
        if owner_place(term) != candidate - 1:
            self._violated(f"{voter.name} pledges term {term} to scheduler {candidate}")
        clock = self._schedulers[candidate - 1].clock
        votes[candidate] = Vote(now, clock.boot(), term)
        self._pledged.add((voter.number, term))

    def _binds(self, candidate: int, vote: Vote) -> bool:
        """True if the candidate of this vote has not resigned since."""
        return vote.term > self._resigned.get(candidate, 0)

    def resigned(self, scheduler: AuditedScheduler, term: int) -> None:
        """Note that a scheduler tells others that it acts in this term no more."""
        self._resigned[scheduler.number] = max(self._resigned.get(scheduler.number, 0), term)
        if scheduler.replica.right.may_answer(scheduler.clock.boot()):
            self._violated(f"{scheduler.name} resigns from term {term} and holds pledges")

    def began(self, scheduler: AuditedScheduler, promised: int) -> None:
        """Note that a process began with this promise; it may not be older than what was told."""
        told = self._told.get(scheduler.number, 0)
        if scheduler.disk.floor == FORGOTTEN:  # it has to learn what a majority counts on alone
            self._told[scheduler.number] = self._counted_on(scheduler.number)
        elif promised < told:
            self._violated(
                f"{scheduler.name} begins with the promise of term {promised}, though it has told"
                f" others that it follows term {told}"
            )

    def _counted_on(self, voter: int) -> int:
        """Return the newest term for which a majority voted, this one among them."""
        terms = [term for each, term in self._pledged if each == voter]
        counts = {
            term: sum(each == term and self._is_kept(who, term) for who, each in self._pledged)
            for term in terms
        }
        majority = self._book.largest // 2 + 1
        return max((term for term, count in counts.items() if count >= majority), default=0)

    def _is_kept(self, voter: int, term: int) -> bool:
        """True if this vote came to something: a candidate that dies between its own vote and its
        disk has never voted, and whatever stood on that vote has not happened."""
        on_disk = self._schedulers[voter - 1].disk.promised
        return max(self._told.get(voter, 0), on_disk) >= term

    def told(self, scheduler: AuditedScheduler, term: int) -> None:
        """Note that another hears which term this scheduler follows; its disk must say so, too."""
        before, on_disk = self._told.get(scheduler.number, 0), scheduler.disk.promised
        if term < before:
            self._violated(f"{scheduler.name} follows term {term} after term {before}")
        if on_disk < term:
            self._violated(f"{scheduler.name} tells term {term}, and its disk has {on_disk}")
        self._told[scheduler.number] = max(before, term)

    # --- acts of a leader -------------------------------------------------------------------------

    def acts(self, scheduler: AuditedScheduler, what: str) -> None:
        """Note an act for which a majority's unexpired votes are needed, and no other's."""
        if not self._several:
            return
        since, number, voters = scheduler.clock.boot() - PLEDGE_NS, scheduler.number, 0
        here = self._book.after(scheduler.replica.tail.end.hash)
        for voter in here:
            vote = self._votes.get(voter, NO_VOTES).get(number)
            if vote is not None and vote.candidate_ns > since and self._binds(number, vote):
                voters += 1
        if number not in here:
            self._violated(f"{scheduler.name} {what} and has left the roster")
        if voters <= len(here) // 2:
            self._violated(f"{scheduler.name} {what} with the pledges of {voters} schedulers")
        for other in self._schedulers:
            if other is not scheduler and self._holds(other) and self._holds(scheduler):
                self._violated(f"{scheduler.name} {what} while {other.name} holds pledges, too")
                break

    def _holds(self, scheduler: AuditedScheduler) -> bool:
        """True if a scheduler believes that it may lead, and its clock gives it no excuse.

        Nothing but the nodes can tell that a stopped clock lies.
        """
        clock = scheduler.clock
        if not scheduler.alive or not scheduler.replica.right.may_answer(clock.boot()):
            return False
        return clock.steady_ns() >= BELIEVED_NS

    # --- entries ----------------------------------------------------------------------------------

    def appends(self, scheduler: AuditedScheduler, opened: Opened) -> None:
        """Note an entry that a scheduler appends: one of its own, or one that it repairs."""
        self.acts(scheduler, "appends")
        entry, digest = opened.entry, opened.hash
        if entry.leader != scheduler.number:
            if digest not in self._origins:
                self._violated(f"{scheduler.name} repairs an entry that nobody appended")
            return
        self._origins.setdefault(digest, scheduler.number)
        if self._several and owner_place(entry.term) != scheduler.number - 1:
            self._violated(f"{scheduler.name} appends in term {entry.term} of another")
        at = (entry.term, entry.prev_index + 1)
        if self._several and self._made.setdefault(at, digest) != digest:
            self._violated(f"{scheduler.name} makes two entries {at[1]} of term {at[0]}")
        if self._several and scheduler.disk.promised < entry.term:
            self._violated(f"{scheduler.name} appends in term {entry.term} before it promised it")

    def applied(self, who: str, entry: Entry, digest: bytes) -> None:
        """Note an entry that a replica applied: its leader appended it, by right of its term."""
        if digest not in self._origins:
            index = entry.prev_index + 1
            self._violated(f"{who} applies entry {index}, which no scheduler has appended")
        if entry.term > self._term and self._several:
            here = self._book.after(entry.prev_hash)
            voters = sum((voter, entry.term) in self._pledged for voter in here)
            if voters < self._book.majority(entry.prev_hash):
                self._violated(f"term {entry.term} began with the pledges of {voters} schedulers")
        self._term = max(self._term, entry.term)
