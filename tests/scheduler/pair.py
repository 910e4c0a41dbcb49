# SPDX-License-Identifier: Apache-2.0
"""A core and an oracle kept in step."""

from __future__ import annotations

import struct
from random import Random

from stoker.scheduler import effects as eff
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.reasons import Reason
from tests.scheduler.oracle import NEVER, Oracle
from tests.scheduler.oracle_nouns import ROOT
from tests.scheduler.oracle_queues import decayed
from tests.scheduler.streams import Stream


def plain(effect: eff.Effect) -> tuple[object, ...]:
    """An effect in the oracle's form."""
    match effect:
        case eff.StateChanged():
            return ("state", *effect)
        case eff.Start():
            e = effect
            return ("start", e.command, e.job, e.attempt, e.task, e.node, e.shares)
        case eff.Stop():
            e = effect
            return ("stop", e.command, e.job, e.attempt, e.task, e.node, e.state, e.reason)
        case _:
            return (type(effect).__name__.lower(), *effect)


def without_candidates(commands: list[rec.Command]) -> list[rec.Command]:
    return [c._replace(candidates=0) if isinstance(c, rec.Place) else c for c in commands]


def same_key(command: rec.Command) -> rec.Command:
    if isinstance(command, rec.Submit) and any(command.key):
        return command._replace(key=command.key.ljust(16, b"\0"))
    return command


SUBMITS = (rec.SUBMIT, rec.SUBMIT_ARRAY)


def told(rejected: tuple[int, ...]) -> tuple[int, ...]:
    """The compared part of a rejection.

    The oracle predicts neither why a job can never run nor the figures of a preference that did
    not fit.
    """
    kind, reason = rejected[1:3]
    if kind in SUBMITS and reason in NEVER:
        return rejected[:2]
    return rejected[:4] if kind == rec.PREFER else tuple(rejected)


def same(core: list[object], oracle: list[object]) -> None:
    """Raises with the first difference, which is all that one wants to read."""
    for position, (left, right) in enumerate(zip(core, oracle, strict=False)):
        assert left == right, f"at {position}: the core {left}, the oracle {right}"
    count = min(len(core), len(oracle))
    assert len(core) == len(oracle), f"only one has {core[count:] or oracle[count:]}"


