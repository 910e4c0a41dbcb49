# SPDX-License-Identifier: Apache-2.0
"""The scheduler's replica without I/O: events in, effects out; the daemon only carries them.

Owns what makes the log safe: one append in flight, nothing appended after an unknown outcome before
reading forward to an entry of our own, leadership as an entry in the log, and nothing answered
before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from stoker.mesh.identity.identity import Checks, Signs
from stoker.mesh.log import entry as entries
from stoker.mesh.log.log_outage import LogOutage
from stoker.mesh.log.log_time import LogTime
from stoker.mesh.log.unreadable_entry import UnreadableEntry
from stoker.mesh.replica import core_request, events, request_defects
from stoker.mesh.replica.decide import answer_of, decide, repeats
from stoker.mesh.replica.leader_tick import LeaderTick
from stoker.mesh.replica.node_channels import TERMS_LOST_MAX, NodeChannels
from stoker.mesh.replica.replica_settings import ReplicaSettings, Role
from stoker.mesh.replica.snapshot_plan import SnapshotPlan
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.state import Applied, ReplicaState
from stoker.mesh.replica.user_room import UserRoom, to_forget
from stoker.mesh.replica.waiters import Waiters, reached
from stoker.mesh.replica.work import (
    AdminWork,
    HelloWork,
    InFlight,
    OutcomeWork,
    SnapshotWork,
    SubmitWork,
    TermWork,
    UsageWork,
    Work,
    WorkBatch,
    cancel_works,
    remove_works,
)
from stoker.mesh.replica.work_queue import USERS, WorkQueue
from stoker.mesh.wire.command import NodeReply, Position
from stoker.native.errors import Corrupt, NotFound, Refused, StokerError, Unavailable
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import Observation


class Replica:
    """One scheduler. Feed it events; carry out the effects in their order."""

    def __init__(
        self,
        settings: ReplicaSettings,
        signer: Signs,
        verifiers: dict[int, Checks],
        snapshot: Snapshot | None = None,
        snapshot_digest: bytes = b"",
    ) -> None:
        self.settings = settings
        self.state = (
            ReplicaState(settings.cluster, settings.limits)
            if snapshot is None
            else ReplicaState.restore(snapshot)
        )
        self.role: Role = "waiting"
        self.why = ""
        """Why it does not lead, when that lasts."""
        self.observations: dict[str, tuple[Observation, int]] = {}
        self.counters: dict[str, int] = {}
        self._signer = signer
        self._links = NodeChannels(self.state, signer)
        self._outage = LogOutage(settings.seed)
        self._deposed = False
        self._hole = UnreadableEntry()
        self._outrun = 0
        """The newest term that a node followed and the log does not hold the end of."""
        self._verifiers = verifiers
        self._loaded = (snapshot.seq, snapshot_digest) if snapshot is not None else (0, b"")
        self._out: list[events.Effect] = []
        self._queue = WorkQueue()
        self._in_flight: InFlight | None = None
        self._limbo: list[InFlight] = []
        self._waiters = Waiters(settings.budgets.waiters)
        self._room = UserRoom(settings.budgets)
        self._appends = 0
        self._more = False
        self._alone = 0  # works to come that are decided one by one: one of them has a defect
        self.real_ns = 0
        """The log's time of the latest event: CLOCK_REALTIME without its steps."""
        self._time = LogTime()
        self.greeted: dict[str, int] = {}
        """Node -> when it last said hello, CLOCK_BOOTTIME."""
        self._pulse = LeaderTick()
        self._plan = SnapshotPlan(
            settings.log_max_bytes, settings.snapshot_entries, self._loaded[0]
        )
        self._handlers: dict[type, Callable[[Any, int], None]] = {
            events.JobSubmitted: partial(self._request, self._submit),
            events.Admin: partial(self._request, self._admin),
            events.CancelRequested: partial(self._request, self._cancel),
            events.Remove: partial(self._request, self._remove),
            events.Get: partial(self._request, self._get),
            events.Outcomes: self._outcomes,
            events.NodeReported: self._hello,
            events.StateRequested: self._range,
            events.Observed: self._observed,
            events.TimePassed: self._tick,
            events.LogEntries: self._log_entries,
            events.LogEnd: self._log_end,
            events.LogFailed: self._log_failed,
            events.AppendDone: self._append_done,
            events.AppendFull: self._append_full,
            events.SnapshotSaved: self._snapshot_saved,
            events.SnapshotFailed: self._snapshot_failed,
            events.Trimmed: lambda event, _: self._plan.trimmed(event.seq),
            events.TrimFailed: self._trim_failed,
            events.LogReachable: self._log_reachable,
            events.LogBroken: self._log_broken,
            events.Disk: self._disk_changed,
        }

    def step(self, event: events.Event, real_ns: int, now_ns: int) -> list[events.Effect]:
        """What to do because of `event`, in order.

        `real_ns` (CLOCK_REALTIME) is written into entries and commands as far as `LogTime` lets
        it; deadlines are measured with `now_ns` (CLOCK_BOOTTIME), so that no change of the date
        stops or hurries anything.
        """
        self._time.begin(self.state.time_ns)
        self.real_ns = self._time.read(real_ns, now_ns)
        self._handlers[type(event)](event, now_ns)
        out, self._out = self._out, []
        return out

    def status(self) -> str:
        """One line; the first word is `ok`, `waiting` or `blocked`."""
        if self.role == "halted":
            return f"blocked: halted: {self.why}"
        if self._outage.is_down:
            return f"blocked: {self.why}"
        if refused := self._outage.full or self._outage.disk:
            return f"blocked: submits are refused: {refused}"
        return "ok" if self.role == "leading" else f"waiting: {self.role}"

    @property
    def has_led(self) -> bool:
        """Whether this process ever led, so that its state is not that of long ago."""
        return self._links.term > 0

    def count(self, name: str, by: int = 1) -> None:
        """Add to a named counter."""
        self.counters[name] = self.counters.get(name, 0) + by

    # --- requests ---------------------------------------------------------------------------------

    def _request(self, make: Callable[[Any, int], Iterable[Work]], event: Any, now_ns: int) -> None:
        """A user's request. Making work of it changes nothing, so whatever goes wrong there is
        the answer to this request and nobody else's trouble."""
        try:
            works = list(make(event, now_ns))
        except StokerError as error:
            self._reply(event.token, error)
        except Exception as error:
            self._reply(event.token, request_defects.answer(error))
        else:
            for work in works:
                self._enqueue(work, now_ns)

    def _submit(self, event: events.JobSubmitted, now_ns: int) -> Iterator[Work]:
        refusal = self._outage.refusal(now_ns)
        if refusal:
            raise Refused(f"no job is taken now: {refusal}")
        models = core_request.models_of(event.spec, self.state.book.nodes.values())
        token, owner, key, spec, array, since_ns = event
        work = SubmitWork(token, owner, key, spec, array=array, models=models)
        old = core_request.forgotten(self.state.core, owner, work.first_key, since_ns)
        if old is not None:
            raise old
        refused = self._room.refusal(work, self.state.book)
        measure = self.settings.measure
        if refused is not None and not repeats(self.state, work, self.real_ns, measure=measure):
            self.count("budget_refused")
            raise refused
        yield work

    def _admin(self, event: events.Admin, now_ns: int) -> Iterator[Work]:
        yield AdminWork(*event)

    def _cancel(self, event: events.CancelRequested, now_ns: int) -> Iterator[Work]:
        live = [job for job in event.jobs if self.state.book.live(job) is not None]
        yield from cancel_works(event.token, live, event.jobs, event.reason)

    def _remove(self, event: events.Remove, now_ns: int) -> Iterator[Work]:
        yield from remove_works(*event)

    def _get(self, event: events.Get, now_ns: int) -> Iterator[Work]:
        job = self.state.book.get(event.job)
        if reached(job.state, event.until) or event.deadline_ns <= now_ns:
            self._reply(event.token, job)
        else:
            self._waiters.add(event.job, event.until, event.deadline_ns, event.token, event.user)
        yield from ()

    def _outcomes(self, event: events.Outcomes, now_ns: int) -> None:
        self._enqueue(OutcomeWork(event.token, event.node, event.outcomes), now_ns)

    def _hello(self, event: events.NodeReported, now_ns: int) -> None:
        self.greeted[event.report.node] = now_ns
        self._enqueue(HelloWork(event.token, event.report, self.state), now_ns)

    def _range(self, event: events.StateRequested, now_ns: int) -> None:
        if self.role != "leading" or event.node not in self.state.book.nodes:
            why = "the scheduler does not lead, or this node has not said hello"
            self._reply(event.token, Unavailable(why))
        elif self._is_outrun(event.request.position):
            why = "this node has followed a term whose end the log lost; a newer one is taken"
            self._reply(event.token, Unavailable(why))
        else:
            self._reply(event.token, self._links.desired(event.node, event.request, self.real_ns))

    def _is_outrun(self, at: Position) -> bool:
        """Whether a node is ahead of the log. It would take no other term of that number, so the
        next one has to be larger."""
        if (at.term, at.seq) <= (self._links.term, self.state.seen):
            return False
        if self._in_flight is None and at.term < self._links.term + TERMS_LOST_MAX:
            self.count("term_outrun")
            self._outrun = max(self._outrun, at.term)
            self.role = "waiting"
        return True

    def _observed(self, event: events.Observed, now_ns: int) -> None:
        if event.node not in self.state.book.nodes:
            self.count("observation_unknown_node")
            return
        self.observations[event.node] = (event.observation, now_ns)
        self.state.observe(event.node, event.observation)

    def _disk_changed(self, event: events.Disk, now_ns: int) -> None:
        self._outage.disk = event.why

    # --- the queue and the append in flight -------------------------------------------------------

    def _enqueue(self, work: Work, now_ns: int) -> None:
        refusal = self._no_room(work, now_ns)
        if refusal is not None:
            self.count("queue_refused")
            self._room.enter(work)
            self._answer(work, refusal)
            return
        self._queue.push(work)
        self._room.enter(work)
        self._flush(now_ns)

    def _no_room(self, work: Work, now_ns: int) -> StokerError | None:
        if self.role == "halted":
            return Unavailable(f"the scheduler has halted: {self.why}")
        if self._outage.is_blocked(now_ns):
            return Refused(f"the log takes nothing: {self.why}; nothing was changed")
        return self._queue.no_room(work)

    def _flush(self, now_ns: int) -> None:
        """Send the next entry, if this replica leads and none is under way."""
        outage = self._outage
        while self.role == "leading" and self._in_flight is None and outage.may_try(now_ns):
            if not self._queue and not self._more:
                return
            works = self._queue.take(self._alone)
            try:
                decided = decide(self.state, works, self.real_ns, measure=self.settings.measure)
            except Exception as error:
                self._isolate(works, error)
                continue
            self._alone = max(self._alone - len(works), 0)
            self._more = False
            self._queue.put_back(decided.back)
            for work, why in decided.refused.items():
                self._answer(work, why)
            if decided.batch.commands or decided.blobs:
                self._append(decided.batch, decided.blobs, self.state.term)
            else:
                self._finish(decided.batch, Applied())

    def _isolate(self, works: list[Work], error: Exception) -> None:
        """A defect while deciding, which changes nothing: the work that has it is found by taking
        each one alone, and is answered with it. One that no user asked for ends the process."""
        if len(works) > 1:
            self._queue.put_back(works)
            self._alone = len(works)
            return
        if not works or not isinstance(works[0], USERS):
            raise error
        self._alone = max(self._alone - 1, 0)
        self._answer(works[0], request_defects.answer(error))

    def _append(self, batch: WorkBatch, blobs: tuple[entries.Blob, ...], term: int) -> None:
        leader = self.settings.leader
        entry = self.state.following(term, leader, self.real_ns, batch.commands, blobs)
        sealed = entries.seal(entry, self._signer)
        self._appends += 1
        self._in_flight = InFlight(entry, sealed.hash, batch, len(sealed.data))
        name = f"{leader:x}-{self.real_ns:x}-{self._appends}"
        self._out.append(events.Append(self.state.seen, sealed.data, name))

    # --- what becomes of an append ----------------------------------------------------------------

    def _append_done(self, event: events.AppendDone, now_ns: int) -> None:
        sent = self._in_flight
        if self.role == "halted":
            return
        if sent is None or event.seq != self.state.seen + 1:
            why = f"entry {event.seq} was confirmed out of turn"
            self._log_failed(events.LogFailed(why), now_ns)
            return
        self._in_flight = None
        self._hole.sealed()
        self._commit(event.seq, sent)
        self._outage.appended()
        if self.role == "electing":
            self._lead(sent.entry.term, now_ns)
        self._snapshot_if_due()
        self._forget_if_due()
        self._flush(now_ns)

    def _commit(self, seq: int, sent: InFlight) -> None:
        """An entry of our own is in the log: apply it, tell nodes, then those who asked."""
        applied = self.state.apply(seq, sent.entry, sent.hash)
        self._after(seq, applied, sent.size, sent.entry.now_ns)
        self._more = self._more or sent.batch.more
        self._finish(sent.batch, applied)
        self._tell_waiters(applied)

    def _append_full(self, event: events.AppendFull, now_ns: int) -> None:
        """Certainly not appended: keep it, make room, try again; users are not kept for long."""
        sent, self._in_flight = self._in_flight, None
        self._outage.filled(event.why, now_ns)
        self._plan.refused()
        self.count("log_full")
        if self.role == "electing":
            self.role, self.why = "waiting", event.why
        elif sent is not None:
            self._queue.put_back(sent.batch.works)
        self._start_snapshot()

    def _log_failed(self, event: events.LogFailed, now_ns: int) -> None:
        """Nothing may be appended until the log was read forward and an entry of ours ended it."""
        if self._in_flight is not None:
            self._limbo.append(self._in_flight)
            self._in_flight = None
        if self.role == "halted":
            return
        self.role, self.why = "waiting", event.why
        self._hole.said(event.last)
        self.count("log_failed")
        self._outage.failed(now_ns)

    def _log_reachable(self, event: events.LogReachable, now_ns: int) -> None:
        self._outage.hurry()
        self._tick(events.TimePassed(), now_ns)

    def _log_broken(self, event: events.LogBroken, now_ns: int) -> None:
        before = self._hole.withdrawn()
        if before is None:
            self._halt(event.why)
        else:
            self.state.pass_over(before)
            self._log_failed(events.LogFailed(event.why), now_ns)

    # --- reading ----------------------------------------------------------------------------------

    def _log_entries(self, event: events.LogEntries, now_ns: int) -> None:
        for seq, data in event.entries:
            if self.role == "halted":
                return
            try:
                self._log_entry(seq, data, now_ns)
            except Corrupt as error:
                self._halt(error.message)

    def _log_entry(self, seq: int, data: bytes, now_ns: int) -> None:
        opened = entries.unseal(seq, data)
        verifier = self._verifiers.get(opened.entry.leader)
        signed = verifier is not None and entries.signed_by(opened, verifier)
        counter = self.state.judge(seq, opened, signed=signed)
        mine = next((sent for sent in self._limbo if sent.hash == opened.hash), None)
        if counter:
            self.state.refuse(seq, counter)
            self.count(counter)
        elif mine is not None:
            self._limbo.remove(mine)
            self._commit(seq, mine)
            self._links.begin(max(mine.entry.term, self._links.term))
        else:
            self._follow(seq, opened, len(data))

    def _follow(self, seq: int, opened: entries.Opened, size: int) -> None:
        if 0 < self._links.term < opened.entry.term:
            self._deposed = True
            raise Corrupt(f"another scheduler took the lead with log entry {seq}")
        applied = self.state.apply(seq, opened.entry, opened.hash)
        saved = applied.snapshot
        if saved is not None and saved.seq == self._loaded[0] and saved.digest != self._loaded[1]:
            raise Corrupt(f"the snapshot of log entry {saved.seq} is not the one that was taken")
        self._after(seq, applied, size, opened.entry.now_ns)
        self._tell_waiters(applied)

    def _log_end(self, event: events.LogEnd, now_ns: int) -> None:
        if self.role != "reading":
            return
        if self.state.seen < self.settings.known_tail:
            known = f"entry {self.settings.known_tail} was acknowledged"
            self._halt(f"the log ends at entry {self.state.seen}, though {known}")
            return
        behind = self._hole.passes(self.state.seen)
        if behind is not None:  # what was acknowledged is there: nothing was promised by the rest
            self.count("log_hole")
            self.state.pass_over(behind)
        possible = [sent for sent in self._limbo if sent.entry.prev_seq >= self.state.accepted_seq]
        if self._is_leader() and not possible and self._links.term > self._outrun:
            self._lead(self._links.term, now_ns)
            return
        self.role = "electing"
        work = TermWork(max(self.state.term, self._outrun) + 1, self.settings.leader)
        batch = WorkBatch([work])
        proposal = self.state.core.propose(
            work.requests, self.real_ns, self.state.seen + 1, measure=self.settings.measure
        )
        batch.decided(proposal)
        assert proposal.commands, "the core refuses a term that follows its own"
        self._append(batch, (), work.term)

    def _is_leader(self) -> bool:
        """Whether the log says so, as far as it was read."""
        return 0 < self._links.term == self.state.term

    def _lead(self, term: int, now_ns: int) -> None:
        """The log ends with an entry of ours: what is in limbo can never count any more."""
        self._links.begin(term)
        lost = [work for sent in self._limbo for work in sent.batch.works]
        self._limbo.clear()
        self._queue.put_back(lost)
        self._out.append(events.Lead(term))
        self.role, self.why = "leading", ""
        self._outage.over()
        self._pulse = LeaderTick()
        self._renew()
        self._flush(now_ns)

    def _halt(self, reason: str) -> None:
        self.role, self.why = "halted", reason
        self.count("halted")
        self._out.append(events.Halt(reason))
        for work in self._unanswered():
            self._answer(work, Unavailable(f"the scheduler has halted: {reason}"))
        self._queue.clear()

    def _unanswered(self) -> Iterator[Work]:
        for sent in self._limbo:
            yield from sent.batch.works
        if self._in_flight is not None:
            yield from self._in_flight.batch.works
        yield from self._queue

    # --- after an entry was applied ---------------------------------------------------------------

    def _after(self, seq: int, applied: Applied, size: int, now_ns: int) -> None:
        self._plan.applied(size)
        if self._is_leader():
            self._out += self._links.commands(seq, now_ns, applied.actions)
            self._trim(self._plan.trim(applied.trim_to))

    def _finish(self, batch: WorkBatch, applied: Applied) -> None:
        repeat = batch.to_repeat()
        if not batch.commands and len(repeat) == len(batch.works):
            for work in repeat:
                self._answer(work, Refused("this request does not fit into one batch"))
            return
        for work, fates in zip(batch.works, batch.fates, strict=True):
            if work.token is not None and not work.answered and work not in repeat:
                self._answer(work, answer_of(work, fates, applied, self.state))
        self._queue.put_back(repeat)

    def _tell_waiters(self, applied: Applied) -> None:
        if not self._waiters.count:
            return
        for job in applied.changed:
            record = self._find(job)
            for waiter in self._waiters.changed(job, record.state if record else None):
                self._reply(waiter.token, record or NotFound(f"there is no job {job}"))

    def _find(self, job: int) -> Job | None:
        try:
            return self.state.book.get(job)
        except NotFound:
            return None

    def _answer(self, work: Work, value: Any) -> None:
        if work.answered or work.token is None:
            return
        work.answered = True
        self._room.leave(work)
        if isinstance(value, StokerError) and isinstance(work, OutcomeWork | HelloWork):
            value = NodeReply(False, value.code, value.message)
        self._reply(work.token, value)

    def _reply(self, token: Any, value: Any) -> None:
        self._out.append(events.Reply(token, value))

    # --- snapshots --------------------------------------------------------------------------------

    def _snapshot_if_due(self) -> None:
        if self.role == "leading" and self._plan.due():
            self._start_snapshot()

    def _start_snapshot(self) -> None:
        if not self._plan.under_way:
            self._plan.begin()
            self._out.append(events.SaveSnapshot(self.state.snapshot()))

    def _snapshot_saved(self, event: events.SnapshotSaved, now_ns: int) -> None:
        self.count("snapshots")
        # No entry can say so first in a full log; the file is verified, and that must do.
        self._trim(self._plan.saved(event.seq, full=bool(self._outage.full)))
        self._enqueue(SnapshotWork(event.seq, event.digest), now_ns)

    def _trim(self, seq: int | None) -> None:
        if seq is not None:
            self._out.append(events.Trim(seq))

    def _trim_failed(self, event: events.TrimFailed, now_ns: int) -> None:
        self._plan.trim_failed()
        self.count("trim_failed")

    def _snapshot_failed(self, event: events.SnapshotFailed, now_ns: int) -> None:
        """Tried again after another round of entries; the log has room for several."""
        self._plan.under_way = False
        self.count("snapshot_failed")

    # --- time -------------------------------------------------------------------------------------

    def _tick(self, event: events.TimePassed, now_ns: int) -> None:
        for waiter in self._waiters.expired(now_ns):
            record = self._find(waiter.job)
            self._reply(waiter.token, record or NotFound(f"there is no job {waiter.job}"))
        self._renew()
        if self.role == "waiting" and self._outage.may_try(now_ns):
            self.role = "reading"
            self._out.append(events.Read(self.state.seen + 1))
        outage = self._outage
        if outage.is_blocked(now_ns):
            self._refuse_blocked()
        if outage.is_full(now_ns):
            self._refuse_users(f"no job is taken now: {outage.full}; nothing was changed")
        if outage.full and not self._queue and outage.may_try(now_ns):
            outage.back_off(now_ns)  # the snapshot's own entry will show whether there is room
            self._start_snapshot()
        if self.role == "leading":
            self._forget_if_due()
            self._charge(now_ns)
            self._more = self._more or self._pulse.decide_again(self.state, self.real_ns, now_ns)
            self._flush(now_ns)

    def _charge(self, now_ns: int) -> None:
        observed = {node: sample for node, (sample, _) in self.observations.items()}
        usages = self._pulse.charges(self.state, observed, self.real_ns, now_ns)
        if usages:
            self._enqueue(UsageWork(usages), now_ns)

    def _renew(self) -> None:
        """Let nodes go on, whatever becomes of the log: with a roster of one nobody else can have
        been given their work, so having led is enough, also for one that has halted since. With
        more replicas this is the place to ask for unexpired pledges of a majority."""
        if self._deposed:
            self._out.append(events.RenewLeases(None))
        elif self.has_led:
            self._out.append(events.RenewLeases(self._links.authority()))

    def _forget_if_due(self) -> None:
        """Before anything else is decided, so that the core, which knows no users, need not."""
        if self.role != "leading" or self._in_flight is not None or self._queue.forgets:
            return
        work = to_forget(self.state.book, self.settings.ended_kept)
        if work is not None:
            self.count("forgotten", work.count)
            self._queue.put_back([work])

    def _refuse_blocked(self) -> None:
        """What is queued was not sent; what is in limbo may have happened, and we say so."""
        self._refuse_users(f"the log takes nothing: {self.why}; nothing was changed")
        for sent in self._limbo:
            for work in sent.batch.works:
                self._answer(work, Unavailable(f"not known whether it happened: {self.why}"))

    def _refuse_users(self, why: str) -> None:
        for work in self._queue.take_users():
            self._answer(work, Refused(why))
