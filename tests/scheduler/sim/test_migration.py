# SPDX-License-Identifier: Apache-2.0
"""Migrations: who is moved, how often, and that the core has the last word."""

from __future__ import annotations

from stoker.scheduler.sim.cluster import Cluster
from stoker.scheduler.sim.migration import Mover
from stoker.scheduler.sim.openb import Machine, TraceTask
from tests.scheduler.sim.small import HALF, HOST, ONE, cluster, machine

THERE = HALF._replace(models=("G2",))
MACHINES = [machine("a", 1), machine("b", 1, "G2"), machine("c", 1, "P100")]
TASKS = [HALF, THERE, ONE]


def offer(at: Cluster, mover: Mover, tasks: list[TraceTask], position: int) -> bool:
    placed = at.offer(position)
    if placed:
        mover.took(tasks[position], placed)
    return placed is not None


def split(machines: list[Machine], most: int) -> tuple[Cluster, Mover]:
    """Half a GPU taken on the first two machines."""
    at = cluster(machines, TASKS)
    mover = Mover(at, machines, most)
    assert offer(at, mover, TASKS, 0)
    assert offer(at, mover, TASKS, 1)
    return at, mover


def test_a_move_unites_two_halves() -> None:
    at, mover = split(MACHINES[:2], 5)
    assert not offer(at, mover, TASKS, 2)
    placed = mover.make_room(2, ONE)
    assert placed
    assert placed.machine == 0, "the one on b may be nowhere else"
    assert mover.moves_left == 4
    assert sorted(len(at.core.node_tasks(node)) for node in (1, 2)) == [1, 2]


def test_no_more_moves_than_allowed() -> None:
    at, mover = split(MACHINES[:2], 0)
    assert not offer(at, mover, TASKS, 2)
    assert mover.make_room(2, ONE) is None


def test_no_move_where_nothing_helps() -> None:
    at, mover = split(MACHINES[:2], 5)
    assert not offer(at, mover, TASKS, 2)
    assert mover.make_room(2, ONE)
    assert not offer(at, mover, TASKS, 2)
    digest = at.core.digest()
    assert mover.make_room(2, ONE) is None
    assert (mover.moves_left, at.core.digest()) == (4, digest)


def test_cpu_is_made_room_for_as_well() -> None:
    """Tasks without GPUs hold all CPU; one leaves where no GPU is, so another can go there."""
    machines = [machine("a", 1, cpu_milli=4000), machine("b", 0, cpu_milli=8000)]
    tasks = [HOST, ONE]
    at = cluster(machines, tasks)
    mover = Mover(at, machines, 3)
    placed = [each for each in (at.offer(0), at.offer(0), at.offer(0)) if each]
    assert sorted(each.machine for each in placed) == [0, 1, 1]
    gone = next(each for each in placed if each.machine == 1)
    at.end(gone)
    for each in placed:
        if each is not gone:
            mover.took(HOST, each)
    assert at.offer(1) is None
    new = mover.make_room(1, ONE)
    assert new
    assert (new.machine, mover.moves_left) == (0, 2)


def test_a_task_without_gpu_moves_nobody() -> None:
    _, mover = split(MACHINES[:2], 5)
    assert mover.make_room(0, HOST) is None