class Pair:
    """Every difference is an assertion."""

    def __init__(self, limits: Limits) -> None:
        self.core = Core(limits)
        self.oracle = Oracle(limits)
        self.limits = limits
        self.now = 0
        self.log: list[tuple[bytes, int]] = []
        self.reasons: set[int] = set()
        self.commands = 0

    def step(self, requests: list[rec.Request], seed: int) -> None:
        """Propose on both, compare, apply what the core proposed, compare."""
        before = self.core.digest(), self.core._core.memory_digest()
        proposal = self.core.propose(requests, self.now, seed, measure=False)
        assert (self.core.digest(), self.core._core.memory_digest()) == before
        positions = {
            r.request for r in proposal.rejected if r.kind in SUBMITS and r.reason in NEVER
        }
        commands, rejected = self.oracle.propose(requests, self.now, seed, positions)
        same([told(r) for r in proposal.rejected], [told(r) for r in rejected])
        self.reasons |= {r.reason for r in proposal.rejected}
        ours = without_candidates(list(rec.unpack_commands(proposal.commands)))
        same(ours, [same_key(c) for c in commands])
        self.commands += len(requests) - len(ours)
        effects = self.apply(proposal.commands)
        assert not [e for e in effects if isinstance(e, eff.Ignored | eff.Duplicate)]

    def commit(self, commands: list[rec.Command]) -> None:
        """Apply what nobody proposed; the record's term is the current one."""
        term = struct.pack("<Q", self.core.term)
        if isinstance(commands[0], rec.Term):
            self.apply(commands[0].pack())  # what follows would be of an older term
            return
        raw = [c.pack() for c in commands if not isinstance(c, rec.Term)]
        self.apply(b"".join(r[:8] + term + r[16:] for r in raw))

    def apply(self, commands: bytes) -> list[eff.Effect]:
        if not commands:
            return []
        self.log.append((commands, self.now))
        effects = self.core.apply(commands, self.now)
        assert self.core.check() == ""
        records = list(rec.unpack_commands(commands))
        self.commands += len(records)
        same([plain(e) for e in effects], self.oracle.apply(records, self.now))
        self.reasons |= {getattr(e, "reason", Reason.DUPLICATE) for e in effects}
        return effects

    def observe(self, node: int, observation: int, load: int) -> None:
        known = [n for n in self.oracle.nodes if n.id == node]
        assert self.core.observe(node, observation, load) == bool(known)
        for n in known:
            n.observation, n.load = observation, load

    # -- comparing -------------------------------------------------------------------------

    def compare(self) -> None:
        """Everything that can be asked."""
        assert self.core.nodes() == [n.id for n in self.oracle.nodes]
        for node in self.oracle.nodes:
            self.compare_node(node.id)
        for job in range(max(1, self.oracle.next_job - 60), self.oracle.next_job + 1):
            self.compare_job(job)
        by_slot = sorted(self.oracle.queues.values(), key=lambda queue: queue.slot)
        assert self.core.queues() == [queue.id for queue in by_slot if queue.id != ROOT]
        for queue in by_slot[1:]:
            self.compare_queue(queue.id)
        self.compare_counters()
        assert self.core.speeds() == self.oracle.speeds.views()

    def compare_counters(self) -> None:
        counters = self.core.counters()
        assert counters["tasks"] == len(self.oracle.tasks)
        assert counters["finished"] == len(self.oracle.ended)
        assert counters["queues"] == len(self.oracle.queues) - 2
        assert {name: counters[name] for name in self.oracle.counts} == self.oracle.counts
        assert self.core.term == self.oracle.term
        held = [job.not_before for job in self.oracle.live() if job.hold == 1]
        assert self.core.due_ns() == min(held, default=0)

    def compare_node(self, id: int) -> None:
        node, info = self.oracle.node(id), self.core.node(id)
        assert info is not None
        assert (info.up, info.reason, info.domain) == (node.up, node.reason, node.domain)
        assert (info.boot, info.incarnation) == (node.boot, node.incarnation)
        assert max(0, info.cpu_milli - info.cpu_used) == self.oracle.cpu_free(node)
        assert max(0, info.memory_bytes - info.memory_used) == self.oracle.memory_free(node)
        assert (info.reserve_from_ns, info.reserve_until_ns, info.reserve_queue) == node.reserved
        assert [tuple(label) for label in self.core.labels(id)] == [
            (label, *rest) for label, rest in sorted(node.labels.items())
        ]
        assert [
            (d.capacity_milli, d.used_milli, d.available, d.owner, d.reason, d.memory_bytes,
             d.memory_used, d.model, d.link, d.bus, d.numa, d.kind, d.vendor, d.compute, d.arch,
             d.profile, d.driver, d.link_gbps, d.near_cpus)
            for d in self.core.devices(id)
        ] == [
            (d.capacity, self.oracle.used(node, i), d.available, d.owner, d.reason, d.memory,
             self.oracle.device_memory_used(node, i), d.model, d.link, d.bus, d.numa, d.kind,
             d.vendor, *d.traits)
            for i, d in enumerate(node.devices)
        ]  # fmt: skip
        assert [(t.job, t.task, t.shares) for t in self.core.node_tasks(id)] == [
            (t.job, t.number, t.shares) for t in self.oracle.on_node(node)
        ]

    def compare_job(self, id: int) -> None:
        job, info = self.oracle.jobs.get(id), self.core.job(id)
        assert (job is None) == (info is None)
        if job is None or info is None:
            return
        assert rec.STATE_CODES[info.state] == job.state
        assert (info.reason, info.attempt, info.node) == (job.reason, job.attempt, job.node)
        assert (info.exit_code, info.signal) == (job.exit_code, job.signal)
        times = (job.submit_ns, job.place_ns, job.end_ns, job.not_before)
        assert (info.submit_ns, info.place_ns, info.end_ns, info.not_before_ns) == times
        used = (job.attained, job.charged, job.spent)
        assert (info.attained_ns, info.charged_ns, info.spent_ns) == used
        again = (job.retried, job.preemptions, job.hold, job.unmet, len(job.ready))
        assert (info.retried, info.preemptions, info.hold, info.unmet, info.ready) == again
        assert info.request == job.request._replace(key=b"")
        released = len(job.ready) == job.request.tasks
        assert [(t.task, t.node, t.ready, t.released) for t in self.core.job_tasks(id)] == [
            (t.number, t.node, t.ready, released) for t in self.oracle.of_job(job)
        ]

    def compare_queue(self, id: int) -> None:
        oracle, queue, info = self.oracle, self.oracle.queues[id], self.core.queue(id, self.now)
        assert info is not None
        below = [oracle.jobs[t.job].request for t in oracle.tasks if id in oracle.upwards(
            oracle.jobs[t.job].request.queue)]  # fmt: skip
        assert (info.weight, info.order, info.placement, info.depth) == (
            queue.weight, queue.order, queue.placement, len(oracle.upwards(id)) - 1,
        )  # fmt: skip
        assert info.parent == max(0, queue.parent or 0)
        assert (info.used_milli, info.cpu_used, info.memory_used, info.usage_ns) == (
            oracle.holds(id, 0), sum(request.cpu_milli for request in below),
            sum(request.memory_bytes for request in below), decayed(queue, self.now),
        )  # fmt: skip
        assert (info.pending, info.live) == (oracle.queued_below(id), oracle.live_in(id))
        assert [tuple(quota) for quota in info.quotas] == [
            (model, *quota, oracle.holds(id, model))
            for model, quota in sorted(queue.quotas.items())
        ]

    # -- going on from bytes ---------------------------------------------------------------

    def restart(self) -> None:
        """Go on from a snapshot; hints are not part of it and are given again."""
        snapshot = self.core.snapshot()
        restored = Core.restore(snapshot)
        assert restored.snapshot() == snapshot
        assert restored.digest() == self.core.digest()
        assert restored.limits == self.limits
        self.core = restored
        for node in self.oracle.nodes:
            self.core.observe(node.id, node.observation, node.load)

    def replay(self) -> None:
        """A full replay of the log gives the same bytes as snapshots and tails did."""
        other = Core(self.limits)
        for commands, now in self.log:
            other.apply(commands, now)
        assert other.snapshot() == self.core.snapshot()


