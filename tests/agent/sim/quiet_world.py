# SPDX-License-Identifier: Apache-2.0
"""A simulated cluster of three schedulers in which nothing goes wrong by itself."""

from __future__ import annotations

from stoker.agent.sim.figures import Shape
from stoker.agent.sim.world import World
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from stoker.mesh.sim.timeline import SECOND

SHAPE = Shape(3, 3, 3, 1, 12)


def quiet_world(seconds: float = 6, shape: Shape = SHAPE, seed: int = 1) -> World:
    """Return a world that has run for so long, and that its auditors found right."""
    world = World(seed, shape, faults=False)
    world.begin()
    world.timeline.run(int(seconds * SECOND))
    assert world.figures().violations == () and world.audit.last > 5
    return world


def leader_of(world: World) -> SchedulerProcess:
    """Return the scheduler that leads."""
    found = world.leader()
    assert found is not None
    return found
