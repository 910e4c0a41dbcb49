# SPDX-License-Identifier: Apache-2.0
"""A replica without I/O whose effects are visible; the test decides the fate of each append."""

from __future__ import annotations

from typing import Any

from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.jetstream_log import LogFull, LogGap, WrongTail
from stoker.mesh.log.model_log import ModelLog
from stoker.mesh.replica import events
from stoker.mesh.replica.nodes.lease_answers import LeaseAnswers
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.wire.command import CommandChain, NodeCommand, Position, open_command
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import DeviceInfo, JobSpec, NodeReport, Outcome, Owner, TaskKey
from tests.mesh.founding import LEVEL, genesis_of

CLUSTER = "bench"
LEADER = 77
ALICE = Owner("alice", 1000, 1000, (27,))
BOB = Owner("bob", 1001, 1001)
LIMITS = Limits(nodes=4, devices=8, jobs=64, finished=16, tasks=64, node_tasks=64, keys=64)


class Bench:
    """One replica and its log. While `answering`, appends are carried out at once; else they wait
    in `appends`."""

    def __init__(
        self,
        signer: Identity,
        log: ModelLog | None = None,
        snapshot: Snapshot | None = None,
        digest: bytes = b"",
        **settings: Any,
    ) -> None:
        self.signer = signer
        self.log = log or ModelLog()
        self.now = 1_700_000_000_000_000_000
        self.date = 0
        """The ns by which the date was set forward."""
        self.answering = True
        self.replies: dict[Any, Any] = {}
        self.sent: list[events.Send] = []
        self.leases = LeaseAnswers(signer)
        self.log_is_down = False
        self.appends: list[events.Append] = []
        self.saves: list[Snapshot] = []
        self.trims: list[int] = []
        self.pings: list[events.PingNode] = []
        self.committed: list[events.EntryTold] = []
        self.halted = ""
        self.leads = 0
        chosen = {"log_max_bytes": 1 << 30, "snapshot_entries": 10**9, **settings}
        limits = chosen.pop("limits", LIMITS)
        accounts = chosen.pop("accounts", None)
        level = chosen.pop("level", LEVEL)
        made = genesis_of(CLUSTER, limits, signer.public, LEADER, accounts, level=level)
        founds = chosen.pop("genesis", made)
        self.replica = Replica(
            ReplicaSettings(founds, LEADER, measure=False, **chosen), signer, snapshot, digest
        )

    def feed(self, *new: events.Event) -> None:
        queue: list[events.Event] = list(new)
        while queue:
            for effect in self.replica.step(queue.pop(0), self.now + self.date, self.now):
                queue += self.carry_out(effect)

    def carry_out(self, effect: events.Effect) -> list[events.Event]:
        if isinstance(effect, events.Append | events.Read):
            return self.use_log(effect)
        if isinstance(effect, events.RenewLeases):
            self.leases.grant(effect.authority, self.now)
        elif isinstance(effect, events.Reply):
            assert effect.token not in self.replies, f"{effect.token} is answered twice"
            self.replies[effect.token] = effect.value
        elif isinstance(effect, events.Send):
            self.sent.append(effect)
        elif isinstance(effect, events.SaveSnapshot):
            self.saves.append(effect.snapshot)
        elif isinstance(effect, events.Trim):
            self.trims.append(effect.seq)
            self.log.drop(effect.seq)
            return [events.Trimmed(effect.seq)]
        elif isinstance(effect, events.Halt):
            self.halted = effect.reason
        elif isinstance(effect, events.Lead):
            self.leads += 1
        else:
            return self.watch(effect)
        return []

    def watch(self, effect: events.Effect) -> list[events.Event]:
        """Carry out an effect of the watch over nodes, or one for those who look on."""
        if isinstance(effect, events.Withhold):
            self.leases.withhold(effect.node)
            return [events.Withheld(effect.node, self.leases.answered_ns(effect.node))]
        if isinstance(effect, events.Resume):
            self.leases.resume(effect.node)
            return []
        if isinstance(effect, events.EntryTold):
            self.committed.append(effect)
            return []
        assert isinstance(effect, events.PingNode), effect
        self.pings.append(effect)
        return []

    def use_log(self, effect: events.Append | events.Read) -> list[events.Event]:
        if self.log_is_down:
            return [events.LogFailed("nobody serves the log")]
        if isinstance(effect, events.Read):
            return [events.LogEntries(self.log.read(effect.seq)), events.LogEnd()]
        self.appends.append(effect)
        return [self.land()] if self.answering else []

    def land(self) -> events.Event:
        """The oldest append reaches the log and is answered."""
        effect = self.appends.pop(0)
        try:
            return events.AppendDone(self.log.append(effect.tail, effect.data))
        except LogGap as error:
            return events.LogBroken(error.message)
        except LogFull as error:
            return events.AppendFull(error.message)
        except WrongTail as error:
            return events.LogFailed(error.message, error.last)

    def tick(self, seconds: float = 0.1) -> None:
        self.now += int(seconds * 1e9)
        self.feed(events.TimePassed())

    def renew(self, data: bytes, node: str = "n1") -> list[bytes]:
        """Return the answers to a lease request that comes now."""
        self.leases.receive(data, node, self.now)
        return [answer.data for answer in self.leases.due(self.now)]

    def lead(self) -> Bench:
        self.tick()
        assert self.replica.role == "leading"
        return self

    def hello(
        self, node: str = "n1", boot: str = "boot-1", incarnation: int = 1, **more: Any
    ) -> Bench:
        device = DeviceInfo("gpu-0", "sim", "m")
        report = NodeReport(node, boot, incarnation, 8000, 1 << 34, (device,), **more)
        self.feed(events.NodeReported(("hello", node, boot, incarnation), report))
        return self

    def submit(
        self,
        token: Any,
        *,
        owner: Owner = ALICE,
        key: bytes = b"",
        since_ns: int = 0,
        **spec: Any,
    ) -> None:
        spec.setdefault("argv", ("true",))
        self.feed(events.JobSubmitted(token, owner, key, JobSpec(**spec), since_ns=since_ns))

    def submit_many(self, count: int) -> None:
        """Submit `count` jobs in as few entries as possible; their tokens are 0, 1, ..."""
        spec = JobSpec(("true",))
        self.feed(*(events.JobSubmitted(token, ALICE, b"", spec) for token in range(count)))

    def key(self, job: int, attempt: int = 1) -> TaskKey:
        """Return the identity of a job's first task, as its node knows it."""
        return self.replica.state.book.key(job, attempt, 0)

    def outcome(self, job: int, state: Any, *, node: str = "n1", **fields: Any) -> Any:
        token = ("outcome", job, state, len(self.replies))
        made = Outcome(*self.key(job), 1, state, self.now, **fields)
        self.feed(events.Outcomes(token, node, (made,)))
        return self.replies.get(token)

    def commands(self, node: str = "n1") -> list[NodeCommand]:
        return [
            open_command(sent.data, [self.signer.verifier])
            for sent in self.sent
            if sent.node == node
        ]

    def actions(self, node: str = "n1") -> list[Any]:
        return [action for command in self.commands(node) for action in command.actions]

    def chain(self, node: str = "n1") -> CommandChain:
        return CommandChain(CLUSTER, node, [self.signer.verifier], Position())
