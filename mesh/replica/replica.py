# SPDX-License-Identifier: Apache-2.0
"""The scheduler's replica without I/O: events in, effects out; the daemon carries the effects out.

Owns the order in which its parts handle an event: an entry is applied before it is answered, and
nothing is appended after an unknown outcome until the log was read to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.mesh.identity.identity import Checks, Signs, Verifier
from stoker.mesh.log import entry as entries
from stoker.mesh.log import feature_level
from stoker.mesh.log.entry import Opened
from stoker.mesh.log.feature_level import BeyondRange
from stoker.mesh.log.jetstream_log import LogGap
from stoker.mesh.log.log_outage import LogOutage
from stoker.mesh.log.log_time import Instant, LogTime
from stoker.mesh.replica import events
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.first_state import first_state
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.log.held_entry import HeldEntry
from stoker.mesh.replica.log.held_tail import BrokenChain, HeldTail
from stoker.mesh.replica.log.log_compaction import LogCompaction
from stoker.mesh.replica.log.log_follower import LogFollower
from stoker.mesh.replica.log.log_reader import LogReader
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.log.snapshot_plan import SnapshotPlan
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers import proposals
from stoker.mesh.replica.peers.answer_right import AnswerRight
from stoker.mesh.replica.peers.handover import Handover
from stoker.mesh.replica.peers.replica_peers import ReplicaPeers
from stoker.mesh.replica.peers.sender_check import ReadEnvelope
from stoker.mesh.replica.peers.voter import Voter
from stoker.mesh.replica.replica_settings import ReplicaSettings, Role
from stoker.mesh.replica.requests.account_updates import AccountUpdates
from stoker.mesh.replica.requests.job_gets import JobGets
from stoker.mesh.replica.requests.user_works import UserWorks
from stoker.mesh.replica.requests.waiters import Waiters
from stoker.mesh.replica.snapshot_records import SnapshotRecords
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.status_line import status_line
from stoker.mesh.replica.watch.node_requests import NodeRequests
from stoker.mesh.replica.watch.node_watch import NodeWatch
from stoker.mesh.replica.works import own_works, request_defects
from stoker.mesh.replica.works.work import ForgetWork, InFlight, TickWork
from stoker.mesh.wire.peer_messages import read_envelope as read_peer
from stoker.native.errors import Corrupt, Unavailable


class Replica:
    """One scheduler: `step` takes an event and returns effects, to be carried out in order."""

    def __init__(
        self,
        settings: ReplicaSettings,
        signer: Signs,
        snapshot: Snapshot | None = None,
        snapshot_digest: bytes = b"",
        held: tuple[tuple[int, bytes], ...] = (),
        *,
        open_key: Callable[[str], Checks] = Verifier,
        unseal: Callable[[int, bytes], Opened] = entries.unseal,
        read_envelope: ReadEnvelope = read_peer,
    ) -> None:
        self.settings = settings
        self.state = state = first_state(settings.genesis, snapshot)
        self.real_ns = 0
        """The log's time of the latest event: CLOCK_REALTIME without its steps."""
        self._time = LogTime()
        self._now = Instant(0, 0)
        self._outbox = outbox = Outbox()
        self._outage = LogOutage(settings.seed)
        roster = Roster(open_key, settings.genesis.schedulers, settings.roster)
        several = not settings.genesis.alone
        supports = settings.supports
        self.tail = self._tail = tail = HeldTail(state, roster, keeps=several, supports=supports)
        place = max(0, roster.place(settings.leader, state))
        self._leadership = Leadership(state, signer, outbox, place=place)
        self._appends = AppendPipeline(
            settings,
            signer,
            state,
            tail=tail,
            leadership=self._leadership,
            outage=self._outage,
            outbox=outbox,
        )
        loaded = (snapshot.seq, snapshot_digest) if snapshot is not None else (0, b"")
        self._follower = LogFollower(
            state, tail, loaded, settings.known_tail, outbox, unseal=unseal
        )
        self._peers = ReplicaPeers(
            settings,
            signer,
            state,
            roster=roster,
            tail=tail,
            leadership=self._leadership,
            outbox=outbox,
            actions=self,
            read_envelope=read_envelope,
        )
        self.right = AnswerRight(self._peers, self._leadership)
        self.reads, self.applicants = self._peers.reads_here, self._peers.applicants
        self._handover = Handover(self._leadership, self._appends, self._peers, outbox)
        self._reading = LogReader(state, tail, outbox)
        self._repaired: HeldEntry | None = None
        self._repair_name = ""
        plan = SnapshotPlan(settings.log_max_bytes, settings.snapshot_entries, loaded[0])
        self._compaction = compaction = LogCompaction(plan, state, self._tail, outbox)
        way = compaction, self._peers, self._leadership
        self._snapshots = SnapshotRecords(*way, self._appends, self._outage)
        self._accounts = AccountUpdates(state)
        self._gets = JobGets(state, Waiters(settings.budgets.waiters), outbox)
        self._works = UserWorks(settings, state, self._outage, self._appends.room, outbox)
        self.watch = NodeWatch(state, self._appends, outbox, settings.began_ns)
        decides = self._leadership, self._appends
        self.nodes = NodeRequests(state, *decides, self.watch, outbox=outbox, watts=settings.watts)
        self._proposals = proposals.handlers(state, roster, self._peers, self._appends, outbox)
        self._handlers = self._event_handlers()
        self._leadership.role = "following" if several else "waiting"
        self._remember(held, snapshot)

    def _remember(self, held: tuple[tuple[int, bytes], ...], snapshot: Snapshot | None) -> None:
        """Hold again what the disk has, unless it leads beyond what this replica supports."""
        supports = self.settings.supports
        try:
            feature_level.check(self.state.level, supports, "the state here has feature level")
            if not self._peers.alone:
                self._peers.remember(held, snapshot)
        except BeyondRange as error:
            self._go_no_further(error)

    def _event_handlers(self) -> dict[type, Callable[[Any, Instant], None]]:
        """Return the handler of each kind of event."""
        return {
            events.JobSubmitted: self._user_work,
            events.Admin: self._user_work,
            events.NodeRemoval: self._for_the_leader(self.watch.remove),
            events.NodeEviction: self._for_the_leader(self.watch.evict),
            **{kind: self._for_the_leader(made) for kind, made in self._proposals.items()},
            events.ServersKnown: lambda event, now: self.applicants.know(event.servers),
            events.AccountsRead: lambda event, now: self._accounts.want(event.accounts),
            events.CancelRequested: self._user_work,
            events.Remove: self._user_work,
            events.Get: self._get,
            events.ReadRequested: self._peers.reads_here.want,
            events.Outcomes: self._for_the_leader(self.nodes.outcomes),
            events.NodeReported: self._for_the_leader(self.nodes.reported),
            events.StateRequested: self._for_the_leader(self.nodes.state_requested),
            events.Observed: self.nodes.observed,
            events.TimePassed: self._tick,
            events.Scored: self.nodes.scored,
            events.LogEntries: self._log_entries,
            events.LogEnd: self._log_end,
            events.LogFailed: lambda event, now: self._log_failed(event.why, event.last, now),
            events.AppendDone: self._append_done,
            events.AppendFull: self._append_full,
            events.SnapshotSaved: self._snapshots.saved,
            events.SnapshotFailed: lambda event, now: self._compaction.failed(),
            events.Trimmed: lambda event, now: self._compaction.trimmed(event.seq),
            events.TrimFailed: lambda event, now: self._compaction.trim_failed(),
            events.LogReachable: self._log_reachable,
            events.LogBroken: self._log_broken,
            events.PeerMessage: self._peer_message,
            events.SnapshotPartRead: lambda event, now: self._peers.exchange.read(event),
            events.NodesHeard: lambda event, now: self.watch.heard(event.rows),
            events.PingReported: self.watch.pinged,
            events.Withheld: self.watch.withheld,
            events.Disk: lambda event, now: self._outage.disk_is(event.why),
            events.Leave: self._handover.begin,
        }

    def step(self, event: events.Event, real_ns: int, now_ns: int) -> list[events.Effect]:
        """Return what to do because of `event`, in order.

        `real_ns` (CLOCK_REALTIME) is the source of the time in entries, which `LogTime` smooths.
        Deadlines are measured with `now_ns` (CLOCK_BOOTTIME), so that a change of the date neither
        stops nor hurries anything.
        """
        self.real_ns = self._time.read(real_ns, now_ns, self.state.time_ns)
        now = self._now = Instant(self.real_ns, now_ns)
        self._peers.check(now)
        self.nodes.expire(now_ns)
        self._handlers[type(event)](event, now)
        self._handover.look(now)
        if self._peers.pledges.of_another_roster and not self._peers.alone:
            self._peers.check(now)
            self._leadership.renew()  # what was granted before stands on another majority
        return self._outbox.take()

    @property
    def role(self) -> Role:
        """The role of this replica."""
        return self._leadership.role

    @property
    def voter(self) -> Voter:
        """The vote of this replica."""
        return self._peers.voter

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
        return status_line(self._leadership, self._outage, is_member=self._peers.is_member)

    # --- requests of users ------------------------------------------------------------------------

    def _user_work(self, event: Any, now: Instant) -> None:
        if self._sends_on(event.token):
            return
        try:
            works = self._works.make(event, now)
        except Exception as error:
            self._outbox.reply(event.token, request_defects.refusal(error))
        else:
            for work in works:
                self._appends.enqueue(work, now)

    def _for_the_leader(
        self, handle: Callable[[Any, Instant], None]
    ) -> Callable[[Any, Instant], None]:
        """Return what handles an event while this replica leads, and else says who does."""

        def handler(event: Any, now: Instant) -> None:
            if not self._sends_on(event.token):
                handle(event, now)

        return handler

    def _sends_on(self, token: Any) -> bool:
        """Answer at once that another scheduler leads, if so; one that is alone takes all."""
        if self._peers.alone or self._leadership.leads or self._leadership.halted:
            return False
        self._outbox.reply(token, self.right.not_leader())
        return True

    def _get(self, event: events.Get, now: Instant) -> None:
        if not event.here and self._sends_on(event.token):
            return
        try:
            self._gets.get(event, now.boot_ns)
        except Exception as error:
            self._outbox.reply(event.token, request_defects.refusal(error))

    def _peer_message(self, event: events.PeerMessage, now: Instant) -> None:
        if self._leadership.beyond and self._leadership.halted:
            return
        try:
            self._peers.receive(event.data, now)
        except BeyondRange as error:
            self._go_no_further(error)
        self._snapshots.record_agreed(now)

    # --- appends ----------------------------------------------------------------------------------

    def _append_done(self, event: events.AppendDone, now: Instant) -> None:
        if self._leadership.halted:
            return
        if self._repaired is not None and event.name == self._repair_name:
            self._tail.appended(self._repaired.index, event.seq)
            self._repaired = None
            self.repair(now)
            return
        sent = self._appends.acknowledged(event.seq, event.name)
        if sent is None:
            self._log_failed(f"entry {event.seq} was confirmed out of order", 0, now)
            return
        self._follower.unreadable.sealed()
        verdict = self._hold_own(event.seq, sent)
        if verdict:  # a newer term was read or fetched meanwhile
            self._log_failed(f"entry {event.seq} does not count: {verdict}", 0, now)
            return
        self._outage.appended()
        if self._peers.alone:
            self.apply_ready(now)
        else:
            self._peers.appended(event.seq, now)

    def _hold_own(self, seq: int, sent: InFlight) -> str:
        """Hold an appended entry, or return why it does not count."""
        try:
            return self._tail.offer(seq, sent.data, sent.opened, own=True)
        except Corrupt as error:
            return error.message

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
        self._repaired = None
        self._reading.over()
        if self._leadership.halted or not self._leadership.stands:
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
        if before is None and not self._peers.alone:
            self.state.pass_over(0)  # the log may have lost all places that are known here
            self._log_failed(event.why, 0, now)  # a server that is behind says so, too
        elif before is None:
            self._halt(event.why)
        else:
            self.state.pass_over(before)
            self._log_failed(event.why, 0, now)

    # --- reading ----------------------------------------------------------------------------------

    def _log_entries(self, event: events.LogEntries, now: Instant) -> None:
        for seq, data in event.entries:
            if self._leadership.halted:
                return
            if self._reading.skips:
                break  # what was read before the gap is claimed to others, so it is stored
            try:
                if self._follower.read(seq, data):
                    self.apply_ready(now)
            except Corrupt as error:
                self._log_contradicts(seq, error)
        self._peers.acknowledge()

    def _log_contradicts(self, seq: int, error: Corrupt) -> None:
        """Halt; among several schedulers, the server may only be behind, or another has more."""
        if isinstance(error, BeyondRange):
            self._go_no_further(error)
        elif self._peers.alone or not isinstance(error, LogGap | BrokenChain):
            self._halt(error.message)
        elif self._reading.passes_orphans and isinstance(error, BrokenChain):
            self.count("entry_orphan")
            self.state.pass_over(seq)
        else:
            self._reading.skips = True

    def _log_end(self, event: events.LogEnd, now: Instant) -> None:
        """Lead on, or append a TERM entry behind which no unknown append can count."""
        gap, orphans = self._reading.skips, self._reading.passes_orphans
        if self._reading.over():
            return
        if gap and self.role == "reading" and self._peers.best() is None:
            if orphans:
                self._log_failed("an entry is missing in the log", 0, now)
            else:
                self._read_past_orphans()
            return
        if self.role != "reading":
            if gap or self._tail.misses_beginning:
                self._peers.gap(now)
            return
        if not self._peers.alone:
            self._follower.pass_unreadable()
            self.repair(now)
            return
        try:
            self._follower.end()
        except Corrupt as error:
            self._halt(error.message)
            return
        if self._leadership.may_resume and not self._appends.may_land:
            self._lead(self.state.term, now)
        else:
            self._appends.append_term(self._leadership.elect(), (), now)

    def _read_past_orphans(self) -> None:
        """Read on behind entries that follow an entry which no voter of this candidate has.

        None of them was or can be confirmed: a majority would hold the entry before it, and one of
        that majority has voted here. A place that is missing in the log is no such proof.
        """
        self.read_log(again=False)
        self._reading.passes_orphans = True

    def read_log(self, *, again: bool) -> None:
        """Read the log forward, as soon as no other reading is under way."""
        if self._reading.begin(again=again):
            self._peers.reads(self._now)

    def repair(self, now: Instant) -> None:
        """Take the next step from the end of the log to leadership: fetch what a voter has beyond
        this replica, append again what the log lost, then lead on or append a TERM entry.
        """
        if self.role not in ("reading", "repairing"):
            return
        if not (self._peers.is_member and self._peers.pledges.hold(now.boot_ns)):
            self.step_down("what it read changed the roster", now)
            return
        best, missing = self._peers.best(), self._tail.missing()
        if best is not None:
            self._leadership.role = "fetching"
            self._peers.fetches.want(best[0], now)
        elif missing is not None:
            self._leadership.role = "repairing"
            self._repaired = missing
            self.count("entries_repaired")
            self._repair_name = missing.repair_name(self.state.seen)
            self._outbox.put(events.Append(self.state.seen, missing.data, self._repair_name))
        else:
            self._claim(self._peers.pledges.term, now)

    def _claim(self, term: int, now: Instant) -> None:
        """Lead in a term for which a majority pledged, or append its TERM entry, once only."""
        self._peers.begin_term(term)
        self._appends.settle_unknown(term)
        if self._tail.end.term > term:
            self.step_down("a newer term was read", now)
            self._peers.hurry(now)
        elif self.state.term == term and not self._leadership.outrun:
            self._lead(term, now)
            self._peers.repeat(now)
        elif self._tail.end.term == term or self._appends.sends:
            self._leadership.role = "electing"
            self._peers.appended(self.state.seen, now)
        elif self._appends.elected == term:
            self.step_down("another entry took the place of its TERM entry", now)
            self._peers.hurry(now)
        else:
            self._leadership.role = "electing"
            pledges = self._peers.pledges.sealed(self.settings.leader)
            self._appends.append_term(term, pledges, now)

    def step_down(self, why: str, now: Instant) -> None:
        """Lead or stand no more: all that waits is sent on, and unknown appends stay unknown."""
        self.count("stepped_down")
        self._repaired = None
        self._outage.left()
        self._leadership.follow(why)
        self.watch.end()
        self._peers.rest(now)
        self._appends.give_up(self.right.not_leader())
        self._gets.give_up(self.right.not_leader())

    def adopt(self, entries: tuple[bytes, ...], *, replaces: bool = True) -> None:
        """Hold entries of this chain that another replica holds, or that this one had on disk."""
        for data in entries:
            try:
                self._follower.adopt(data, replaces=replaces)
            except Corrupt as error:
                if isinstance(error, BeyondRange):
                    raise
                self.count("fetched_refused")
                return

    def _lead(self, term: int, now: Instant) -> None:
        """Start to lead: the log ends with an entry of this replica, so no unknown append can
        count.
        """
        if self._peers.alone:
            self._appends.retry_unknown()
        self._outage.over()
        if term != self._leadership.led:
            self.watch.begin(now, None if self._peers.alone else self._peers.pledges.others_ns)
        self._leadership.lead(term)
        self._appends.flush(now)

    def _go_no_further(self, error: BeyondRange) -> None:
        """Halt in front of a feature level that is not supported; from then on nobody is heard."""
        self._leadership.beyond = error.message
        self._halt(error.message)

    def _halt(self, reason: str) -> None:
        self._leadership.halt(reason)
        self._appends.abandon(Unavailable(f"the scheduler has halted: {reason}"))

    # --- after an entry was applied ---------------------------------------------------------------

    def apply_ready(self, now: Instant) -> None:
        """Apply what is confirmed, in order; then go on with what waited for it."""
        count = self.state.index
        while not self._leadership.halted and (held := self._tail.ready()) is not None:
            sent = self._appends.found(held.opened.hash)
            try:
                self._apply(held, sent, now)
            except Corrupt as error:
                self._halt(error.message)
        if self.state.index == count or self._leadership.halted:
            return
        if self.role == "electing" and self.state.term == self._appends.elected:
            self._lead(self.state.term, now)
        if self._leadership.leads:
            self._snapshots.take_if_due()
            self._own_works()
            self._appends.flush(now)
        elif not self._peers.alone and not self._appends.idle:
            self._appends.drop_passed(self.right.not_leader())

    def _apply(self, held: HeldEntry, sent: InFlight | None, now: Instant) -> None:
        """Apply an entry; if it is this replica's, tell nodes, then answer those who wait."""
        entry = held.opened.entry
        if sent is not None:
            applied = self.state.apply(entry, sent.hash)
            self._applied(held, applied)
            self._appends.committed(sent, applied, now)
            if self.role != "electing":
                self._leadership.read_own(entry.term)
        else:
            if self._peers.alone:
                self._leadership.read_other(held.seq, entry.term)
            elif self._leadership.leads and entry.term > self._leadership.channels.term:
                self.step_down("another scheduler took the lead", now)
            applied = self._follower.apply(held.opened)
            self._applied(held, applied)
        self._gets.applied(applied)

    def _applied(self, held: HeldEntry, applied: Applied) -> None:
        self._compaction.applied(len(held.data))
        self._peers.applied()
        self.nodes.forget(applied.departed)
        if applied.is_snapshot_point and not self._peers.alone:
            self._peers.acknowledge()  # no disk may have a snapshot, and lack entries before it
            self._outbox.put(events.SaveSnapshot(self.state.snapshot()))
        if self._leadership.owns_term:
            entry, channels = held.opened.entry, self._leadership.channels
            self._outbox.put(*channels.commands(held.index, entry.now_ns, applied.actions))
            if self.settings.tells:
                self._outbox.put(events.EntryTold(entry, applied.changes))
            self._compaction.recorded(self._tail.trim_to(applied))

    # --- time -------------------------------------------------------------------------------------

    def _tick(self, event: events.TimePassed, now: Instant) -> None:
        self._gets.expire(now.boot_ns)
        self._peers.tick(now)
        if not self._peers.alone and self._peers.delay.is_too_long(now.boot_ns):
            self._log_failed("a majority does not confirm what the log acknowledged", 0, now)
        self._leadership.renew()
        if self.role == "waiting" and self._outage.may_try(now.boot_ns):
            self._leadership.role = "reading"
            self.read_log(again=not self._peers.alone)
        self._appends.refuse_overdue(now)
        self._retry_full_log(now)
        if self._leadership.leads:
            self.watch.tick(now)
            self.nodes.call_functions(now)
            self._own_works()
            self._charge(now)
            if self._appends.is_empty and (work := self._accounts.next_work()) is not None:
                self._appends.put_first(work)
            tick, more = self._leadership.tick, self._appends.more
            self._appends.more = more or tick.decide_again(self.state, now.log_ns, now.boot_ns)
            self._appends.flush(now)

    def _retry_full_log(self, now: Instant) -> None:
        """Take a snapshot if the log is full; the snapshot's entry will show if there is room."""
        if self._outage.full and self._appends.is_empty and self._outage.may_try(now.boot_ns):
            self._outage.back_off(now.boot_ns)
            self._compaction.start()

    def _charge(self, now: Instant) -> None:
        """Charge device time to running jobs, end gangs that are not ready, and move jobs."""
        at = (self.nodes.observations, now.log_ns, now.boot_ns)
        if due := self._leadership.tick.requests(self.state, *at):
            self._appends.enqueue(TickWork(due), now)

    def _own_works(self) -> None:
        """Have ended jobs forgotten before the core, which knows no users, drops the oldest; and
        make jobs of arrays whose turn has come."""
        if not self._leadership.leads or not self._appends.idle or self._appends.has_own:
            return
        for work in reversed(own_works.due(self.state)):
            self.count("forgotten", work.count if isinstance(work, ForgetWork) else 0)
            self._appends.put_first(work)
