# SPDX-License-Identifier: Apache-2.0
"""Requests to the core and its effects, on clusters small enough to check by hand."""

from __future__ import annotations

from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.sim.cluster import Placed
from stoker.scheduler.sim.openb import TraceTask
from tests.scheduler.sim.small import HALF, ONE, TWO, cluster, machine


def test_tasks_are_placed_until_one_does_not_fit_and_the_next_may() -> None:
    at = cluster([machine("a", 1), machine("b", 1)], [ONE, HALF, TWO])
    assert at.offer(0) == Placed(1, 0, (DeviceShare(0, 1000),))
    assert at.offer(1) == Placed(2, 1, (DeviceShare(0, 500),))
    assert at.offer(0) is None
    assert at.offer(2) is None, "no machine has two"
    assert at.offer(1) == Placed(4, 1, (DeviceShare(0, 500),)), "the third was a job, then dropped"
    assert at.core.check() == ""


def test_cpu_memory_and_model_count() -> None:
    machines = [machine("a", 2, "T4", 8000), machine("b", 2, "G2", 2000)]
    tasks = [
        TraceTask(8000, 1, 1, 100),
        TraceTask(1, 1, 1, 100, ("G2",)),
        TraceTask(1, 1 << 41, 1, 100),
    ]
    at = cluster(machines, tasks)
    for position, there in ((0, 0), (0, None), (1, 1), (2, None)):
        placed = at.offer(position)
        assert (placed.machine if placed else None) == there


def test_who_ends_makes_room_for_the_next() -> None:
    at = cluster([machine("a", 1)], [ONE])
    first = at.offer(0)
    assert first
    assert at.offer(0) is None
    at.end(first)
    assert at.offer(0) is not None
    assert at.core.counters()["ended_succeeded"] == 1


def test_many_ends_at_once_are_all_told() -> None:
    at = cluster([machine("a", 64, cpu_milli=1_000_000)], [HALF])
    placed = [at.offer(0) for _ in range(99)]
    for each in placed:
        assert each
        at.end(each)
    at.offer(0)
    assert at.core.counters()["ended_succeeded"] == 99


def test_a_move_makes_room_and_keeps_both() -> None:
    """Half a GPU taken on each machine: nobody can have a whole one unless one of them moves."""
    there = HALF._replace(models=("G2",))
    at = cluster([machine("a", 1), machine("b", 1, "G2")], [HALF, there, ONE])
    first, second = at.offer(0), at.offer(1)
    assert first and second
    assert (first.machine, second.machine) == (0, 1)
    assert at.offer(2) is None
    moved = at.move(first, 2)
    assert moved
    new, old = moved
    assert (new.machine, new.shares) == (0, (DeviceShare(0, 1000),))
    assert (old.job, old.attempt, old.machine) == (first.job, 2, 1)
    at.end(old)
    assert at.offer(1), "what the moved one held is free again"
    assert at.core.check() == ""


def test_a_move_without_a_place_for_both_changes_nothing() -> None:
    at = cluster([machine("a", 1)], [ONE])
    first = at.offer(0)
    assert first
    digest = at.core.digest()
    assert at.move(first, 0) is None
    assert at.core.digest() == digest
    assert len(at.core.node_tasks(1)) == 1
