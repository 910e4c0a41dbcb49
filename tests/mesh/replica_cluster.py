# SPDX-License-Identifier: Apache-2.0
"""Three replicas, one log and a post between them; the test decides what gets lost, and when.

Time is a number that `pass_time` moves. Effects are carried out at once, unless a replica is cut
off from the others (`cut`) or from the log (`log_down`), or is dead.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.feature_level import BUILD, FORMATS, FeatureRange
from stoker.mesh.log.genesis import Genesis, RosterMember
from stoker.mesh.log.jetstream_log import LogGap, WrongTail
from stoker.mesh.log.model_log import ModelLog
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.authority import Authority
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import DeviceInfo, JobSpec, NodeReport, Owner
from tests.mesh.founding import LEVEL

CLUSTER = "cluster"
ALICE = Owner("alice", 1000, 1000)
LIMITS = Limits(nodes=4, devices=8, jobs=64, finished=16, tasks=64, node_tasks=64, keys=64)
STEP_NS = 50_000_000


@dataclass
class Disk:
    """The durable part of a replica, which survives its death."""

    entries: list[tuple[int, bytes]] = field(default_factory=list)
    promised: int = 0
    snapshot: bytes = b""
    floor: tuple[int, int] = (0, 0)

    def store(self, effect: events.Store) -> None:
        self.entries = [each for each in self.entries if each[0] <= effect.after]
        self.entries += effect.entries
        self.promised = effect.promised
        self.floor = effect.floor


class Cluster:
    """The replicas by number, from 1."""

    def __init__(self, signers: list[Identity], *, level: int = LEVEL, **settings: Any) -> None:
        members = tuple(RosterMember(n, s.public) for n, s in enumerate(signers, 1))
        self.genesis = Genesis(CLUSTER, LIMITS, members, FORMATS[level], {}, level=level)
        self.signers = dict(enumerate(signers, 1))
        self.settings = {"log_max_bytes": 1 << 30, "snapshot_entries": 10**9, **settings}
        self.log = ModelLog()
        self.now = 1_700_000_000_000_000_000
        self.disks = {number: Disk() for number in self.signers}
        self.replicas: dict[int, Replica] = {}
        self.replies: dict[Any, Any] = {}
        self.supports: dict[int, FeatureRange] = {}
        """The feature levels that the build of a replica supports, from its next boot on."""
        self.cut: set[int] = set()
        self.log_down: set[int] = set()
        self.halted: dict[int, str] = {}
        self.authority: dict[int, Authority | None] = {}
        """The authority over leases that each replica has now."""
        self.sent: list[events.Send] = []
        self._queue: deque[tuple[int, events.Event]] = deque()
        for number in self.signers:
            self.boot(number)

    def boot(self, number: int) -> Replica:
        disk = self.disks[number]
        found, digest = snapshots.decode(disk.snapshot) if disk.snapshot else (None, b"")
        settings = ReplicaSettings(
            self.genesis, number, seed=number, measure=False, promised=disk.promised,
            floor=disk.floor, supports=self.supports.get(number, BUILD), **self.settings,
        )  # fmt: skip
        made = Replica(settings, self.signers[number], found, digest, tuple(disk.entries))
        self.replicas[number] = made
        return made

    def kill(self, number: int) -> None:
        del self.replicas[number]

    # --- events and effects -----------------------------------------------------------------------

    def feed(self, number: int, event: events.Event) -> None:
        self._queue.append((number, event))
        while self._queue:
            to, each = self._queue.popleft()
            if to in self.replicas:
                for effect in self.replicas[to].step(each, self.now, self.now):
                    self.carry_out(to, effect)

    def carry_out(self, number: int, effect: events.Effect) -> None:
        match effect:
            case events.SendPeer(to, data):
                if not {number, to} & self.cut:
                    self._queue.append((to, events.PeerMessage(data)))
            case events.Store():
                self.disks[number].store(effect)
            case events.Append() | events.Read():
                self._queue += [(number, event) for event in self.log_answers(number, effect)]
            case events.Reply(token, value):
                assert token not in self.replies, f"{token} is answered twice"
                self.replies[token] = value
            case events.SaveSnapshot(snapshot):
                encoded = snapshots.encode(snapshot)
                self.disks[number].snapshot = encoded.data
                done = events.SnapshotSaved(
                    snapshot.seq, encoded.digest, snapshot.index, snapshots.agreement(snapshot)
                )
                self._queue.append((number, done))
            case events.Trim(seq):
                self.log.drop(seq)
                self._queue.append((number, events.Trimmed(seq)))
            case events.ReadSnapshotPart(to, _, offset):
                self._queue.append((number, self.part(number, to, offset)))
            case events.Install(data, _):
                before = self.disks[number]
                self.disks[number] = Disk([], before.promised, data, before.floor)
                self.boot(number)
            case events.RenewLeases(authority):
                self.authority[number] = authority
            case events.Halt(reason):
                self.halted[number] = reason
            case events.Send():
                self.sent.append(effect)

    def part(self, number: int, to: int, offset: int) -> events.SnapshotPartRead:
        data = self.disks[number].snapshot
        index = snapshots.decode(data)[0].index if data else 0
        return events.SnapshotPartRead(to, index, offset, len(data), data[offset : offset + 5000])

    def log_answers(self, number: int, effect: events.Append | events.Read) -> list[events.Event]:
        if number in self.log_down:
            return [events.LogFailed("nobody serves the log")]
        if isinstance(effect, events.Read):
            return [events.LogEntries(self.log.read(effect.seq)), events.LogEnd()]
        try:
            return [events.AppendDone(self.log.append(effect.tail, effect.data), effect.name)]
        except LogGap as error:
            return [events.LogBroken(error.message)]
        except WrongTail as error:
            return [events.LogFailed(error.message, error.last)]

    # --- time -------------------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 1e9 / STEP_NS)):
            self.now += STEP_NS
            for number in list(self.replicas):
                self.feed(number, events.TimePassed())

    def settle(self, seconds: float = 15) -> int:
        """Pass time until one replica leads and all others have applied what it has."""
        for _ in range(round(seconds * 10)):
            self.pass_time(0.1)
            leaders = [n for n, each in self.replicas.items() if each.role == "leading"]
            ends = {each.state.index for n, each in self.replicas.items() if n not in self.cut}
            if len(leaders) == 1 and len(ends) == 1:
                return leaders[0]
        raise AssertionError({n: (r.role, r.why, r.state.index, r.counters)
                              for n, r in self.replicas.items()})  # fmt: skip

    # --- requests ---------------------------------------------------------------------------------

    def hello(self, number: int, node: str = "n1") -> None:
        report = NodeReport(node, "boot-1", 1, 8000, 1 << 34, (DeviceInfo("gpu-0", "sim", "m"),))
        token = ("hello", node, len(self.replies))
        self.feed(number, events.NodeReported(token, report))

    def submit(self, number: int, token: Any, **spec: Any) -> Any:
        spec.setdefault("argv", ("true",))
        self.feed(number, events.JobSubmitted(token, ALICE, b"", JobSpec(**spec)))
        return self.replies.get(token)

    def digests(self) -> set[bytes]:
        """The digests of all states, which differ only where replicas differ."""
        return {snapshots.agreement(each.state.snapshot()) for each in self.replicas.values()}
