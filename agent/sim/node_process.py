# SPDX-License-Identifier: Apache-2.0
"""One simulated node: the shipped agent core and lease rules, its spawner, its watchdog.

Owns the line between what survives what: a new agent process has the stored position, the attempts
that were given back, the lease file and the spawner's attempts; a new boot of the machine has the
first two alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stoker.agent.jobs import steps
from stoker.agent.jobs.lease_judge import UNKNOWN, LeaseExtended, LeaseHolder, LeaseJudge
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.sim.ping_model import Ping, PingModel
from stoker.agent.sim.run_audit import RunAudit
from stoker.agent.sim.spawner_model import SpawnerModel
from stoker.agent.sim.watchdog_model import LOOK_NS, LeaseModel, decide, looks_until_expiry
from stoker.agent.state.incarnation import STEP
from stoker.mesh.replica import events
from stoker.mesh.sim.host_clock import DRIFT_PPM_MAX, HostClock
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.sim.lease_audit import HeldLease
from stoker.mesh.sim.scheduler_process import (
    SchedulerAnswer,
    SchedulerProcess,
    SchedulerRequest,
    Surroundings,
    post,
)
from stoker.mesh.sim.sim_process import SimProcess
from stoker.mesh.sim.timeline import MS, SECOND
from stoker.mesh.sim.timeouts import Timeouts
from stoker.mesh.wire.command import CommandChain, NodeReply, Position
from stoker.mesh.wire.known_schedulers import KnownSchedulers
from stoker.mesh.wire.lease_messages import NONCE_BITS
from stoker.native.errors import StokerError
from stoker.scheduler.nouns import DeviceInfo, NodeReport, Observation, TaskKey

CONNECT_NS = 20 * MS
REQUEST_NS = 2_500 * MS
REFUSED_NS = 2 * MS
"""The time after which the broker says that nobody listens to a request."""
LIST_NS = SECOND
SAMPLE_TICKS = 4
"""A sample of telemetry goes with one of so many lists of attempts: no decision here needs one."""
TAKEN_NS = 2 * MS
WAKE_NS = 10 * MS
LEAVE_NS, LEAVE_LOOK_NS = SECOND, 10 * MS
"""The most that an agent takes to end in order, and the time between two looks whether it has."""
LEASE_LOOK_NS = 250 * MS
"""The time between two looks whether a lease request is due."""
LEASE_LOOK_MOST_NS = LEASE_LOOK_NS + LEASE_LOOK_NS * DRIFT_PPM_MAX // 1_000_000
"""That time by the fastest clock."""

Then = Callable[[Any], steps.Event]


class TrustedCluster(NamedTuple):
    """The cluster of a node, and the schedulers' keys by place."""

    cluster: str
    schedulers: tuple[str, ...]
    """Public keys by place in the roster."""