def run(random: Random, steps: int, limits: Limits, *, decides: bool, keep: bool = True) -> Pair:
    """Run `steps` steps of one stream; `keep` False: not for replay, the log is dropped."""
    pair = Pair(limits)
    stream = Stream(random, pair.oracle, decides)
    for step in range(steps):
        pair.now += random.choice((0, 1, 10**9, 10**9, 7 * 10**9))
        pair.now += random.choices((0, 400 * 10**9, 10**14), (60, 4, 1))[0]
        one_step(pair, stream)
        if step % 4 == 0:
            pair.compare()
        if not keep:
            pair.log.clear()
    return pair


def one_step(pair: Pair, stream: Stream) -> None:
    random = stream.random
    what = random.random()
    if what < 0.06:
        pair.restart()
    elif what < 0.1:
        pair.observe(random.randrange(7), random.randrange(1, 99), random.randrange(3))
    elif stream.decides and what < 0.85:
        requests: list[rec.Request] = [stream.request() for _ in range(random.randrange(5))]
        if random.random() < 0.3:
            requests += stream.prefers()
        pair.step(requests, random.randrange(1 << 64))
    else:
        commands: list[rec.Command] = [stream.request() for _ in range(random.randrange(1, 5))]
        pair.commit([*commands, *stream.places()])
