# SPDX-License-Identifier: Apache-2.0
"""One simulated cluster from its first entry to its last outcome, determined by a seed.

Faults happen up to FAULTS_NS; then everything is healed. Within LIVENESS_NS nobody may owe anything
any more: of what was acknowledged, a program that runs then may take what it has left. Owns what
makes a run count: its size, its length and its faults.
"""

from __future__ import annotations

import random
from collections import Counter

from stoker.agent.sim.fault_plan import FaultPlan
from stoker.agent.sim.figures import ENTRIES_MIN, SeedFigures, Shape
from stoker.agent.sim.node_changer import NodeChanger
from stoker.agent.sim.node_process import NodeProcess, TrustedCluster
from stoker.agent.sim.roster_changer import RosterChanger
from stoker.agent.sim.run_audit import RunAudit
from stoker.agent.sim.upgrader import OLD, Upgrader
from stoker.agent.sim.users import SimUser
from stoker.mesh.log.feature_level import BUILD, FORMATS, FeatureRange
from stoker.mesh.log.genesis import Genesis, RosterMember
from stoker.mesh.sim import stream_faults
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.sim.log_audit import LogAudit
from stoker.mesh.sim.model_stream import ModelStream
from stoker.mesh.sim.network import NO_FAULTS, NetworkFaults, SimNetwork
from stoker.mesh.sim.opened_entries import OpenedEntries
from stoker.mesh.sim.scheduler_process import SchedulerProcess, Seat, Surroundings
from stoker.mesh.sim.scheduler_watch import SchedulerWatch
from stoker.mesh.sim.story import Story
from stoker.mesh.sim.timeline import SECOND, Timeline
from stoker.scheduler.core import Limits

FAULTS_NS = 20 * SECOND
LIVENESS_NS = 20 * SECOND
LENGTH_NS = 30 * SECOND
MORE_NS = 14 * SECOND
"""The time after the last fault in which users submit more, if the log is short."""
MORE_EACH = 4
"""Entries for each of which that lack, users submit one more job."""
LOOK_NS = SECOND // 2
SETTLE_NS = SECOND
"""The time that the end of a program may take to be known everywhere."""
BACK_OFF_NS = 8 * SECOND
"""The longest wait for the next attempt of a job whose launch failed on purpose."""
REPLAY_EVERY = 8
"""Every so many seeds the whole log is replayed and compared with a snapshot and its tail."""
ALONE, ALONE_EVERY = 9, 100
"""One of so many seeds has one scheduler and one server of the log; it does not count."""
WISHES = 22
"""Jobs of each user: with their repeats, about as many as make a log of ENTRIES_MIN entries."""
LIMITS = Limits(nodes=32, devices=128, jobs=512, finished=512, tasks=512, node_tasks=64, keys=2048)
LOG_BYTES = 64 << 20
SPARES, SPARES_EVERY = 2, 4
"""One of so many seeds with several schedulers has so many more, and an administrator who changes
the roster."""
GROWS_EVERY = 8
"""One of so many seeds begins with one scheduler in a cluster that is replicated, and with spare
ones that may make three or five of it."""
UPGRADES_EVERY = 4
"""One of so many seeds begins with an older build, and an administrator who upgrades it."""
ARRAYS_EVERY = 3
"""In one of so many seeds that begin with the newest level, some requests are arrays."""
DRAINS_EVERY = 6
"""In two of so many seeds that begin with the newest level, an administrator drains and
removes nodes."""
CLUSTER = "sim"
NONE = stream_faults.StreamFaults()


