# SPDX-License-Identifier: Apache-2.0
"""The rule of liveness: after the time for it nobody owes anything, and only programs may go on."""

from __future__ import annotations

import pytest

from stoker.agent.sim import world as worlds
from stoker.agent.sim.spawner_model import SpawnerModel
from stoker.agent.sim.users import SimUser, Wish
from stoker.agent.sim.world import World
from stoker.mesh.sim.timeline import SECOND
from stoker.scheduler.nouns import JobSpec
from tests.agent.sim.quiet_world import SHAPE, quiet_world

RUN_S = 6


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which liveness has 2 s, and a program that runs longer has just begun, which no
    user cancels."""
    monkeypatch.setattr(worlds, "LIVENESS_NS", 2 * SECOND)
    monkeypatch.setattr(SimUser, "_cancel", lambda self, job: None)
    world = quiet_world(12, SHAPE._replace(wishes=3), seed=2)
    spec = JobSpec(("job", "long", str(RUN_S * 1000), "succeeded"), gpu_milli=1000, trace="off")
    world.users[0]._submit(Wish("long", spec))
    for _ in range(40):
        world.timeline.run(world.timeline.now + SECOND // 4)
        if max(node.spawner.left_ns for node in world.nodes) > (RUN_S - 1) * SECOND:
            return world
    pytest.fail("the long program has not begun in 10 simulated seconds")


def test_a_program_takes_what_it_has_left(world: World) -> None:
    world._finish()
    assert world.runs.violations == []
    assert world.is_over()


def test_a_program_gets_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpawnerModel, "left_ns", SECOND)
    world._finish()
    assert "2 s after all faults" in world.runs.violations[0]


def test_a_scheduler_that_is_behind_is_no_programs_fault(world: World) -> None:
    world.schedulers[2].crash()
    spec = JobSpec(("job", "next", "100", "succeeded"), trace="off")
    world.users[0]._submit(Wish("next", spec))
    world._finish()
    assert "2 s after all faults" in world.runs.violations[0]


def test_an_end_that_no_scheduler_knows_is_no_programs_fault(world: World) -> None:
    node = next(each for each in world.nodes if each.spawner.running)
    for scheduler in world.schedulers:
        world.network.cut(node.name, scheduler.name)
    world._finish()
    assert "2 s after all faults" in world.runs.violations[0]
