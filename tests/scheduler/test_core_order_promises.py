# SPDX-License-Identifier: Apache-2.0
"""Promises of the orders over whole runs: nothing delays a reservation, weights give device time,
nobody starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.policies import Option, Order, Placement
from tests.scheduler.oracle_nouns import PENDING, SECOND
from tests.scheduler.oracle_order import OrderOracle, Start

LIMITS = Limits(
    nodes=4, devices=32, jobs=500, finished=100, tasks=400, node_tasks=64, keys=4, queues=8
)
SUCCEEDED, CANCELLED = rec.STATE_CODES["succeeded"], rec.STATE_CODES["cancelled"]
End = tuple[int, int, int]
"""(time, job, outcome) of an end."""
Told = Callable[[bytes, int], None]


class Run:
    """A cluster of two nodes with four devices each, whose jobs end exactly as estimated."""

    def __init__(self, *queues: rec.Request, told: Told | None = None) -> None:
        self.core, self.now, self.told = Core(LIMITS), SECOND, told
        self.ends: list[End] = []
        self.attempts: dict[int, int] = {}
        self.asked: dict[int, rec.Submit] = {}
        self.started: dict[int, int] = {}
        self.device_ns: Counter[int] = Counter()
        self.step(rec.Term(1, 1))
        nodes = [rec.NodeUp(node, 1, 1, 64_000, 1 << 30, 4) for node in (1, 2)]
        devices = [rec.DeviceSet(node, index) for node in (1, 2) for index in range(4)]
        self.step(*nodes, *devices, *queues)

    def step(self, *requests: rec.Request) -> None:
        proposal = self.core.propose(requests, self.now, 0, measure=False)
        if self.told:
            self.told(proposal.commands, self.now)
        self.core.apply(proposal.commands, self.now)
        for command in rec.unpack_commands(proposal.commands):
            match command:
                case rec.Submit():
                    self.asked[len(self.asked) + 1] = command
                case rec.Place(task=0):
                    self.started.setdefault(command.job, self.now)
                    self.attempts[command.job] = command.attempt
                    end = self.now + self.asked[command.job].estimate_ns
                    self.ends.append((end, command.job, SUCCEEDED))
                case rec.Preempt():
                    self.ends = [e for e in self.ends if e[1] != command.job]
                    self.ends.append((self.now + SECOND, command.job, CANCELLED))

    def ended(self, job: int, state: int) -> list[rec.Request]:
        request = self.asked[job]
        if state == SUCCEEDED:
            self.device_ns[request.queue] += (
                request.gpu_milli * request.tasks * request.estimate_ns // 1000
            )
        return [
            rec.TaskOutcome(job, self.attempts[job], t.node, state, task=t.task)
            for t in self.core.job_tasks(job)
        ]

    def until(self, now: int) -> None:
        """Jobs end when they should; what was told to stop does so in a second."""
        while self.ends and min(self.ends)[0] <= now:
            self.now = min(self.ends)[0]
            over = [end for end in self.ends if end[0] == self.now]
            self.ends = [end for end in self.ends if end[0] != self.now]
            self.step(*(o for _, job, state in over for o in self.ended(job, state)))
        self.now = now


def job_of(random: Random, queue: int = 0, options: int = 0, priority: int = 0) -> rec.Submit:
    gpu, tasks = random.choice(((500, 1), (1000, 1), (1000, 1), (2000, 1), (4000, 1), (4000, 2)))
    estimate = random.choice((1, 2, 3, 5, 8, 20)) * SECOND
    return rec.Submit(
        1, gpu_milli=gpu, tasks=tasks, estimate_ns=estimate, queue=queue, options=options,
        priority=priority, placement=Placement.BINPACK,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("order", "kept"), [(Order.BACKFILL, 1), (Order.CONSERVATIVE, 32), (Order.FAIR, 1)]
)
@pytest.mark.parametrize("seed", range(3))
def test_no_reservation_is_delayed(order: Order, kept: int, seed: int) -> None:
    """With exact estimates the planned start of a blocked job only ever comes closer."""
    random, oracle = Random(seed), OrderOracle(LIMITS)
    planned: dict[int, int] = {}
    overtaken = 0

    def told(commands: bytes, now: int) -> None:
        nonlocal overtaken
        units = list(rec.unpack_commands(commands))
        oracle.apply(units, now)
        waiting = [job for job in oracle.jobs.values() if job.state == PENDING]
        blocked = sorted(waiting, key=oracle.rank)[:kept]
        oracle.now, oracle.seed = now, 0
        starts: list[Start] = oracle.plan(blocked, [])
        for job, (at, known) in zip(blocked, starts, strict=True):
            assert known
            assert at <= planned.get(job.id, at)
            planned[job.id] = at
        for place in (c for c in units if isinstance(c, rec.Place)):
            assert now <= planned.get(place.job, now)
            overtaken += any(job.id < place.job for job in blocked)

    run = Run(rec.QueueSet(0, 0, 1, order), told=told)
    for _ in range(60):
        run.until(run.now + random.choice((0, 1, 2)) * SECOND)
        run.step(job_of(random))
    assert overtaken > 5


def test_weights_give_device_time() -> None:
    """1:2:4 with everybody always waiting."""
    random = Random(3)
    queues = [rec.QueueSet(q, 0, w) for q, w in ((1, 1), (2, 2), (3, 4))]
    run = Run(*queues)
    for _ in range(4000):
        waits = {q: run.core.queue(q, run.now) for q in (1, 2, 3)}
        short = [q for q, info in waits.items() if info and info.pending < 3]
        if short:
            estimate = random.choice((30, 60, 120)) * SECOND
            run.step(*[rec.Submit(1, gpu_milli=1000, estimate_ns=estimate, queue=q) for q in short])
        run.until(run.now + 15 * SECOND)
    total = sum(run.device_ns.values())
    for queue, weight in ((1, 1), (2, 2), (3, 4)):
        assert abs(run.device_ns[queue] / total - weight / 7) < 0.03


@pytest.mark.parametrize("order", [Order.FIFO, Order.BACKFILL, Order.CONSERVATIVE, Order.FAIR])
def test_nobody_starves_and_preemptions_are_bounded(order: Order) -> None:
    random = Random(int(order))
    run = Run(rec.QueueSet(0, 0, 1, order))
    options = Option.PREEMPTIBLE | Option.PREEMPTOR
    for _ in range(150):
        run.until(run.now + 4 * SECOND)
        run.step(job_of(random, options=options, priority=random.choice((0, 0, 1, 2))))
    run.until(run.now + 5000 * SECOND)
    assert set(run.started) == set(run.asked)
    jobs = [run.core.job(job) for job in run.asked]
    known = [job for job in jobs if job]
    assert max(job.preemptions for job in known) <= 8
    assert sum(job.preemptions for job in known) > 0


@pytest.mark.parametrize("order", [Order.BACKFILL, Order.CONSERVATIVE, Order.FAIR])
def test_without_estimates_who_overtakes_leaves_the_head_its_room(order: Order) -> None:
    """Eight devices: jobs 1 and 2 hold two each, job 3 needs six; a stream of single ones follows.
    Two of them may pass, for ever; job 3 starts when 1 and 2 are over, whoever else still runs."""
    run = Run(rec.QueueSet(0, 0, 1, order))
    one = rec.Submit(1, gpu_milli=1000, placement=Placement.BINPACK)
    pair, six = one._replace(gpu_milli=2000), one._replace(tasks=6)
    run.step(pair, pair)
    run.step(six)
    for _ in range(20):
        run.now += SECOND
        run.step(one)
    running = {t.job for n in (1, 2) for t in run.core.node_tasks(n)}
    assert running == {1, 2, 4, 5}
    run.step(*run.ended(1, SUCCEEDED))
    run.step(*[one] * 5)
    assert {t.job for n in (1, 2) for t in run.core.node_tasks(n)} == {2, 4, 5}
    run.step(*run.ended(2, SUCCEEDED))
    job = run.core.job(3)
    assert job is not None and job.state == "starting"


@pytest.mark.parametrize("order", [Order.BACKFILL, Order.CONSERVATIVE, Order.FAIR])
def test_what_can_not_start_as_things_are_holds_up_nobody(order: Order) -> None:
    """Its device is cordoned; when it is there again those that stand before it go on."""
    run = Run(rec.QueueSet(0, 0, 1, order))
    one = rec.Submit(1, gpu_milli=1000, placement=Placement.BINPACK)
    run.step(rec.DeviceSet(1, 0, available=False))
    run.step(one._replace(tasks=8))
    run.step(*[one] * 7)
    assert sum(len(run.core.node_tasks(n)) for n in (1, 2)) == 7
    run.step(rec.DeviceSet(1, 0), one)
    assert sum(len(run.core.node_tasks(n)) for n in (1, 2)) == 7  # the eighth would overtake
    run.step(*(outcome for job in range(2, 9) for outcome in run.ended(job, SUCCEEDED)))
    job = run.core.job(1)
    assert job is not None and job.state == "starting"
