# SPDX-License-Identifier: Apache-2.0
"""Seeded chaos around the agent's core: every message may be lost, the agent dies at any effect.

The scheduler and the spawner here are deliberately dumb and durable. Safety holds at every step
(an attempt runs at most once); after the faults stop every job must reach the log with its end.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from fakes.orders import CLUSTER, NODE, Seal, start_of

from stoker.agent.jobs import steps
from stoker.agent.jobs.lease_judge import Freeze
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.steps import Effect, Event
from stoker.mesh.wire import command as wire
from stoker.mesh.wire.command import CommandChain, DesiredState, NodeCommand, Position
from stoker.scheduler.nouns import Action, NodeReport, Outcome, StartJob, StopJob, TaskKey
from tests.rounds import rounds

JOBS = 30
LEASE_NS = 2_000_000_000
STEPS = 400
FAULTS_UNTIL = 300


@dataclass
class Scheduler:
    """The log: which attempts there are, which are to stop, and how they ended."""

    at: Position = field(default_factory=lambda: Position(1, 0, wire.NO_HASH))
    open: dict[TaskKey, StartJob] = field(default_factory=dict)
    stops: dict[TaskKey, StopJob] = field(default_factory=dict)
    ended: dict[TaskKey, Outcome] = field(default_factory=dict)

    def command(self, *actions: Action) -> bytes:
        seq = self.at.seq + 1
        record = NodeCommand(
            wire.FORMAT, CLUSTER, NODE, self.at.term, seq, self.at.seq, self.at.hash, 9, actions
        )
        body = wire.encode(record)
        self.at = Position(self.at.term, seq, wire.body_hash(body))
        return wire.seal_body(body, Seal())

    def submit(self, job: int) -> bytes:
        start = start_of(TaskKey(job, 1, 0))
        self.open[start.key] = start
        return self.command(start)

    def cancel(self, key: TaskKey) -> bytes:
        self.stops[key] = StopJob(*key, "cancelled")
        return self.command(self.stops[key])

    def desired(self, ask: wire.StateRequest) -> bytes:
        have = set(ask.have)
        starts = [s for key, s in self.open.items() if key not in have and key not in self.stops]
        stops = tuple(stop for key, stop in self.stops.items() if key in self.open)
        more, starts = len(starts) > 7, starts[:7]
        record = DesiredState(
            wire.FORMAT, CLUSTER, NODE, self.at.term, self.at.seq, self.at.hash, ask.nonce, 9,
            tuple(self.open), tuple(starts), stops, more,
        )  # fmt: skip
        return wire.seal(record, Seal())

    def commit(self, outcomes: tuple[Outcome, ...]) -> None:
        for outcome in outcomes:
            key = outcome.key
            if outcome.state != "running" and key in self.open:
                del self.open[key]
                self.ended[key] = outcome


@dataclass
class Spawner:
    """Durable: what was taken, what began (and how often), how it ended, what was acknowledged."""

    taken: dict[TaskKey, str] = field(default_factory=dict)
    begun: dict[TaskKey, int] = field(default_factory=dict)

    def start(self, key: TaskKey) -> None:
        self.taken.setdefault(key, "taken")

    def has(self, key: TaskKey) -> steps.SpawnerAttempt:
        decision = key[0] * 65536
        match self.taken[key]:
            case "running":
                return steps.SpawnerAttempt(key, decision, steps.Ran(key, decision, 7))
            case "never":
                return steps.SpawnerAttempt(key, decision, steps.NeverStarted(key, 6))
            case "ended" | "stopped" as how:  # of a stop that a new agent may not know
                state = "cancelled" if how == "stopped" else "succeeded"
                outcome = Outcome(*key, decision, state, 8)
                return steps.SpawnerAttempt(
                    key, decision, steps.JobEnded(outcome, stopped=how == "stopped")
                )
        return steps.SpawnerAttempt(key, decision)

    def go_on(self, chance: random.Random) -> list[Event]:
        """Time passes for one attempt; what it tells, which may get lost."""
        if not self.taken:
            return []
        key = chance.choice(list(self.taken))
        match self.taken[key]:
            case "taken" if chance.random() < 0.1:
                self.taken[key] = "never"
            case "taken":
                self.begun[key] = self.begun.get(key, 0) + 1
                assert self.begun[key] == 1, f"{key} was started twice"
                self.taken[key] = "running"
            case "running":
                self.taken[key] = "ended"
        news = self.has(key).event
        return [news] if news is not None else []


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.faults = True
        self.now_s = 1000.0
        self.expiry_ns = 0
        self.freeze: Freeze | None = None
        self.freezes = 0
        self.scheduler = Scheduler()
        self.spawner = Spawner()
        self.stored = Position()
        self.inbox: list[Event] = []
        self.begin()

    def begin(self) -> None:
        """A new agent process: only the position and the spawner are left of the old one."""
        self.inbox.clear()
        self.node = NodeCore(CommandChain(CLUSTER, NODE, [Seal()], self.stored))
        report = NodeReport(NODE, "boot", 1, 1, 1)
        has = tuple(map(self.spawner.has, list(self.spawner.taken)))
        self.inbox += [
            steps.Reported(report),
            steps.MeshUp(),
            steps.SpawnerAttempts(has, frozenset(), 1),
        ]

    def lost(self, share: float = 0.2) -> bool:
        return self.faults and self.chance.random() < share

    def tell(self, event: Event) -> None:
        if not self.lost():
            self.inbox.append(event)

    def turn(self, step: int) -> None:
        self.now_s += 0.05
        if step < JOBS:
            self.tell(steps.CommandReceived(self.scheduler.submit(step + 1)))
        if self.chance.random() < 0.1 and self.scheduler.open and self.faults:
            key = self.chance.choice(list(self.scheduler.open))
            self.tell(steps.CommandReceived(self.scheduler.cancel(key)))
        self.watch()
        if self.freeze is None:
            for event in self.spawner.go_on(self.chance):
                self.tell(event)
        if step % 20 == 0:
            if not self.lost(0.7):
                self.expiry_ns = self.now_ns + LEASE_NS
                self.tell(steps.LeaseRenewed(self.expiry_ns, self.scheduler.at, self.freeze))
            has = tuple(map(self.spawner.has, list(self.spawner.taken)))
            self.inbox.append(steps.SpawnerAttempts(has, self.node.taken(), 1))
        self.inbox.append(steps.NodeTick())
        self.deliver()

    @property
    def now_ns(self) -> int:
        return int(self.now_s * 1e9)

    def watch(self) -> None:
        """Freeze all jobs as the watchdog does."""
        if self.freeze is None and self.now_ns >= self.expiry_ns:
            self.freezes += 1
            self.freeze = Freeze(self.freezes, self.now_ns)

    def deliver(self) -> None:
        if self.faults and self.chance.random() < 0.2:
            self.chance.shuffle(self.inbox[3:])
        while self.inbox:
            event = self.inbox.pop(0)
            for effect in self.node.step(event, self.now_s):
                if self.lost(0.01):  # the process dies between two effects
                    return self.begin()
                self.act(effect)
        return None

    def act(self, effect: Effect) -> None:  # noqa: PLR0912  # one branch per effect
        match effect:
            case steps.Persist(position):
                self.stored = position
            case steps.SayHello(report):
                self.inbox.append(
                    steps.NotGreeted("lost") if self.lost() else steps.Greeted(report)
                )
            case steps.RequestState(ask):
                answer = steps.StateReceived(self.scheduler.desired(ask))
                self.inbox.append(steps.StateFailed("lost") if self.lost() else answer)
            case steps.Thaw(epoch, until_ns):
                if self.freeze is not None and self.freeze.epoch == epoch:
                    assert self.now_ns < until_ns <= self.expiry_ns
                    self.freeze = None
            case steps.StartAttempts(starts):
                assert self.now_ns < self.expiry_ns, "started without a lease"
                for start in starts:
                    self.spawner.start(start.key)
                self.tell(steps.Taken(tuple(s.key for s in starts)))
            case steps.StopAttempt(key, _):
                if self.spawner.taken.get(key) in ("taken", "running"):
                    self.spawner.taken[key] = "stopped"
            case steps.SendOutcomes(number, outcomes):
                answered = not self.lost()
                if answered or self.chance.random() < 0.5:  # the answer may be lost, not the deed
                    self.scheduler.commit(outcomes)
                done = steps.Committed(number) if answered else steps.NotCommitted(number, "lost")
                self.inbox.append(done)
            case steps.Acknowledge(keys):
                for key in keys:
                    if not self.lost():
                        self.spawner.taken.pop(key, None)


@pytest.mark.rounds
@pytest.mark.parametrize("seed", range(rounds(40, 20_000)))
def test_every_job_runs_at_most_once_and_its_end_reaches_the_log(seed: int) -> None:
    world = World(seed)
    for step in range(STEPS):
        world.faults = step < FAULTS_UNTIL
        world.turn(step)
    step = STEPS
    while world.scheduler.open and step < STEPS + 2000:
        world.turn(step)
        step += 1
    assert world.freezes > 0
    assert world.scheduler.open == {}
    assert len(world.scheduler.ended) == JOBS
    for key, outcome in world.scheduler.ended.items():
        began = world.spawner.begun.get(key, 0)
        assert began == 1 or outcome.state in ("cancelled", "lost"), (key, outcome)