class World:
    """One simulated cluster; without `faults` nothing goes wrong by itself."""

    def __init__(
        self,
        seed: int,
        shape: Shape,
        *,
        faults: bool = True,
        story: bool = False,
        level: int = BUILD.newest,
        supports: FeatureRange = BUILD,
    ) -> None:
        self.seed = seed
        self._level, self._supports = (OLD.newest, OLD) if shape.upgrades else (level, supports)
        self.shape = shape
        self.chance = chance = random.Random(seed)
        self.timeline = Timeline()
        self.story = Story(self.timeline, on=story)
        self.runs = RunAudit()
        self.states: set[str] = set()
        self._faults = faults
        several = shape.schedulers > 1 or shape.grows
        self._entries_min = ENTRIES_MIN if faults and several else 0
        network_faults = _network_faults(chance) if faults else NO_FAULTS
        self.network = SimNetwork(self.timeline, chance, network_faults)
        self.stream = ModelStream(
            self.timeline,
            chance,
            self.network,
            self.story,
            servers=shape.servers,
            faults=stream_faults.drawn(chance, shape.servers) if faults else NONE,
            max_bytes=LOG_BYTES,
        )
        self._changer: RosterChanger | None = None
        self._upgrader: Upgrader | None = None
        self._node_changer: NodeChanger | None = None
        self._build()
        until_ns = FAULTS_NS if faults else 0
        suffers = self.around, self.schedulers, self.nodes, until_ns
        self.plan = FaultPlan(*suffers, few=shape.grows)

    def _build(self) -> None:
        shape = self.shape
        keys = [KeyedHash(f"U{number}") for number in range(shape.schedulers + shape.spares)]
        everybody = tuple(RosterMember(n + 1, key.public) for n, key in enumerate(keys))
        level = self._level
        founders = everybody[: shape.schedulers]
        stated = LIMITS, founders, FORMATS[level]
        genesis = Genesis(CLUSTER, *stated, {}, level=level, replicated=shape.grows)
        self.audit = LogAudit(genesis)
        opened = OpenedEntries()
        seen = self.audit, self.timeline, self.stream, shape.schedulers, opened
        watch = SchedulerWatch(*seen, replicated=shape.grows)
        self.around = Surroundings(
            self.timeline,
            self.chance,
            self.network,
            self.stream,
            self.audit,
            self.story,
            watch,
            opened,
        )
        self.nodes = [
            NodeProcess(
                self.around,
                f"node-{n + 1}",
                self.chance.randint(2, 4),
                audit=self.runs,
                trusted=TrustedCluster(CLUSTER, tuple(each.public_key for each in founders)),
            )
            for n in range(shape.nodes)
        ]
        by_name = {node.name: node for node in self.nodes}
        self.schedulers = [
            SchedulerProcess(
                self.around,
                Seat(f"scheduler-{n + 1}", n + 1, key, n % shape.servers),
                genesis,
                lambda name: by_name[name].take,
            )
            for n, key in enumerate(keys)
        ]
        for scheduler in self.schedulers:
            scheduler.supports = self._supports
            scheduler.peers = {n + 1: each for n, each in enumerate(self.schedulers)}
        self.users = [SimUser(self.around, f"user-{n + 1}", self.runs) for n in range(shape.users)]
        for node in self.nodes:
            node.schedulers = self.schedulers
            node.pings.hosts = by_name
        for user in self.users:
            user.launches_fail, user.has_arrays = self._faults, shape.arrays
            user.schedulers, user.is_moved = self.schedulers, shape.drains

    # --- running ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start everything."""
        for scheduler in self.schedulers:
            scheduler.start()
        for node in self.nodes:
            node.boot_machine()
        if self._entries_min and self.shape.spares:
            self._changer = RosterChanger(
                self.around,
                self.schedulers,
                self.shape.schedulers,
                FAULTS_NS,
                stays=self.schedulers[0].number if self.shape.grows else 0,
            )
        if self.shape.upgrades:
            self._upgrader = Upgrader(self.around, self.schedulers, FAULTS_NS)
        if self.shape.drains:
            nodes = NodeChanger(self.around, self.schedulers, self.nodes, FAULTS_NS)
            self._node_changer = nodes
        for user in self.users:
            user.plan(self.chance, self.shape.wishes, FAULTS_NS)
        self.timeline.after(LOOK_NS, self._look, None)

    def _look(self, _: None) -> None:
        """Note in which states the parts are, for the coverage of states."""
        roles = sorted(s.replica.role if s.alive else "dead" for s in self.schedulers)
        frozen = min(sum(node.lease.frozen for node in self.nodes), 3)
        dead = min(sum(not node.alive or node.paused for node in self.nodes), 3)
        cut = bool(self.network.counts["cut"])
        self.states.add(f"{','.join(roles)}/{frozen}/{dead}/{self.stream.leader < 0}/{cut}")
        self.timeline.after(LOOK_NS, self._look, None)

    def run(self) -> SeedFigures:
        """Run to the end and return what it came to."""
        self.begin()
        self.timeline.run(FAULTS_NS)
        if self._upgrader is not None:
            self._upgrader.finish()
        if self._node_changer is not None:
            self._node_changer.finish()
        self.plan.heal()
        self._finish()
        for each in self.schedulers:
            self.audit.over(each.name, each.replica.state)
        if self.seed % REPLAY_EVERY == 0:
            self.audit.replayed()
        return self.figures()

    def _finish(self) -> None:
        """Let everything end; what has not in time is a violation."""
        while not self.stream.whole:  # an election that had begun is the last fault
            self.timeline.run(self.timeline.now + LOOK_NS)
        healed = self.timeline.now
        while not self._is_done() and self.timeline.now < healed + LIVENESS_NS:
            if self.timeline.now < healed + MORE_NS:
                self._wish_more()
            self.timeline.run(self.timeline.now + LOOK_NS)
        if not self.is_over() and self._settles():
            self._let_end()
        if not self.is_over():
            self.runs.violations.append(f"{LIVENESS_NS // SECOND} s after all faults {self._why()}")
        self.timeline.run(max(self.timeline.now, LENGTH_NS))

    def _settles(self) -> bool:
        """True if nobody owes anything but programs that run, and jobs that wait for their ends or
        for a time: each may take what it has left.

        The end of a program may be on its way to the log at this moment, so there are some looks.
        """
        until_ns = self.timeline.now + SETTLE_NS
        while not self._is_settled() and self.timeline.now < until_ns:
            self.timeline.run(self.timeline.now + SETTLE_NS // 20)
        return self._is_settled()

    def _let_end(self) -> None:
        """Let programs end, and what follows them, as long as there is progress."""
        before = -1
        while not self.is_over() and before < (now := len(self.audit.ended) + len(self.runs.begun)):
            before = now
            left = max(node.spawner.left_ns for node in self.nodes)
            waits = BACK_OFF_NS if self._late() else 0
            self.timeline.run(self.timeline.now + max(left, waits) + LOOK_NS)

    def _is_done(self) -> bool:
        return self.is_over() and len(self.audit.known) >= self._entries_min

    def _wish_more(self) -> None:
        """Let users submit more jobs if the log would stay shorter than that of a run that counts.

        Those that are not over make two or three entries each.
        """
        waits = sum(len(user.unanswered) for user in self.users)
        waits += len(self.runs.acknowledged) - len(self.audit.ended)
        for number in range(self._entries_min - len(self.audit.known) - 5 * waits // 2):
            if number % MORE_EACH == 0:
                self.chance.choice(self.users).wish_more(self.chance, LOOK_NS)

    def leader(self) -> SchedulerProcess | None:
        """Return a scheduler that leads, if there is one."""
        return next((each for each in self.schedulers if each.leads), None)

    def is_over(self) -> bool:
        """True if every request was answered, and every acknowledged job is over everywhere."""
        return not self.runs.active and self._is_settled()

    def _is_settled(self) -> bool:
        """True if nobody owes anything: all replicas are at one entry, one leads, every request was
        answered, and of each acknowledged job a program runs now, or its end is in the log, or it
        waits as it was told to: for its next attempt, for other jobs, or for its turn in an array.
        """
        if any(user.unanswered for user in self.users):
            return False
        if self._node_changer is not None and not self._node_changer.is_over:
            return False
        if not all(self._waits_as_told(job) for job in self._late()):
            return False
        if len({each.replica.state.index for each in self._members()}) > 1:
            return False
        return self.leader() is not None and not any(node.core.untold for node in self.nodes)

    def _late(self) -> list[int]:
        """Return the acknowledged jobs that are not over, and of which no program runs."""
        begun = {key.job for key in self.runs.active}
        jobs = self.runs.acknowledged.values()
        return [job for job in jobs if job not in begun and job not in self.audit.ended]

    def _waits_as_told(self, job: int) -> bool:
        state = max((each.replica.state for each in self.schedulers), key=lambda each: each.index)
        array = state.book.arrays.of(job)
        if array is not None and array.is_ahead(job):
            return bool(array.image.indexes.most)
        info = state.core.job(job)
        return info is not None and info.hold != 0

    def _members(self) -> list[SchedulerProcess]:
        """Return the schedulers of the newest roster that any has applied."""
        newest = max(self.schedulers, key=lambda each: each.replica.state.index)
        config = newest.replica.state.config
        numbers = {each.number for each in config.schedulers} if config is not None else set()
        return [each for each in self.schedulers if each.number in numbers]

    def _why(self) -> str:
        """Return what is not over."""
        unanswered = [key for user in self.users for key in sorted(user.unanswered)]
        jobs = [job for job in self.runs.acknowledged.values() if job not in self.audit.ended]
        roles = [
            f"{s.name} is {s.replica.role} at {s.replica.state.index}" for s in self.schedulers
        ]
        return f"{unanswered} have no answer, jobs {jobs} are not over; {', '.join(roles)}"

    def figures(self) -> SeedFigures:
        """Return what the run has come to so far."""
        faults = Counter(self.plan.counts)
        faults.update(self.stream.counts)
        faults.update(self.network.counts)
        if self.runs.launches_failed:
            faults["launch_failed"] = self.runs.launches_failed
        return SeedFigures(
            self.seed,
            (*self.audit.violations, *self.runs.violations),
            self.timeline.delivered,
            len(self.audit.known),
            self.timeline.now / SECOND,
            dict(sorted(faults.items())),
            tuple(sorted(self.states)),
            self.shape,
            self.runs.freezes,
            self.audit.evictions,
            self.runs.gangs,
            self.runs.thaws,
            self._changer.changes if self._changer is not None else 0,
            self._upgrader.exchanges if self._upgrader is not None else 0,
            self._upgrader.too_old if self._upgrader is not None else 0,
            self._node_changer.drains if self._node_changer is not None else 0,
            self.audit.nodes.moves,
            self._node_changer.removals if self._node_changer is not None else 0,
            self.around.watch.book.largest,
        )


def _network_faults(chance: random.Random) -> NetworkFaults:
    return NetworkFaults(*(chance.choice((0.0, 0.01, 0.05)) for _ in NetworkFaults._fields))


def shape_of(seed: int) -> Shape:
    """Return the shape of the cluster of a seed; one of a hundred has one scheduler."""
    nodes = 8 + seed % 3
    if seed % ALONE_EVERY == ALONE:
        return Shape(1, 1, nodes, 3, WISHES)
    spares = SPARES if seed % SPARES_EVERY == 2 else 0
    if seed % GROWS_EVERY == 4:
        spares = 4 if seed % (2 * GROWS_EVERY) == 4 else 2
        arrays = seed % ARRAYS_EVERY == 0
        return Shape(1, 3, nodes, 3, WISHES, spares, arrays=arrays, grows=True)
    upgrades = seed % UPGRADES_EVERY == 1
    arrays = seed % ARRAYS_EVERY == 0 and not upgrades
    drains = seed // 2 % DRAINS_EVERY in (1, 3) and not upgrades
    servers = (3, 3, 5)[seed % 3]
    schedulers = (3, 3, 3, 5)[seed % 4]
    return Shape(schedulers, servers, nodes, 3, WISHES, spares, upgrades, arrays, drains)


def run_seed(seed: int, *, story: bool = False) -> tuple[SeedFigures, list[str]]:
    """Run one seed; return its figures and its story."""
    world = World(seed, shape_of(seed), story=story)
    figures = world.run()
    return figures, world.story.lines
