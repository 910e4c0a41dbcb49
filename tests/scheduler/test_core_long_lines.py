# SPDX-License-Identifier: Apache-2.0
"""Lines of thousands of jobs: those of one client do not keep another's from being tried."""

from __future__ import annotations

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import BATCH_REQUESTS_MAX, Core, Limits
from stoker.scheduler.policies import Order
from tests.scheduler.oracle_nouns import SECOND

LIMITS = Limits(
    nodes=2, devices=8, jobs=5000, finished=8, tasks=64, node_tasks=64, keys=4, queues=8
)
FLOODING, OTHER = 1, 2
MEMORY = 1 << 30
SUCCEEDED = rec.STATE_CODES["succeeded"]
OVERTAKING = (Order.BACKFILL, Order.CONSERVATIVE, Order.ANY, Order.SHORTEST, Order.FAIR)
PASSES_MAX = 100
"""More than a test needs (at most 30). The passes of a test are alike in each of its runs, since
the place where a pass goes on follows from the time and the seed."""


class Flooded:
    """One node whose CPUs a job of one client has, and a line of more such jobs of that client."""

    def __init__(self, order: Order, jobs: int) -> None:
        self.core, self.now, self.jobs = Core(LIMITS), SECOND, 0
        self.step(rec.Term(1, 1), rec.NodeUp(1, 1, 1, 4000, MEMORY, 0))
        self.step(rec.QueueSet(1, order=order))
        self.flood(jobs + 1)

    def flood(self, jobs: int) -> None:
        """Add jobs to the line, each of which wants all CPUs."""
        while jobs:
            part = min(jobs, BATCH_REQUESTS_MAX)
            self.submit(FLOODING, part, cpu_milli=4000)
            jobs -= part

    def step(self, *requests: rec.Request) -> set[int]:
        """Decide a moment later; the jobs that were placed."""
        self.now += SECOND // 7
        proposal = self.core.propose(list(requests), self.now, 0, measure=False)
        self.core.apply(proposal.commands, self.now)
        assert self.core.check() == ""
        decided = rec.unpack_commands(proposal.commands)
        return {each.job for each in decided if isinstance(each, rec.Place)}

    def submit(
        self, client: int, jobs: int = 1, *, cpu_milli: int = 0, memory_bytes: int = 0
    ) -> set[int]:
        self.jobs += jobs
        job = rec.Submit(client, queue=1, cpu_milli=cpu_milli, memory_bytes=memory_bytes)
        return self.step(*[job] * jobs)


@pytest.mark.parametrize("order", OVERTAKING)
@pytest.mark.parametrize("jobs", [900, 4000])
def test_who_needs_nothing_that_is_short_passes_a_flood_at_once(order: Order, jobs: int) -> None:
    flooded = Flooded(order, jobs)
    assert flooded.submit(OTHER) == {flooded.jobs}


@pytest.mark.parametrize("order", OVERTAKING)
def test_in_a_line_of_any_length_each_comes_to_be_tried(order: Order) -> None:
    """Memory that becomes free serves one job in the middle of the line alone."""
    flooded = Flooded(order, 1500)
    taken = flooded.submit(OTHER, memory_bytes=MEMORY)
    assert flooded.submit(OTHER, memory_bytes=MEMORY) == set()
    waits = {flooded.jobs}
    flooded.flood(2500)
    (placed,) = taken
    end = rec.TaskOutcome(placed, 1, 1, SUCCEEDED)
    started = flooded.step(end)
    passes = 1
    while not started and passes < PASSES_MAX:
        started = flooded.step()
        passes += 1
    assert started == waits


def test_a_late_user_passes_a_line_of_many_users() -> None:
    """More clients than have tries of their own counted are ahead of it."""
    flooded = Flooded(Order.BACKFILL, 0)
    for client in range(100, 140):
        flooded.submit(client, 40, cpu_milli=4000)
    assert flooded.submit(OTHER) == {flooded.jobs}


def test_nobody_passes_in_a_queue_that_does_not_overtake() -> None:
    flooded = Flooded(Order.FIFO, 900)
    assert flooded.submit(OTHER) == set()
    assert not any(flooded.step() for _ in range(20))


def test_nobody_passes_a_flood_of_its_own_by_coming_late() -> None:
    flooded = Flooded(Order.BACKFILL, 4000)
    assert flooded.submit(FLOODING) == set()
