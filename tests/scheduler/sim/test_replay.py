# SPDX-License-Identifier: Apache-2.0
"""The allocation curve by hand."""

from __future__ import annotations

import pytest

from stoker.scheduler.sim.replay import capacity_milli, replay
from tests.scheduler.sim.small import HALF, HOST, ONE, TWO, cluster, machine

MACHINES = [machine("a", 1), machine("b", 1)]


def test_nobody_leaves_and_the_dropped_count_as_arrived() -> None:
    """2 GPUs: one whole (50 %), two at once (dropped), a half (25 %), a half (25 %)."""
    tasks = [ONE, TWO, HALF, HOST]
    done = replay(cluster(MACHINES, tasks), tasks, [0, 1, 2, 2], capacity_milli(MACHINES))
    assert (done.arrived, done.dropped) == (4, 1)
    assert (done.arrived_milli, done.allocated_milli, done.allocated_pct) == (4000, 2000, 100.0)
    curve = done.allocation_pct
    assert len(curve) == 201, "0 % to 200 % arrived"
    assert [curve[at] for at in (0, 49, 50, 149, 150, 174, 175, 199)] == [
        0, 0, 50, 50, 50, 50, 75, 75,
    ]  # fmt: skip
    assert curve[-1] == 100


def test_tasks_without_gpus_move_no_mark() -> None:
    tasks = [HOST, ONE]
    done = replay(cluster(MACHINES, tasks), tasks, [0, 0, 1, 0], capacity_milli(MACHINES))
    assert len(done.allocation_pct) == 51
    assert done.dropped == 0


@pytest.mark.parametrize("rescued", [True, False])
def test_who_does_not_fit_may_be_rescued(rescued: bool) -> None:
    tasks = [TWO, ONE]
    at = cluster(MACHINES, tasks)
    took, asked = [], []

    def make_room(position: int, task: object) -> object:
        asked.append(position)
        return at.offer(1) if rescued else None

    done = replay(
        at, tasks, [1, 0], 2000, took=lambda *each: took.append(each), make_room=make_room
    )  # type: ignore[arg-type]
    assert asked == [0]
    assert len(took) == 1, "only those placed at once"
    assert done.dropped == (0 if rescued else 1)


def test_each_percent_is_told_once_in_order() -> None:
    seen: list[int] = []
    tasks = [ONE, TWO]
    replay(cluster(MACHINES, tasks), tasks, [1, 0], 2000, watch=seen.append)
    assert seen == list(range(151))
