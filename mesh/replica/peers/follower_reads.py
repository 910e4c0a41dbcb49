# SPDX-License-Identifier: Apache-2.0
"""Reads at a follower: each waits until this replica has all that was acknowledged before it began.

Without I/O; deadlines are CLOCK_BOOTTIME. Owns two rules: a read index serves only the reads that
came before it was requested, and every read is answered once, with a reason if not with a position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stoker.mesh.broker.budgets import READS_MAX, Seats
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.voter import Voter
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import Message, ReadIndexReply, ReadIndexRequest
from stoker.native.errors import NotLeader, StokerError, Unavailable

READ_NS = 2_000_000_000
"""A read that waits for longer is refused; its client hears so before it gives up by itself."""
AGAIN_NS = 200_000_000
"""A read index that did not come in this time is requested again, for all reads that wait."""
STALE_HINT = "try again in a second, or read what this scheduler has now: --stale"


class _Read(NamedTuple):
    """One read that waits."""

    deadline_ns: int
    token: Any
    user: str


class _Requested(NamedTuple):
    """The request for a read index that is under way, and the reads that it serves."""

    number: int
    leader: int
    sent_ns: int
    reads: list[_Read]

    def is_answered(self, sender: int, number: int) -> bool:
        """True if this answer of a scheduler is the one to this request."""
        return (sender, number) == (self.leader, self.number)


class FollowerReads:
    """The reads that wait at one replica; `first` is a number that no earlier process used."""

    def __init__(
        self,
        state: ReplicaState,
        leadership: Leadership,
        voter: Voter,
        outbox: Outbox,
        send: Callable[[int, Message], None],
        *,
        each: int,
        first: int,
    ) -> None:
        self._state = state
        self._leadership = leadership
        self._voter = voter
        self._outbox = outbox
        self._send = send
        self._seats = Seats("waiters", "reads that wait for the leader", each, READS_MAX)
        self._number = first
        self._new: list[_Read] = []
        """The reads that came after the last request was sent."""
        self._requested: _Requested | None = None
        self._behind: list[tuple[int, list[_Read]]] = []
        """The reads whose index is known and not applied here yet."""

    # --- reads in ---------------------------------------------------------------------------------

    def want(self, event: events.ReadRequested, now: Instant) -> None:
        """Answer a read with its position as soon as this replica may; refuse it if it cannot."""
        refusal = self.not_reading()
        if refusal is None and self._leadership.leads:
            self._outbox.reply(event.token, self._position())
            return
        try:
            if refusal is not None:
                raise refusal
            self._seats.take(event.user)
        except StokerError as error:
            self._outbox.reply(event.token, error)
            return
        self._new.append(_Read(now.boot_ns + READ_NS, event.token, event.user))
        if self._requested is None:
            self._request(now)

    def not_reading(self) -> StokerError | None:
        """Return why this replica can confirm no read now; None if it can."""
        if self._leadership.halted:
            return Unavailable(f"this scheduler has halted: {self._leadership.why}")
        if self._leadership.leads:
            return None
        if self._leadership.role != "following" or not self._leadership.leader:
            return NotLeader("no scheduler leads now", hint=STALE_HINT)
        return None

    def not_stale(self) -> StokerError | None:
        """Return why this replica has no state to show; None if it has, however old."""
        if self._leadership.halted:
            return Unavailable(f"this scheduler has halted: {self._leadership.why}")
        if self._state.config is None:
            return Unavailable("this scheduler has not read the log's first entry yet")
        return None

    # --- the leader's word ------------------------------------------------------------------------

    def _request(self, now: Instant) -> None:
        """Request one index for all reads that came until now."""
        self._number += 1
        leader = self._leadership.leader
        self._requested = _Requested(self._number, leader, now.boot_ns, self._new)
        self._new = []
        self._send(leader, ReadIndexRequest(self._number, self._voter.promised))

    def answered(self, sender: int, message: ReadIndexReply, now: Instant) -> None:
        """Take a read index; one that was not requested last counts for nothing."""
        requested = self._requested
        if requested is None or not requested.is_answered(sender, message.number):
            self._outbox.count("read_index_late")
            return
        self._requested = None
        if message.why:
            why = f"scheduler {sender:016x} confirms no read: {message.why}"
            self._refuse(requested.reads, Unavailable(why, hint=STALE_HINT))
        else:
            self._behind.append((message.index, requested.reads))
            self.applied()
        if self._new and not self._leadership.leads and self.not_reading() is None:
            self._request(now)  # else the next tick answers or refuses them

    def applied(self) -> None:
        """Answer the reads whose position this replica has reached."""
        if not self._behind:
            return
        waiting, self._behind = self._behind, []
        for index, reads in waiting:
            if index > self._state.index:
                self._behind.append((index, reads))
                continue
            for read in reads:
                self._end(read, self._position())

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now: Instant) -> None:
        """Refuse what waited too long or cannot be confirmed any more; request again what is due.

        A replica that came to lead has everything that was acknowledged before.
        """
        if not (self._new or self._requested or self._behind):
            return
        refusal = self.not_reading()
        if refusal is not None:
            self._refuse(self._take_unconfirmed(), refusal)
        elif self._leadership.leads:
            for read in self._take_unconfirmed():
                self._end(read, self._position())
        self._expire(now.boot_ns)
        requested = self._requested
        if requested is not None and now.boot_ns - requested.sent_ns >= AGAIN_NS:
            self._new = self._take_unconfirmed()
            if self._new:
                self._request(now)

    def _take_unconfirmed(self) -> list[_Read]:
        """Remove and return all reads without an index, in their order."""
        before = self._requested.reads if self._requested is not None else []
        taken, self._new, self._requested = [*before, *self._new], [], None
        return taken

    def _expire(self, now_ns: int) -> None:
        lists = [self._new, *(reads for _, reads in self._behind)]
        if self._requested is not None:
            lists.append(self._requested.reads)
        why = Unavailable(
            f"the position of this read was not confirmed within {READ_NS // 1_000_000_000} s",
            hint=STALE_HINT,
        )
        for reads in lists:
            over = [read for read in reads if read.deadline_ns <= now_ns]
            reads[:] = [read for read in reads if read.deadline_ns > now_ns]
            self._refuse(over, why)
        self._behind = [each for each in self._behind if each[1]]

    # --- answers ----------------------------------------------------------------------------------

    def _position(self) -> events.ReadPosition:
        return events.ReadPosition(self._state.term, self._state.index)

    def _refuse(self, reads: list[_Read], why: StokerError) -> None:
        for read in reads:
            self._end(read, why)

    def _end(self, read: _Read, answer: events.ReadPosition | StokerError) -> None:
        self._seats.leave(read.user)
        self._outbox.reply(read.token, answer)
