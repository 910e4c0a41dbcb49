# SPDX-License-Identifier: Apache-2.0
"""The auditor of reads notices an old position, a missing job, and excuses one stopped clock."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import World
from stoker.mesh.replica.events import ReadPosition
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from stoker.mesh.sim.timeline import SECOND
from tests.agent.sim.quiet_world import leader_of, quiet_world

NAME = ("ann", 1)


@pytest.fixture
def world() -> World:
    return quiet_world()


def follower_of(world: World) -> SchedulerProcess:
    leader = leader_of(world)
    world.timeline.run(world.timeline.now + 3 * SECOND)
    return next(each for each in world.schedulers if each is not leader)


def show(world: World, scheduler: SchedulerProcess, short: int = 0, job: int | None = None) -> None:
    """Let a scheduler answer a read with its own position, less so many entries."""
    reads, state = world.around.watch.reads, scheduler.replica.state
    reads.begins(NAME, job)
    reads.shows(scheduler, NAME, ReadPosition(state.term, state.index - short))


def test_the_newest_position_is_right_and_an_older_one_is_noticed(world: World) -> None:
    follower, reads = follower_of(world), world.around.watch.reads
    before = reads.answered
    show(world, follower)
    assert world.audit.violations == []
    show(world, follower, 1)
    last = follower.replica.state.index
    assert f"with entry {last - 1} and has entry {last}" in world.audit.violations[0]
    assert reads.answered == before + 2


def test_a_position_that_the_state_has_not_reached_is_noticed(world: World) -> None:
    show(world, follower_of(world), -1)
    assert len(world.audit.violations) == 1


def test_a_read_that_lacks_a_job_is_noticed(world: World) -> None:
    show(world, follower_of(world), job=4711)
    assert "lacks job 4711" in world.audit.violations[0]


def test_only_a_leader_is_excused_for_a_stopped_clock(world: World) -> None:
    follower, leader = follower_of(world), leader_of(world)
    for each in (follower, leader):
        each.clock.stop()
    show(world, leader, 1)
    assert world.audit.violations == []
    show(world, follower, 1)
    assert len(world.audit.violations) == 1
