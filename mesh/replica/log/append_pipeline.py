# SPDX-License-Identifier: Apache-2.0
"""Work on its way into the log: queued, decided, in flight, unknown, committed and answered.

Owns three rules: one append is in flight at a time, an append whose outcome is unknown stays until
the log has shown it or has passed it, and no work is answered before it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stoker.mesh.identity.identity import Signs
from stoker.mesh.log import entry as entries
from stoker.mesh.log.log_outage import LogOutage
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events, open_array
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works import request_defects
from stoker.mesh.replica.works.decide import answer_of, decide, propose
from stoker.mesh.replica.works.outcome_work import OutcomeWork
from stoker.mesh.replica.works.submit_work import SubmitWork, withdrawn
from stoker.mesh.replica.works.user_room import UserRoom
from stoker.mesh.replica.works.work import (
    HelloWork,
    InFlight,
    TermWork,
    Work,
    WorkBatch,
    cancel_works,
)
from stoker.mesh.replica.works.work_queue import USERS, WorkQueue
from stoker.mesh.wire.command import NodeReply
from stoker.native.errors import Refused, StokerError, Unavailable


class AppendPipeline:
    """The appends of one replica. `room` counts each user's queued work."""

    def __init__(
        self,
        settings: ReplicaSettings,
        signer: Signs,
        state: ReplicaState,
        *,
        tail: HeldTail,
        leadership: Leadership,
        outage: LogOutage,
        outbox: Outbox,
    ) -> None:
        self.room = UserRoom(settings.budgets)
        self.more = False
        """True if the core has more to decide without a new request."""
        self.elected = 0
        """The term of the newest TERM entry of this replica."""
        self._settings = settings
        self._signer = signer
        self._state = state
        self._tail = tail
        self._leadership = leadership
        self._outage = outage
        self._outbox = outbox
        self._queue = WorkQueue()
        self._in_flight: InFlight | None = None
        self._unknown: list[InFlight] = []
        self._appends = 0
        self._alone = 0
        """The number of next works that are decided one by one, since one of them has a defect."""

    # --- the queue --------------------------------------------------------------------------------

    def enqueue(self, work: Work, now: Instant) -> None:
        """Queue this work, or answer why not; send it if nothing is in flight."""
        refusal = self._refusal(work, now)
        self.room.enter(work)
        if refusal is not None:
            self._outbox.count("queue_refused")
            self.answer(work, refusal)
            return
        self._queue.push(work, now.boot_ns)
        self.flush(now)

    def put_first(self, work: Work) -> None:
        """Queue this work before all other; nobody waits for its answer."""
        self._queue.put_back([work])

    @property
    def is_empty(self) -> bool:
        """True if no work is queued."""
        return not self._queue

    @property
    def idle(self) -> bool:
        """True if no append of this replica is on its way."""
        return self._in_flight is None and not self._unknown

    @property
    def sends(self) -> bool:
        """True if an append is neither confirmed nor of unknown outcome."""
        return self._in_flight is not None

    def holds(self, work: Work) -> bool:
        """Return True while a work is queued or on its way, so that it may still be decided."""
        return any(each is work for each in self._waiting())

    @property
    def has_own(self) -> bool:
        """True if the next entry will have what the leader has to do of itself."""
        return self._queue.has_own

    def _refusal(self, work: Work, now: Instant) -> StokerError | None:
        if self._leadership.halted:
            return Unavailable(f"the scheduler has halted: {self._leadership.why}")
        if self._outage.is_blocked(now.boot_ns):
            return Refused(f"the log takes nothing: {self._leadership.why}; nothing was changed")
        return self._queue.no_room(work)

    # --- deciding and sending ---------------------------------------------------------------------

    def flush(self, now: Instant) -> None:
        """Send the next entry, if this replica leads and no append is in flight."""
        while self._leadership.leads and self.idle and self._outage.may_try(now.boot_ns):
            self._withdraw(now)
            if not self._queue and not self.more:
                return
            self._decide(self._current(self._queue.take(self._alone)), now)

    def _withdraw(self, now: Instant) -> None:
        """Have the first jobs of an array cancelled if the rest will not come.

        This is so after a change of the leader, and when the log or the core refused a part.
        """
        known = self._state.open_array
        if known is None or self._queue.goes_on(known):
            return
        live = open_array.left_to_cancel(self._state.book, known)
        works: list[Work] = []
        if live:
            works += cancel_works(None, live, [], open_array.WITHDRAWN)
        for work in works:
            work.queued_ns = now.boot_ns
        self._queue.put_back(works)
        if not works:
            self._state.open_array = None

    def _current(self, works: list[Work]) -> list[Work]:
        """Return the works without parts of an array that was withdrawn; those are answered."""
        known = self._state.open_array
        kept: list[Work] = []
        for work in works:
            if isinstance(work, SubmitWork) and work.place.at and not work.continues(known):
                self.answer(work, withdrawn(work))
            else:
                kept.append(work)
        return kept

    def append_term(self, term: int, pledges: tuple[bytes, ...], now: Instant) -> None:
        """Send the TERM entry that makes this replica the leader, with sealed pledges of others."""
        founded = self._tail.is_founded
        work = TermWork(term, self._settings.leader, founds=not self._tail.end.index)
        batch = propose(self._state, [work], now.log_ns, measure=self._settings.measure)
        assert batch.commands, "the core refuses a term that follows its own"
        first: tuple[entries.Blob, ...] = ()
        if not founded:
            first = (entries.GenesisBlob(self._settings.genesis),)
        if pledges:
            first = (*first, entries.TermBlob(pledges))
        self.elected = term
        self._append(batch, first, term, now)

    def _decide(self, works: list[Work], now: Instant) -> None:
        try:
            decided = decide(self._state, works, now.log_ns, measure=self._settings.measure)
        except Exception as error:
            self._isolate(works, error)
            return
        self._alone = max(self._alone - len(works), 0)
        self.more = False
        self._queue.put_back(decided.back)
        for work, why in decided.refused.items():
            self.answer(work, why)
        if decided.batch.commands or decided.blobs:
            self._append(decided.batch, decided.blobs, self._state.term, now)
        else:
            self._finish(decided.batch, Applied(), now)

    def _isolate(self, works: list[Work], error: Exception) -> None:
        """Find the work whose decision raised `error`, by deciding each one alone.

        Deciding changes nothing, so the error becomes that work's answer. It ends the process if
        no user waits for the work.
        """
        if len(works) > 1:
            self._queue.put_back(works)
            self._alone = len(works)
            return
        if not works or not isinstance(works[0], USERS):
            raise error
        self._alone = max(self._alone - 1, 0)
        self.answer(works[0], request_defects.answer(error))

    def _append(
        self, batch: WorkBatch, blobs: tuple[entries.Blob, ...], term: int, now: Instant
    ) -> None:
        leader = self._settings.leader
        entry = self._tail.following(term, leader, now.log_ns, batch.commands, blobs)
        sealed = entries.seal(entry, self._signer)
        self._appends += 1
        name = f"{leader:x}-{now.log_ns:x}-{self._appends}"
        self._send(InFlight(entry, sealed.hash, batch, sealed.data, name))

    def _send(self, sent: InFlight) -> None:
        """Append an entry at the tail of the log as it was read."""
        tail = self._state.seen
        self._in_flight = named = sent.at(tail)
        self._outbox.put(events.Append(tail, named.data, named.name))

    # --- outcomes of an append --------------------------------------------------------------------

    def acknowledged(self, seq: int, name: str) -> InFlight | None:
        """Return the append in flight, which the log has as `seq`; None if that cannot be.

        `name` is that of the append that is answered, which may be an earlier one.
        """
        sent = self._in_flight
        fits = sent is not None and seq == self._state.seen + 1 and name in ("", sent.name)
        return sent if fits else None

    def refused(self) -> None:
        """The append in flight certainly did not happen: queue its works again."""
        sent, self._in_flight = self._in_flight, None
        if sent is not None:
            self._queue.put_back(sent.batch.works)

    def set_unknown(self) -> None:
        """The append in flight may have happened or not: keep it as an unknown append."""
        if self._in_flight is not None:
            self._unknown.append(self._in_flight)
            self._in_flight = None

    def found(self, digest: bytes) -> InFlight | None:
        """Take the append of this replica that became the entry of this hash, if there is one."""
        flying = self._in_flight
        if flying is not None and flying.hash == digest:
            self._in_flight = None
            return flying
        if not self._unknown:
            return None
        sent = next((sent for sent in self._unknown if sent.hash == digest), None)
        if sent is not None:
            self._unknown.remove(sent)
        return sent

    @property
    def may_land(self) -> bool:
        """True if an unknown append could still count when it reaches the log late."""
        return any(sent.entry.prev_index >= self._state.index for sent in self._unknown)

    def give_up(self, why: StokerError) -> None:
        """Answer all queued work with `why`, since another replica leads or will."""
        self.set_unknown()
        for work in self._queue:
            self.answer(work, why)
        self._queue.clear()

    def drop_passed(self, why: StokerError) -> None:
        """Answer the unknown appends with `why` whose place another entry took."""
        passed = [sent for sent in self._unknown if sent.entry.prev_index < self._state.index]
        for sent in passed:
            self._unknown.remove(sent)
            for work in sent.batch.works:
                self.answer(work, why)

    def settle_unknown(self, term: int) -> None:
        """Settle unknown appends after the log was read to its end, in a term of this replica.

        Those that the chain has stay until they are confirmed. The one that can still follow the
        chain is sent again with the same bytes, so that it counts once, however often it lands. The
        works of all others are queued again.
        """
        unknown, self._unknown = self._unknown, []
        for sent in unknown:
            before, end = sent.entry.prev_index, self._tail.end
            follows = (end.index, end.hash) == (before, sent.entry.prev_hash)
            if self._tail.hash_at(before + 1) == sent.hash:
                self._unknown.append(sent)
            elif sent.entry.term == term and follows:
                self._send(sent)
            else:
                self._queue.put_back(sent.batch.works)

    def retry_unknown(self) -> None:
        """Queue the works of unknown appends again: none of them can count any more."""
        lost = [work for sent in self._unknown for work in sent.batch.works]
        self._unknown.clear()
        self._queue.put_back(lost)

    def committed(self, sent: InFlight, applied: Applied, now: Instant) -> None:
        """Answer the works of an entry that was applied, or go on with an array."""
        self.more = self.more or sent.batch.more
        self._finish(sent.batch, applied, now)

    # --- answers ----------------------------------------------------------------------------------

    def answer(self, work: Work, value: Any) -> None:
        """Answer a work once; nothing happens if it was answered or nobody waits."""
        if work.answered or work.token is None:
            return
        work.answered = True
        self.room.leave(work)
        if isinstance(value, StokerError) and isinstance(work, OutcomeWork | HelloWork):
            value = NodeReply(False, value.code, value.message)
        self._outbox.reply(work.token, value)

    def refuse_users(self, why: str) -> None:
        """Refuse all queued work of users; reports of nodes stay queued."""
        for work in self._queue.take_users():
            self.answer(work, Refused(why))

    def refuse_overdue(self, now: Instant) -> None:
        """Answer users who would wait too long for the log, or for their turn."""
        for work in self._queue.take_late(now.boot_ns):
            self._outbox.count("queue_late")
            self.answer(work, Refused("it was not decided in time; nothing was changed"))
        why = self._leadership.why
        if self._outage.is_blocked(now.boot_ns):
            self.refuse_users(f"the log takes nothing: {why}; nothing was changed")
            self.answer_unknown(why)
        if self._outage.is_full(now.boot_ns):
            self.refuse_users(f"no job is taken now: {self._outage.full}; nothing was changed")

    def answer_unknown(self, why: str) -> None:
        """Answer the works of unknown appends that their outcome is unknown."""
        for sent in self._unknown:
            for work in sent.batch.works:
                self.answer(work, Unavailable(f"not known whether it happened: {why}"))

    def abandon(self, why: StokerError) -> None:
        """Answer everything that waits with `why`, and forget the queue."""
        for work in self._waiting():
            self.answer(work, why)
        self._queue.clear()

    def _waiting(self) -> Iterator[Work]:
        for sent in self._unknown:
            yield from sent.batch.works
        if self._in_flight is not None:
            yield from self._in_flight.batch.works
        yield from self._queue

    def _finish(self, batch: WorkBatch, applied: Applied, now: Instant) -> None:
        repeat = batch.to_repeat()
        if not batch.commands and len(repeat) == len(batch.works):
            for work in repeat:
                self.answer(work, Refused("this request does not fit into one batch"))
            return
        parts: list[Work] = []
        for work, fates in zip(batch.works, batch.fates, strict=True):
            if work in repeat:
                continue
            part = work.next_part(fates, applied)
            if part is not None:
                parts.append(self._instead(work, part, now))
            elif work.token is not None and not work.answered:
                self.answer(work, answer_of(work, fates, applied, self._state))
        self._queue.put_back([*parts, *repeat])  # no other jobs come between parts of an array

    def _instead(self, work: Work, part: Work, now: Instant) -> Work:
        """Return the next part of an array, which is answered and counted instead of this one."""
        part.queued_ns = now.boot_ns
        if part.token is not None:
            self.room.leave(work)
            self.room.enter(part)
        return part
