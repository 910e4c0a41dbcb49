# SPDX-License-Identifier: Apache-2.0
"""A seeded simulation around the real replica: a faulty log, and nodes and users that repeat.

Time is a number. Every fault is drawn from one generator, so that a seed determines the whole
history. The simulation records by itself what each node started and which job each user has.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.jetstream_log import LogFull, WrongTail
from stoker.mesh.log.model_log import ModelLog
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.nodes.lease_answers import LeaseAnswers
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.wire import lease_messages
from stoker.mesh.wire.command import (
    CommandAccepted,
    CommandChain,
    CommandGap,
    DesiredState,
    NodeReply,
    Position,
)
from stoker.mesh.wire.lease_messages import LeaseRequest
from stoker.native.errors import Corrupt, StokerError
from stoker.scheduler.book import Job
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import (
    ENDED,
    DeviceInfo,
    JobSpec,
    NodeReport,
    Observation,
    Outcome,
    Owner,
    StartJob,
    StopJob,
    TaskKey,
)
from tests.mesh.founding import genesis_of

CLUSTER = "sim"
LIMITS = Limits(nodes=4, devices=8, jobs=512, finished=64, tasks=512, node_tasks=64, keys=512)
LOG_BYTES = (12_000, 60_000)
STEP_NS = 50_000_000
LEADER = 77
_SEED = b"SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTAM"


@dataclass
class Faults:
    """The probability of each fault; with `none()` there are no faults."""

    ack_lost: float = 0.06
    append_lost: float = 0.04
    append_late: float = 0.05
    read_failed: float = 0.1
    message_lost: float = 0.1
    message_twice: float = 0.1
    crash: float = 0.01
    node_crash: float = 0.01
    snapshot_failed: float = 0.2
    snapshot_torn: float = 0.1
    torn: float = 0.02
    """An entry gets a number and is not written."""
    forced: float = 0.02
    """A late append is stored although its number is taken, because the engine's check fails."""

    @staticmethod
    def none() -> Faults:
        return Faults(*[0.0] * 12)


@dataclass
class Node:
    """A minimal agent. Its attempts survive its crashes; messages to it do not."""

    name: str
    chain: CommandChain
    started: dict[TaskKey, str] = field(default_factory=dict)
    """The journal: the states of each attempt that the scheduler has not acknowledged."""
    unreported: dict[TaskKey, list[str]] = field(default_factory=dict)
    starts: Counter[TaskKey] = field(default_factory=Counter)
    decisions: dict[TaskKey, int] = field(default_factory=dict)
    request_sent: bool = False
    hello_done: bool = False
    incarnation: int = 1