class NodeProcess(SimProcess):
    """One node of the cluster `trusted`."""

    def __init__(
        self,
        around: Surroundings,
        name: str,
        devices: int,
        *,
        audit: RunAudit,
        trusted: TrustedCluster,
    ) -> None:
        super().__init__()
        self.name = name
        self.around = around
        self.schedulers: list[SchedulerProcess] = []
        self.clock = HostClock(around.timeline, around.chance)
        self.boot = 0
        self.powered = False
        self.dies_in: int | None = None
        """The number of effects after which the agent dies, if it is to die in a batch."""
        self._audit = audit
        self._trusted = trusted
        self._devices = tuple(DeviceInfo(f"d{n}", "sim", "sim") for n in range(devices))
        self._stored = Position()
        self.leaves = False
        """True while an agent ends in order."""
        self._kept: tuple[TaskKey, ...] = ()
        """The attempts that the agent gave back, on its disk."""
        self._incarnation = 0
        self._boots = 0
        self._numbers = 0
        self._samples = self._ticks = 0
        self._wake_ns = 0
        """The simulated time of the next planned step of the core, or a past one."""
        self.pings = PingModel(around, name)
        self._open: dict[int, tuple[Then, steps.Event]] = {}
        self._timeouts = Timeouts(around.timeline, REQUEST_NS, self._open, self._too_late)
        self._effects = self._effect_handlers()

    def _effect_handlers(self) -> dict[type, Callable[[Any], None]]:
        """Return what carries out each kind of effect."""
        return {
            steps.Persist: self._persist,
            steps.KeepSchedulers: self._keep_schedulers,
            steps.KeepReturned: self._keep_returned,
            steps.SayHello: self._say_hello,
            steps.RequestState: self._request_state,
            steps.SendOutcomes: self._send_outcomes,
            steps.StartAttempts: self._start_attempts,
            steps.ReleaseAttempts: lambda effect: self.spawner.release(effect.keys),
            steps.StopAttempt: self._stop_attempt,
            steps.Acknowledge: lambda effect: self.spawner.acknowledge(effect.keys),
            steps.Settle: lambda effect: self._feed_soon(steps.TraceSettled(effect.key)),
            steps.Thaw: self._thaw,
            steps.DropFolder: _nothing,
            steps.LogNote: _nothing,
        }

    # --- the machine ------------------------------------------------------------------------------

    @property
    def instance(self) -> int:
        """The number of this node in this boot."""
        return self.boot

    def boot_machine(self) -> None:
        """Begin a new boot: nothing runs, there is no lease."""
        self._boots += 1
        self.boot += 1
        self.powered, self.paused = True, False
        self.clock.reboot()
        self.lease = LeaseModel()
        self._looked_ns: int | None = None
        """The simulated time of the watchdog's last look, while it looks no more."""
        self.spawner = SpawnerModel(
            self.name, self.around.timeline, self.clock, self._audit, self._tell
        )
        self.around.timeline.after(LOOK_NS, self._look, self._boots)
        self.start_agent()

    def install(self, keys: tuple[str, ...]) -> None:
        """Begin anew with an empty disk, as the node of a host that trusts these schedulers."""
        if self.powered:
            self.power_off()
        self.around.story.tell("{} is installed anew", self.name)
        self._stored, self._kept = Position(), ()
        self._trusted = self._trusted._replace(schedulers=keys)
        self.boot_machine()

    def power_off(self) -> None:
        """Lose everything that is not on disk."""
        self.alive = self.powered = self.leaves = False
        self._boots += 1
        self.spawner.die()
        self.around.story.tell("{} loses power", self.name)

    def _look(self, boot: int) -> None:
        """Make one look of the watchdog."""
        if boot != self._boots:
            return
        now = self.clock.boot()
        action = decide(self.lease, now)
        if action == "freeze":
            self.lease.freeze_now(now)
            if self.spawner.fenced:
                self._audit.freezes += 1
            self.spawner.freeze()
            self.around.story.tell("{} freezes its jobs: its lease ran out", self.name)
        elif action == "thaw":
            self.lease.frozen_since_ns = 0
            if self.spawner.fenced:
                self._audit.thaws += 1
            self.spawner.thaw()
            self.around.story.tell("{} lets its jobs go on", self.name)
        if self.lease.frozen:  # the looks before the lease file changes would find nothing to do
            self._looked_ns = self.around.timeline.now
            return
        looks = looks_until_expiry(self.lease, now)
        self.around.timeline.after(looks * LOOK_NS, self._look, boot)

    def _look_again(self) -> None:
        """Go on with the looks of a watchdog whose jobs are frozen: the lease file has changed."""
        if self._looked_ns is not None:
            timeline = self.around.timeline
            looks = (timeline.now - self._looked_ns) // LOOK_NS + 1
            timeline.at(self._looked_ns + looks * LOOK_NS, self._look, self._boots)
            self._looked_ns = None

    # --- the agent process ------------------------------------------------------------------------

    def start_agent(self) -> None:
        """Start a new agent process, which has only what is durable."""
        self.begin_process()
        self.dies_in, self.leaves = None, False
        self._open.clear()
        self._wake_ns = 0
        self._incarnation = max(self._incarnation + STEP, self.clock.real())
        cluster, keys = self._trusted
        members = KnownSchedulers(keys, KeyedHash)
        self._chain = CommandChain(
            cluster, self.name, members, self._stored, nonce=self._incarnation
        )
        held_ns = self.lease.expiry_ns if self.lease.valid(self.clock.boot()) else 0
        holder = LeaseHolder(cluster, self.name, self.instance)
        self._judge = LeaseJudge(holder, members, self._new_nonce, held_ns)
        self.core = NodeCore(self._chain)
        report = NodeReport(
            self.name,
            f"boot-{self.boot}",
            self._incarnation,
            64_000,
            1 << 36,
            self._devices,
            instance=self.instance,
            ping=self.name,
        )
        self.around.timeline.after(CONNECT_NS, self._begin, (self.starts, report))
        self.around.timeline.after(CONNECT_NS + LIST_NS, self._tick, self.starts)
        self.around.timeline.after(CONNECT_NS, self._look_at_lease, self.starts)

    def _keep_schedulers(self, effect: steps.KeepSchedulers) -> None:
        self._trusted = self._trusted._replace(schedulers=effect.keys)

    def _keep_returned(self, effect: steps.KeepReturned) -> None:
        self._kept = effect.keys

    def _stop_attempt(self, effect: steps.StopAttempt) -> None:
        self.spawner.stop(effect.key, effect.grace_s if effect.signal else 0.0)

    def _new_nonce(self) -> int:
        return self.around.chance.getrandbits(NONCE_BITS)

    def _look_at_lease(self, start: int) -> None:
        """Request the lease of all schedulers, if that is due."""
        if start != self.starts or self.is_absent(self._look_at_lease, start):
            return
        now = self.clock.boot()
        if now >= self._judge.due_ns():
            data = self._judge.request(now, self._chain.position, frozen=self.lease.frozen)
            for scheduler in self.schedulers:
                message = (self.name, data)
                self.around.network.post(
                    self.name, scheduler.name, scheduler.take_lease_request, message
                )
        left_ns = self._judge.due_ns() - self.clock.boot()
        looks = max(1, -(-left_ns // LEASE_LOOK_MOST_NS))  # the earlier ones would find nothing due
        self.around.timeline.after(looks * LEASE_LOOK_NS, self._look_at_lease, start)

    def _begin(self, begin: tuple[int, NodeReport]) -> None:
        start, report = begin
        if start == self.starts and not self.is_absent(self._begin, begin):
            self.feed(steps.Returned(self._kept, self.clock.real()))
            self.feed(steps.Reported(report))
            self.feed(steps.MeshUp())
            self._list_attempts()

    def crash(self) -> None:
        """Kill the agent; jobs, spawner and watchdog go on."""
        self.alive = self.leaves = False
        self.around.story.tell("the agent of {} is killed", self.name)

    def leave(self) -> None:
        """End the agent in order; jobs, spawner and watchdog go on."""
        self.leaves = True
        self.around.story.tell("the agent of {} ends in order", self.name)
        if self.core.may_leave:
            self.feed(steps.EndRequested())
        self._leaves((self.starts, self.around.timeline.now + LEAVE_NS))

    def _leaves(self, until: tuple[int, int]) -> None:
        """End the agent if nothing waits for it any more, or it is late."""
        start, late_ns = until
        if start != self.starts or self.is_absent(self._leaves, until):
            return
        if self.core.has_left or not self.core.may_leave or self.around.timeline.now >= late_ns:
            self.crash()
        else:
            self.around.timeline.after(LEAVE_LOOK_NS, self._leaves, until)

    def pause(self) -> None:
        """Stop the agent process; jobs, spawner and watchdog go on."""
        self.paused = True
        self.around.story.tell("the agent of {} is stopped", self.name)

    def go_on(self) -> None:
        """Let a stopped agent go on; everything that came meanwhile comes now."""
        if self.paused:
            self.around.story.tell("the agent of {} goes on", self.name)
            self.end_pause()

    def _tick(self, start: int) -> None:
        if start != self.starts or self.is_absent(self._tick, start):
            return
        self._list_attempts()
        self._ticks += 1
        if self._ticks % SAMPLE_TICKS == 0:
            self._observe()
        self.around.timeline.after(LIST_NS, self._tick, start)

    def _observe(self) -> None:
        """Send a sample of telemetry to all schedulers."""
        self._samples += 1
        sample = Observation(self._samples, self.name, self.clock.real(), 500, 1 << 30)
        event = events.Observed(self.name, sample)
        for scheduler in self.schedulers:
            self.around.network.post(self.name, scheduler.name, scheduler.take_event, event)

    def _list_attempts(self) -> None:
        has, expected = self.spawner.attempts(), self.core.taken()
        self.feed(steps.SpawnerAttempts(has, expected, self.clock.real()))

    def feed(self, event: steps.Event) -> None:
        """Give the core an event and carry out its effects, unless the agent dies among them."""
        effects = self.core.step(event, self.clock.boot() / SECOND)
        if effects:
            handlers = self._effects
            for effect in effects:
                if self.dies_in is not None and self._dies():
                    return
                handlers[type(effect)](effect)
        due = self.core.deadline()
        if due is not None:
            self._wake_at(due)

    def _dies(self) -> bool:
        assert self.dies_in is not None
        self.dies_in -= 1
        if self.dies_in < 0:
            self.dies_in = None
            self.crash()
        return not self.alive

    def _wake_at(self, due_s: float) -> None:
        """Have the core step at this time of its clock, if no earlier step is planned."""
        now = self.around.timeline.now
        when = now + max(int(due_s * SECOND) - self.clock.boot(), 0) + WAKE_NS
        if not now < self._wake_ns <= when:
            self._wake_ns = when
            self.around.timeline.at(when, self._wake, self.starts)

    def _wake(self, start: int) -> None:
        if start == self.starts and not self.is_absent(self._wake, start):
            self.feed(steps.NodeTick())

    def _tell(self, event: steps.Event) -> None:
        """Pass an event of the spawner to the agent; the list of attempts repeats a lost one."""
        if not self.is_absent(self._feed_if_here, event):
            self.feed(event)

    def _feed_if_here(self, event: steps.Event) -> None:
        if self.alive:
            self.feed(event)

    def _feed_soon(self, event: steps.Event) -> None:
        self.around.timeline.after(TAKEN_NS, self._arrives, (self.starts, event))

    def _arrives(self, arrival: tuple[int, steps.Event]) -> None:
        start, event = arrival
        if start == self.starts and not self.is_absent(self._arrives, arrival):
            self.feed(event)

    # --- effects ----------------------------------------------------------------------------------

    def _persist(self, effect: steps.Persist) -> None:
        self._stored = effect.position

    def _thaw(self, effect: steps.Thaw) -> None:
        self.lease.thaw(effect.epoch, effect.until_ns)
        self._look_again()

    def _start_attempts(self, effect: steps.StartAttempts) -> None:
        for start in effect.starts:
            self.spawner.start(start)
        keys = tuple(start.key for start in effect.starts)
        self._feed_soon(steps.Taken(keys))

    def _say_hello(self, effect: steps.SayHello) -> None:
        def then(value: Any) -> steps.Event:
            if isinstance(value, NodeReply) and value.ok:
                return steps.Greeted(effect.report, value.term)
            return steps.NotGreeted(value.message)

        report = effect.report
        self._request(
            lambda token: events.NodeReported(token, report), then, steps.NotGreeted("late")
        )

    def _request_state(self, effect: steps.RequestState) -> None:
        def then(value: Any) -> steps.Event:
            if isinstance(value, bytes):
                return steps.StateReceived(value)
            return steps.StateFailed(value.message)

        request = effect.request
        late = steps.StateFailed("late")
        self._request(lambda token: events.StateRequested(token, self.name, request), then, late)

    def _send_outcomes(self, effect: steps.SendOutcomes) -> None:
        number, outcomes = effect.number, effect.outcomes

        def then(value: Any) -> steps.Event:
            if isinstance(value, NodeReply) and value.ok:
                for each in outcomes if not self._chain.is_past(value.term) else ():
                    self.around.audit.acknowledged_outcome(each)
                return steps.Committed(number, value.term)
            return steps.NotCommitted(number, value.message, value.code)

        late = steps.NotCommitted(number, "late")
        self._request(lambda token: events.Outcomes(token, self.name, outcomes), then, late)

    # --- messages ---------------------------------------------------------------------------------

    def _request(self, make: Callable[[Any], events.Event], then: Then, late: steps.Event) -> None:
        """Send a request to all schedulers; `then` makes an event of the first useful answer."""
        self._numbers += 1
        number = self._numbers
        self._open[number] = (then, late)
        request = SchedulerRequest(self.name, number, make, self.take_answer)
        if post(request, self.schedulers):
            self._timeouts.begin(number)
        else:
            self.around.timeline.after(REFUSED_NS, self._too_late, number)

    def take_answer(self, answered: SchedulerAnswer) -> None:
        """Take the answer of a scheduler; the refusal of one that does not lead is none."""
        if answered.number not in self._open or self.is_absent(self.take_answer, answered):
            return
        if isinstance(answered.value, StokerError) and len(self.schedulers) > 1:
            return
        then, _ = self._open.pop(answered.number)
        self.feed(then(answered.value))

    def _too_late(self, number: int) -> None:
        if number in self._open and not self.is_absent(self._too_late, number):
            self.feed(self._open.pop(number)[1])

    def take_ping(self, ping: Ping) -> None:
        """Answer a ping: the agent replies, or the kernel refuses while there is no agent."""
        if self.powered and not (self.alive and self.paused):
            pinger = self.pings.hosts[ping.pinger]
            self.around.network.post(self.name, ping.pinger, pinger.take_pong, ping)

    def take_pong(self, ping: Ping) -> None:
        """Take the answer to a ping of this node."""
        if not self.is_absent(self.take_pong, ping):
            ping.answer(ping.number)

    def take(self, message: tuple[str, Any]) -> None:
        """Take a message of a scheduler: a command, a lease answer, or a request to ping."""
        if self.is_absent(self.take, message):
            return
        what, data = message
        if what == "command":
            self.feed(steps.CommandReceived(data))
            return
        if what == "ping":
            self.pings.begin(*data)
            return
        freeze = self.lease.freeze()
        lapsed = not self.lease.valid(self.clock.boot())
        verdict = self._judge.judge(data, self.clock.boot(), self._chain.position, freeze)
        if isinstance(verdict, LeaseExtended):
            held = HeldLease(verdict.expiry_ns, verdict.at.term)
            self.around.watch.leases.extended(self.name, self.clock, held, lapsed=lapsed)
            self.lease.extend(verdict.expiry_ns)
            self._look_again()
            self.feed(steps.LeaseRenewed(verdict.expiry_ns, verdict.at, freeze))
        elif verdict.counter == UNKNOWN:
            self.feed(steps.AnswerUnknown())


def _nothing(effect: steps.Effect) -> None:
    """Do nothing: folders and log files are not simulated."""
