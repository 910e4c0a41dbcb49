# SPDX-License-Identifier: Apache-2.0
"""The scheduler's replica without I/O: events in, effects out; the daemon carries the effects out.

Owns the order in which its parts handle an event: an entry is applied before it is answered, and
nothing is appended after an unknown outcome until the log was read to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.mesh.identity.identity import Checks, Signs, Verifier
from stoker.mesh.log import genesis
from stoker.mesh.log.log_outage import LogOutage
from stoker.mesh.log.log_time import Instant, LogTime
from stoker.mesh.replica import events, request_defects
from stoker.mesh.replica.account_updates import AccountUpdates
from stoker.mesh.replica.append_pipeline import AppendPipeline
from stoker.mesh.replica.job_gets import JobGets
from stoker.mesh.replica.leadership import Leadership
from stoker.mesh.replica.log_compaction import LogCompaction
from stoker.mesh.replica.log_follower import LogFollower
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.replica_settings import ReplicaSettings, Role
from stoker.mesh.replica.roster import Roster
from stoker.mesh.replica.snapshot_plan import SnapshotPlan
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.state import Applied, ReplicaState
from stoker.mesh.replica.user_room import to_forget
from stoker.mesh.replica.user_works import UserWorks
from stoker.mesh.replica.waiters import Waiters
from stoker.mesh.replica.work import HelloWork, InFlight, OutcomeWork, SnapshotWork, UsageWork
from stoker.native.errors import Corrupt, StokerError, Unavailable
from stoker.scheduler.nouns import Observation


class Replica:
    """One scheduler: `step` takes an event and returns effects, to be carried out in order."""

    def __init__(
        self,
        settings: ReplicaSettings,
        signer: Signs,
        snapshot: Snapshot | None = None,
        snapshot_digest: bytes = b"",
        *,
        open_key: Callable[[str], Checks] = Verifier,
    ) -> None:
        self.settings = settings
        self.state = state = _first_state(settings, snapshot)
        self.observations: dict[str, tuple[Observation, int]] = {}
        """The newest observation of each node, and when it came (CLOCK_BOOTTIME)."""
        self.greeted: dict[str, int] = {}
        """The moment of the last hello of each node (CLOCK_BOOTTIME)."""
        self.real_ns = 0
        """The log's time of the latest event: CLOCK_REALTIME without its steps."""
        self._time = LogTime()
        self._outbox = outbox = Outbox()
        self._outage = LogOutage(settings.seed)
        self._leadership = Leadership(state, signer, outbox)
        self._appends = AppendPipeline(
            settings,
            signer,
            state,
            leadership=self._leadership,
            outage=self._outage,
            outbox=outbox,
        )
        loaded = (snapshot.seq, snapshot_digest) if snapshot is not None else (0, b"")
        self._follower = LogFollower(state, Roster(open_key), loaded, settings.known_tail, outbox)
        plan = SnapshotPlan(settings.log_max_bytes, settings.snapshot_entries, loaded[0])
        self._compaction = LogCompaction(plan, state, outbox)
        self._accounts = AccountUpdates(state)
        self._gets = JobGets(state, Waiters(settings.budgets.waiters), outbox)
        self._works = UserWorks(settings, state, self._outage, self._appends.room, outbox)
        self._handlers = self._event_handlers()

    def _event_handlers(self) -> dict[type, Callable[[Any, Instant], None]]:
        """Return the handler of each kind of event."""
        return {
            events.JobSubmitted: self._user_work,
            events.Admin: self._user_work,
            events.AccountsRead: self._accounts_read,
            events.CancelRequested: self._user_work,
            events.Remove: self._user_work,
            events.Get: self._get,
            events.Outcomes: self._outcomes,
            events.NodeReported: self._node_reported,
            events.StateRequested: self._state_requested,
            events.Observed: self._observed,
            events.TimePassed: self._tick,
            events.LogEntries: self._log_entries,
            events.LogEnd: self._log_end,
            events.LogFailed: lambda event, now: self._log_failed(event.why, event.last, now),
            events.AppendDone: self._append_done,
            events.AppendFull: self._append_full,
            events.SnapshotSaved: self._snapshot_saved,
            events.SnapshotFailed: lambda event, now: self._compaction.failed(),
            events.Trimmed: lambda event, now: self._compaction.trimmed(event.seq),
            events.TrimFailed: lambda event, now: self._compaction.trim_failed(),
            events.LogReachable: self._log_reachable,
            events.LogBroken: self._log_broken,
            events.Disk: self._disk_changed,
        }

    def step(self, event: events.Event, real_ns: int, now_ns: int) -> list[events.Effect]:
        """Return what to do because of `event`, in order.

        `real_ns` (CLOCK_REALTIME) is the source of the time in entries, which `LogTime` smooths.
        Deadlines are measured with `now_ns` (CLOCK_BOOTTIME), so that a change of the date neither
        stops nor hurries anything.
        """
        self._time.begin(self.state.time_ns)
        self.real_ns = self._time.read(real_ns, now_ns)
        self._handlers[type(event)](event, Instant(self.real_ns, now_ns))
        return self._outbox.take()

    @property
    def role(self) -> Role:
        """The role of this replica."""
        return self._leadership.role

    @property
    def why(self) -> str:
        """The reason why this replica does not lead, if that lasts; else empty."""
        return self._leadership.why

    @property
    def has_led(self) -> bool:
        """True if this process ever led, so that its state is a recent one."""
        return self._leadership.has_led

    @property
    def counters(self) -> dict[str, int]:
        """Named counters since the start of the process."""
        return self._outbox.counters

    def count(self, name: str, by: int = 1) -> None:
        """Add to a named counter."""
        self._outbox.count(name, by)

    def status(self) -> str:
        """Return one line; its first word is `ok`, `waiting` or `blocked`."""
        if self._leadership.halted:
            return f"blocked: halted: {self.why}"
        if self._outage.is_down:
            return f"blocked: {self.why}"
        if refused := self._outage.full or self._outage.disk:
            return f"blocked: submits are refused: {refused}"
        return "ok" if self._leadership.leads else f"waiting: {self.role}"

    # --- requests of users ------------------------------------------------------------------------

    def _user_work(self, event: Any, now: Instant) -> None:
        try:
            works = self._works.make(event, now)
        except Exception as error:
            self._outbox.reply(event.token, _refusal(error))
        else:
            for work in works:
                self._appends.enqueue(work, now)

    def _get(self, event: events.Get, now: Instant) -> None:
        try:
            self._gets.get(event, now.boot_ns)
        except Exception as error:
            self._outbox.reply(event.token, _refusal(error))

    # --- reports of nodes -------------------------------------------------------------------------

    def _outcomes(self, event: events.Outcomes, now: Instant) -> None:
        self._appends.enqueue(OutcomeWork(event.token, event.node, event.outcomes), now)

    def _node_reported(self, event: events.NodeReported, now: Instant) -> None:
        self.greeted[event.report.node] = now.boot_ns
        self._appends.enqueue(HelloWork(event.token, event.report, self.state), now)

    def _state_requested(self, event: events.StateRequested, now: Instant) -> None:
        desired = self._leadership.desired(event, now, idle=self._appends.idle)
        self._outbox.reply(event.token, desired)

    def _observed(self, event: events.Observed, now: Instant) -> None:
        if event.node not in self.state.book.nodes:
            self.count("observation_unknown_node")
            return
        self.observations[event.node] = (event.observation, now.boot_ns)
        self.state.observe(event.node, event.observation)

    def _accounts_read(self, event: events.AccountsRead, now: Instant) -> None:
        self._accounts.want(event.accounts)

    def _disk_changed(self, event: events.Disk, now: Instant) -> None:
        self._outage.disk = event.why

    # --- appends ----------------------------------------------------------------------------------

    def _append_done(self, event: events.AppendDone, now: Instant) -> None:
        if self._leadership.halted:
            return
        sent = self._appends.confirmed(event.seq)
        if sent is None:
            self._log_failed(f"entry {event.seq} was confirmed out of order", 0, now)
            return
        self._follower.unreadable.sealed()
        self._commit(event.seq, sent)
        self._outage.appended()
        if self.role == "electing":
            self._lead(sent.entry.term, now)
        if self._leadership.leads:
            self._compaction.start_if_due()
        self._forget_if_due()
        self._appends.flush(now)

    def _append_full(self, event: events.AppendFull, now: Instant) -> None:
        """Make room and try again: the append certainly did not happen."""
        self._outage.filled(event.why, now.boot_ns)
        self._appends.refused()
        if self.role == "electing":
            self._leadership.wait(event.why)
        self._compaction.make_room()

    def _log_failed(self, why: str, last: int, now: Instant) -> None:
        """Append nothing until the log was read to its end; `last` is as in `LogFailed`."""
        self._appends.set_unknown()
        if self._leadership.halted:
            return
        self._leadership.wait(why)
        self._follower.unreadable.said(last)
        self.count("log_failed")
        self._outage.failed(now.boot_ns)

    def _log_reachable(self, event: events.LogReachable, now: Instant) -> None:
        self._outage.hurry()
        self._tick(events.TimePassed(), now)

    def _log_broken(self, event: events.LogBroken, now: Instant) -> None:
        before = self._follower.unreadable.withdrawn()
        if before is None:
            self._halt(event.why)
        else:
            self.state.pass_over(before)
            self._log_failed(event.why, 0, now)

    # --- reading ----------------------------------------------------------------------------------

    def _log_entries(self, event: events.LogEntries, now: Instant) -> None:
        for seq, data in event.entries:
            if self._leadership.halted:
                return
            try:
                self._log_entry(seq, data)
            except Corrupt as error:
                self._halt(error.message)

    def _log_entry(self, seq: int, data: bytes) -> None:
        opened = self._follower.open(seq, data)
        if opened is None:
            return
        sent = self._appends.found(opened.hash)
        if sent is not None:
            self._commit(seq, sent)
            self._leadership.read_own(sent.entry.term)
            return
        self._leadership.read_other(seq, opened.entry.term)
        applied = self._follower.apply(seq, opened)
        self._applied(seq, applied, len(data), opened.entry.now_ns)
        self._gets.applied(applied)

    def _log_end(self, event: events.LogEnd, now: Instant) -> None:
        """Lead on, or append a TERM entry behind which no unknown append can count."""
        if self.role != "reading":
            return
        try:
            self._follower.end()
        except Corrupt as error:
            self._halt(error.message)
            return
        if self._leadership.may_resume and not self._appends.may_land:
            self._lead(self.state.term, now)
        else:
            self._appends.append_term(self._leadership.elect(), now)

    def _lead(self, term: int, now: Instant) -> None:
        """Start to lead: the log ends with an entry of this replica, so no unknown append can
        count.
        """
        self._appends.retry_unknown()
        self._outage.over()
        self._leadership.lead(term)
        self._appends.flush(now)

    def _halt(self, reason: str) -> None:
        self._leadership.halt(reason)
        self._appends.abandon(Unavailable(f"the scheduler has halted: {reason}"))

    # --- after an entry was applied ---------------------------------------------------------------

    def _commit(self, seq: int, sent: InFlight) -> None:
        """Apply an entry of this replica, tell nodes, then answer those who wait for it."""
        applied = self.state.apply(seq, sent.entry, sent.hash)
        self._applied(seq, applied, sent.size, sent.entry.now_ns)
        self._appends.committed(sent, applied)
        self._gets.applied(applied)

    def _applied(self, seq: int, applied: Applied, size: int, log_ns: int) -> None:
        self._compaction.applied(size)
        if self._leadership.owns_term:
            channels = self._leadership.channels
            self._outbox.put(*channels.commands(seq, log_ns, applied.actions))
            self._compaction.recorded(applied.trim_to)

    def _snapshot_saved(self, event: events.SnapshotSaved, now: Instant) -> None:
        self._compaction.saved(event.seq, full=bool(self._outage.full))
        self._appends.enqueue(SnapshotWork(event.seq, event.digest), now)

    # --- time -------------------------------------------------------------------------------------

    def _tick(self, event: events.TimePassed, now: Instant) -> None:
        self._gets.expire(now.boot_ns)
        self._leadership.renew()
        if self.role == "waiting" and self._outage.may_try(now.boot_ns):
            self._leadership.read()
        self._refuse_if_blocked(now)
        self._retry_full_log(now)
        if self._leadership.leads:
            self._forget_if_due()
            self._charge(now)
            if self._appends.is_empty and (work := self._accounts.next_work()) is not None:
                self._appends.put_first(work)
            tick, more = self._leadership.tick, self._appends.more
            self._appends.more = more or tick.decide_again(self.state, now.log_ns, now.boot_ns)
            self._appends.flush(now)

    def _refuse_if_blocked(self, now: Instant) -> None:
        """Answer users who would wait too long for the log."""
        if self._outage.is_blocked(now.boot_ns):
            self._appends.refuse_users(f"the log takes nothing: {self.why}; nothing was changed")
            self._appends.answer_unknown(self.why)
        if self._outage.is_full(now.boot_ns):
            full = self._outage.full
            self._appends.refuse_users(f"no job is taken now: {full}; nothing was changed")

    def _retry_full_log(self, now: Instant) -> None:
        """Take a snapshot if the log is full; the snapshot's entry will show if there is room."""
        if self._outage.full and self._appends.is_empty and self._outage.may_try(now.boot_ns):
            self._outage.back_off(now.boot_ns)
            self._compaction.start()

    def _charge(self, now: Instant) -> None:
        """Charge device time to running jobs."""
        observed = {node: sample for node, (sample, _) in self.observations.items()}
        tick = self._leadership.tick
        usages = tick.charges(self.state, observed, now.log_ns, now.boot_ns)
        if usages:
            self._appends.enqueue(UsageWork(usages), now)

    def _forget_if_due(self) -> None:
        """Have ended jobs forgotten before the core, which knows no users, drops the oldest."""
        if not self._leadership.leads or not self._appends.idle or self._appends.forgets:
            return
        work = to_forget(self.state.book, self.state.limits)
        if work is not None:
            self.count("forgotten", work.count)
            self._appends.put_first(work)


def _first_state(settings: ReplicaSettings, snapshot: Snapshot | None) -> ReplicaState:
    """Return the state of a snapshot, or an unfounded one; Corrupt for a foreign snapshot."""
    digest = genesis.digest(settings.genesis)
    if snapshot is None:
        return ReplicaState(settings.cluster, digest)
    if snapshot.config.genesis != digest:
        raise Corrupt("the snapshot follows from another genesis than that of this cluster")
    return ReplicaState.restore(snapshot)


def _refusal(error: Exception) -> StokerError:
    """Return the answer to a request that raised `error`."""
    return error if isinstance(error, StokerError) else request_defects.answer(error)
