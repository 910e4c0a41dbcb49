# SPDX-License-Identifier: Apache-2.0
"""Order, overtaking and preemption: the core against a dumb counterpart, and the
properties that the orders promise."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.policies import Option, Order, Placement
from stoker.scheduler.reasons import Reason as R
from tests.scheduler.oracle_nouns import SECOND, STOPPING
from tests.scheduler.oracle_order import OrderOracle

LIMITS = Limits(
    nodes=8, devices=64, jobs=400, finished=400, tasks=400, node_tasks=64, keys=4, queues=16
)
SUCCEEDED, RUNNING, CANCELLED = (rec.STATE_CODES[s] for s in ("succeeded", "running", "cancelled"))
MODELS = (71, 72)
ORDERS = list(Order)
RESERVING = (Order.BACKFILL, Order.CONSERVATIVE, Order.FAIR)


class Pair:
    """A core and the counterpart in step, in seconds."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.core, self.oracle = Core(LIMITS), OrderOracle(LIMITS)
        self.now = SECOND
        self.seen: Counter[int] = Counter()
        self.hard = False
        """Most may be preempted, and most may have others preempted."""
        self.users = (1,)

    def step(self, requests: list[rec.Request], seed: int = 0) -> list[rec.Command]:
        before = self.core.digest(), self.core._core.memory_digest()
        proposal = self.core.propose(requests, self.now, seed, measure=False)
        assert (self.core.digest(), self.core._core.memory_digest()) == before
        never = {r.request for r in proposal.rejected if r.kind == rec.SUBMIT}
        ours = [
            c._replace(candidates=0) if isinstance(c, rec.Place) else c
            for c in rec.unpack_commands(proposal.commands)
        ]
        theirs, _ = self.oracle.propose(requests, self.now, seed, never)
        decided = [c for c in ours if isinstance(c, rec.Place | rec.Preempt)]
        assert decided == [c for c in theirs if isinstance(c, rec.Place | rec.Preempt)]
        told = self.core.apply(proposal.commands, self.now)
        assert "Ignored" not in {type(effect).__name__ for effect in told}
        self.oracle.apply(rec.unpack_commands(proposal.commands), self.now)
        assert self.core.check() == ""
        self.seen.update(c.reason for c in decided)
        self.check_limits()
        return ours

    def check_limits(self) -> None:
        for queue in self.core.queues():
            info = self.core.queue(queue, self.now)
            assert info is not None
            assert all(quota.used_milli <= quota.limit_milli for quota in info.quotas)

    def nodes(self) -> list[rec.Request]:
        found: list[rec.Request] = []
        for node in range(1, 4):
            found.append(rec.NodeUp(node, 1, 1, 8000, 1 << 30, 4))
            found += [rec.DeviceSet(node, index, model=MODELS[node % 2]) for index in range(4)]
        return found

    def tree(self, orders: list[Order]) -> list[rec.Request]:
        """Queues 1 (2, 3 below it), 4 and the default one."""
        pick, order = self.random.choice, lambda: self.random.choice(orders)
        found: list[rec.Request] = [
            rec.QueueSet(1, 0, pick((1, 2, 5))),
            rec.QueueSet(2, 1, pick((1, 3)), order()),
            rec.QueueSet(3, 1, 1, order()),
            rec.QueueSet(4, 0, pick((1, 4)), order()),
            rec.QueueSet(0, 0, 1, order()),
        ]
        for queue in (1, 2, 4):
            if self.random.random() < 0.6:
                limit = pick((rec.NO_LIMIT, 6000, 8000))
                found.append(rec.QuotaSet(queue, pick((0, *MODELS)), pick((0, 2000, 5000)), limit))
        return found

    def submit(self) -> rec.Submit:
        pick = self.random.choice
        options = pick((0, Option.PREEMPTIBLE, Option.PREEMPTIBLE, Option.PREEMPTOR))
        if self.hard:
            options = Option.PREEMPTIBLE | pick((0, Option.PREEMPTOR, Option.PREEMPTOR))
        gpu = pick((0, 300, 500, 1000, 1000, 2000, 4000))
        return rec.Submit(
            self.users[0] if len(self.users) == 1 else pick(self.users),
            gpu_milli=gpu, cpu_milli=pick((0, 500, 2000)), tasks=pick((1, 1, 1, 2, 3)),
            memory_bytes=pick((0, 1 << 27)), priority=pick((0, 0, 1, 5)),
            estimate_ns=pick((0, 1, 3, 9, 30)) * SECOND, queue=pick((0, 2, 3, 4)),
            options=options | pick((0, Option.PREEMPTOR)), placement=Placement.BINPACK,
            min_run_s=pick((0, 0, 4)), models=pick(((), (), MODELS[:1], MODELS[1:])),
        )  # fmt: skip

    def ends(self) -> list[rec.Request]:
        """Tasks that stop, and some that have run long enough."""
        found: list[rec.Request] = []
        for task in self.oracle.tasks:
            job = self.oracle.jobs[task.job]
            estimate = job.request.estimate_ns or 7 * SECOND
            over = self.now >= job.place_ns + estimate and self.random.random() < 0.8
            if job.state == STOPPING and self.random.random() < 0.6:
                found.append(
                    rec.TaskOutcome(job.id, job.attempt, task.node, CANCELLED, task=task.number)
                )
            elif over and job.state != STOPPING:
                found.append(
                    rec.TaskOutcome(job.id, job.attempt, task.node, SUCCEEDED, task=task.number)
                )
        return found

    def run(self, steps: int, orders: list[Order]) -> None:
        if Order.FAIR in orders:
            self.users = (1, 1, 1, 2, 2, 3)
        self.step([rec.Term(1, 1)])
        self.step(self.nodes() + self.tree(orders))
        for step in range(steps):
            self.now += self.random.choice((0, SECOND, SECOND, 2 * SECOND))
            many = self.random.choice((0, 0, 1, 2, 4))
            changes = [self.cordon()] if not self.hard and self.random.random() < 0.3 else []
            self.step([*self.ends(), *changes, *(self.submit() for _ in range(many))], step)

    def cordon(self) -> rec.DeviceSet:
        """A device goes, or comes back: those that need it can start no more until then."""
        node, index = self.random.randrange(1, 4), self.random.randrange(4)
        free = self.random.random() < 0.5
        return rec.DeviceSet(node, index, available=free, model=MODELS[node % 2])


@pytest.mark.parametrize("seed", range(5))
def test_any_mix_of_queues_and_orders_agrees(seed: int) -> None:
    Pair(Random(seed)).run(50, ORDERS)


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_agrees(order: Order) -> None:
    pair = Pair(Random(int(order)))
    pair.run(50, [order])
    assert (pair.seen[R.BACKFILLED] > 5) == (order in RESERVING)


@pytest.mark.parametrize("order", [Order.FIFO, Order.BACKFILL, Order.SHORTEST, Order.FAIR])
def test_who_is_preempted_agrees(order: Order) -> None:
    seen: Counter[int] = Counter()
    for seed in range(3):
        pair = Pair(Random(seed))
        pair.hard = True
        pair.run(40, [order])
        seen += pair.seen
    assert seen[R.PREEMPTED] > 2 and seen[R.RECLAIMED] > 0