class World:
    """One simulated history."""

    def __init__(self, seed: int, signer: Identity, faults: Faults | None = None) -> None:
        self.chance = random.Random(seed)
        self.faults = faults or Faults()
        self.signer = signer
        self.now = 1_700_000_000_000_000_000
        self.log = ModelLog(max_bytes=self.chance.choice(LOG_BYTES))
        self.files: list[tuple[int, bytes]] = []
        self.late: list[tuple[int, bytes]] = []
        self.mail: deque[tuple[str, str, bytes]] = deque()
        self.pending: deque[events.Effect] = deque()
        self.jobs: dict[str, int] = {}
        """The job of each idempotency key, as it was acknowledged."""
        self.cancelled: set[int] = set()
        self.requested: dict[str, int] = {}
        self.torn: set[int] = set()
        self.halted = ""
        self.restarts = 0
        self.nodes = {
            name: Node(name, CommandChain(CLUSTER, name, [signer.verifier], Position()))
            for name in ("n1", "n2")
        }
        self.leases = LeaseAnswers(signer)
        self.acknowledged = 0
        """The last entry that was acknowledged; the state folder records it."""
        self.replica = self._boot()

    # --- the replica's surroundings ---------------------------------------------------------------

    def _boot(self) -> Replica:
        """Start a new process, which has only the disk and the log."""
        found, digest = None, b""
        for _, data in reversed(self.files):
            try:
                found, digest = snapshots.decode(data)
                break
            except Corrupt:
                continue
        self.restarts += 1
        settings = ReplicaSettings(
            genesis_of(CLUSTER, LIMITS, self.signer.public, LEADER),
            LEADER,
            self.log.max_bytes,
            self.restarts,
            25,
            measure=False,
            known_tail=self.acknowledged,
        )
        return Replica(settings, self.signer, found, digest)

    def crash(self) -> None:
        self.pending.clear()
        self.leases = LeaseAnswers(self.signer)
        self.replica = self._boot()
        self.requested.clear()
        for node in self.nodes.values():
            node.request_sent = False

    def feed(self, event: events.Event) -> None:
        self.pending.extend(self.replica.step(event, self.now, self.now))

    def settle(self) -> None:
        """Carry out effects until there are none."""
        while self.pending:
            self.carry_out(self.pending.popleft())

    def carry_out(self, effect: events.Effect) -> None:
        if isinstance(effect, events.Append):
            self.append(effect)
        elif isinstance(effect, events.Read):
            self.read(effect.seq)
        elif isinstance(effect, events.Reply):
            self.reply(effect.token, effect.value)
        elif isinstance(effect, events.Send):
            self.post("command", effect.node, effect.data)
        elif isinstance(effect, events.RenewLeases):
            self.leases.grant(effect.authority, self.now)
        elif isinstance(effect, events.SaveSnapshot):
            self.save(effect)
        elif isinstance(effect, events.Trim):
            self.log.drop(effect.seq)
            self.feed(events.Trimmed(effect.seq))
        elif isinstance(effect, events.Halt):
            self.halted = effect.reason

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    def append(self, effect: events.Append) -> None:
        if self.happens(self.faults.append_lost):
            self.feed(events.LogFailed("lost"))
        elif self.happens(self.faults.append_late):
            self.late.append((effect.tail, effect.data))
            self.feed(events.LogFailed("late"))
        else:
            self.land(effect)

    def land(self, effect: events.Append) -> None:
        # All works that wait meanwhile become one entry, which would not fit into a tiny log.
        roomy = self.log.max_bytes > LOG_BYTES[0] and effect.tail == self.log.last
        if self.happens(self.faults.torn) and roomy:
            self.log.tear()
            self.feed(events.LogFailed("the disk is full"))
            return
        try:
            seq = self.log.append(effect.tail, effect.data)
        except LogFull as error:
            self.feed(events.AppendFull(error.message))
        except WrongTail as error:
            self.feed(events.LogFailed(error.message, error.last))
        else:
            lost = self.happens(self.faults.ack_lost)
            self.acknowledged = max(self.acknowledged, 0 if lost else seq)
            self.feed(events.LogFailed("no answer") if lost else events.AppendDone(seq))

    def land_late(self) -> None:
        """Deliver late appends, perhaps twice, perhaps after other entries took their numbers."""
        for tail, data in [*self.late, *self.late]:
            try:
                self.log.append(self.log.last if self.happens(self.faults.forced) else tail, data)
            except StokerError:
                continue
        self.late.clear()

    def read(self, seq: int) -> None:
        entries = self.log.read(seq)
        if self.happens(self.faults.read_failed):
            self.feed(events.LogEntries(entries[: len(entries) // 2]))
            self.feed(events.LogFailed("read"))
            return
        self.feed(events.LogEntries(entries))
        self.feed(events.LogEnd())

    def save(self, effect: events.SaveSnapshot) -> None:
        if self.happens(self.faults.snapshot_failed):
            self.feed(events.SnapshotFailed("disk"))
            return
        encoded = snapshots.encode(effect.snapshot)
        self.files = [*self.files[-1:], (effect.snapshot.seq, encoded.data)]
        self.feed(events.SnapshotSaved(effect.snapshot.seq, encoded.digest))

    def tear_newest(self) -> None:
        """Cut the newest file on disk, if there is an older one that suffices."""
        if len(self.files) < 2 or any(seq in self.torn for seq, _ in self.files):
            return
        # After a full log there may be none, because the log was trimmed to the newest file.
        enough = self.files[0][0] + 1 in self.log.entries
        if enough and self.happens(self.faults.snapshot_torn):
            seq, data = self.files[-1]
            self.files[-1] = (seq, data[: self.chance.randrange(len(data))])
            self.torn.add(seq)
            self.crash()

    # --- nodes ------------------------------------------------------------------------------------

    def post(self, what: str, node: str, data: bytes) -> None:
        if self.happens(self.faults.message_lost):
            return
        self.mail.append((what, node, data))
        if self.happens(self.faults.message_twice):
            self.mail.append((what, node, data))

    def renew(self) -> None:
        """Let all nodes request their leases, and post what is answered."""
        for name in self.nodes:
            request = LeaseRequest(lease_messages.FORMAT, name, 0, self.now, 1)
            self.leases.receive(lease_messages.encode_request(request), name, self.now)
        for answer in self.leases.due(self.now):
            for name in answer.nodes:
                self.post("lease", name, answer.data)

    def at(self, name: str, data: bytes) -> Position:
        """Return the last command for a node, as a lease answer names it."""
        answer = lease_messages.open_answer(data, [self.signer.verifier])
        (grant,) = (grant for grant in answer.grants if grant.node == name)
        return Position(answer.term, grant.seq, grant.hash)

    def deliver(self) -> None:
        while self.mail:
            what, name, data = self.mail.popleft()
            node = self.nodes[name]
            behind = False
            if what == "command":
                verdict = node.chain.offer(data)
                behind = isinstance(verdict, CommandGap)
                if isinstance(verdict, CommandAccepted):
                    self.obey(node, verdict.command.actions)
            elif what == "desired":
                desired = node.chain.reconcile(data)
                node.request_sent = False
                if isinstance(desired, DesiredState):
                    self.obey_desired(node, desired)
            else:
                behind = node.chain.is_behind(self.at(name, data))
            if behind:
                self.request_state(node)

    def request_state(self, node: Node) -> None:
        if not node.hello_done:
            return
        request = node.chain.state_request(tuple(node.started))
        self.feed(events.StateRequested(("range", node.name), node.name, request))

    def obey_desired(self, node: Node, desired: DesiredState) -> None:
        self.obey(node, (*desired.starts, *desired.stops))
        for attempt in desired.wanted:
            assert attempt in node.started or desired.more, (
                f"{attempt} is wanted but was never sent"
            )
        for job in desired.forgets:
            self.forget(node, job)
        if desired.more:
            self.request_state(node)

    def obey(self, node: Node, actions: tuple[Any, ...]) -> None:
        for action in actions:
            if isinstance(action, StartJob):
                self.start(node, action)
            elif isinstance(action, StopJob):
                self.stop(node, action.key)
            else:
                self.forget(node, action.job)

    def start(self, node: Node, action: StartJob) -> None:
        attempt = action.key
        if attempt in node.started:
            return
        node.starts[attempt] += 1
        node.decisions[attempt] = action.decision.id
        assert action.spec.argv == ("job", action.owner.user)
        self.become(node, attempt, "running")

    def stop(self, node: Node, attempt: TaskKey) -> None:
        if node.started.get(attempt, "new") in ("new", "running"):
            self.become(node, attempt, "cancelled")

    def become(self, node: Node, attempt: TaskKey, state: str) -> None:
        node.started[attempt] = state
        node.unreported.setdefault(attempt, []).append(state)

    def forget(self, node: Node, job: int) -> None:
        for attempt in [attempt for attempt in node.started if attempt.job == job]:
            assert node.started[attempt] in ENDED, f"forgotten while {node.started[attempt]}"
            del node.started[attempt]
            node.unreported.pop(attempt, None)

    def live(self, node: Node) -> None:
        """Make one step of a node: hello, end some jobs, report outcomes."""
        if self.happens(self.faults.node_crash):
            position = node.chain.position
            node.chain = CommandChain(CLUSTER, node.name, [self.signer.verifier], position)
            node.hello_done = False
            node.incarnation += 1
        if not node.hello_done:
            self.feed(events.NodeReported(("hello", node.name), self.report(node)))
        for attempt, state in list(node.started.items()):
            if state == "running" and self.happens(0.2):
                self.become(node, attempt, self.chance.choice(("succeeded", "failed")))
        self.report_outcomes(node)
        sample = Observation(self.now // STEP_NS, node.name, self.now, 500, 1 << 30)
        self.feed(events.Observed(node.name, sample))

    def report(self, node: Node) -> NodeReport:
        device = DeviceInfo("d0", "sim", "sim", nodes=((195, 0),))
        return NodeReport(node.name, "boot-1", node.incarnation, 8000, 1 << 34, (device,))

    def report_outcomes(self, node: Node) -> None:
        outcomes = tuple(
            Outcome(*key, node.decisions.get(key, 0), state, self.now)  # type: ignore[arg-type]
            for key, states in node.unreported.items()
            for state in states
        )
        if outcomes and not self.happens(self.faults.message_lost):
            reported = [(key, list(states)) for key, states in node.unreported.items()]
            self.feed(events.Outcomes(("reported", node.name, reported), node.name, outcomes[:64]))

    # --- users ------------------------------------------------------------------------------------

    def submit(self, key: str) -> None:
        user, _, gpu_milli = key.split("-")
        spec = JobSpec(("job", user), gpu_milli=int(gpu_milli))
        self.requested[key] = self.now
        owner = Owner(user, 1000, 1000)
        self.feed(events.JobSubmitted(("submit", key), owner, key.encode()[:16], spec))

    def reply(self, token: Any, value: Any) -> None:
        if token[0] == "submit":
            self.requested.pop(token[1], None)
            if isinstance(value, Job):
                promised = self.jobs.setdefault(token[1], value.job)
                assert promised == value.job, f"{token[1]}: job {promised}, then {value.job}"
        elif self.happens(self.faults.message_lost):
            return
        elif token[0] == "hello" and isinstance(value, NodeReply) and value.ok:
            self.nodes[token[1]].hello_done = True
        elif token[0] == "range" and isinstance(value, bytes):
            self.post("desired", token[1], value)
        elif token[0] == "reported" and value.ok:
            self.acknowledge(self.nodes[token[1]], token[2])
        elif token[0] == "get":
            assert isinstance(value, Job | StokerError)

    @staticmethod
    def acknowledge(node: Node, reported: list[tuple[TaskKey, list[str]]]) -> None:
        """Acknowledged is what was in that message, not what became of it since."""
        for attempt, states in reported:
            rest = [state for state in node.unreported.get(attempt, []) if state not in states]
            if rest:
                node.unreported[attempt] = rest
            else:
                node.unreported.pop(attempt, None)

    # --- running ----------------------------------------------------------------------------------

    def step(self, keys: list[str]) -> None:
        """Make one step of users and nodes, then carry out all effects."""
        self.now += STEP_NS
        self.feed(events.TimePassed())
        for key in keys:
            if key not in self.jobs and key not in self.requested:
                self.submit(key)
        if self.jobs and self.happens(0.1):
            job = self.chance.choice(list(self.jobs.values()))
            self.feed(events.CancelRequested(("cancel",), [job], "why not"))
        if self.jobs and self.happens(0.3):
            job = self.chance.choice(list(self.jobs.values()))
            self.feed(events.Get(("get",), job, "ended", self.now + 4 * STEP_NS))
        for node in self.nodes.values():
            self.live(node)
        self.settle()
        self.renew()
        self.deliver()
        self.settle()
        if self.happens(0.5):
            self.land_late()
        if self.happens(self.faults.crash):
            self.crash()
        self.tear_newest()

    def over(self, keys: list[str]) -> bool:
        """Return True if every key has a job that ended, and its node has the acknowledgement."""
        if self.replica.role != "leading" or any(key not in self.jobs for key in keys):
            return False
        if any(node.unreported for node in self.nodes.values()):
            return False
        return not any(self.replica.state.book.live(job) is not None for job in self.jobs.values())
