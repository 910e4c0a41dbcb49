# SPDX-License-Identifier: Apache-2.0
"""Each fault of schedulers happens, costs nothing that was acknowledged, and ends."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import FAULTS_NS
from stoker.mesh.sim.scheduler_faults import SchedulerFaults
from stoker.mesh.sim.timeline import SECOND
from tests.agent.sim.quiet_world import SHAPE, quiet_world

MANY = SHAPE._replace(users=3, wishes=40)
KINDS = (
    "several_restart",
    "leader_deposed",
    "killed_after_vote",
    "dies_in_batch",
    "tail_lost",
    "append_orphaned",
    "term_delayed",
    "fetch_lost",
    "snapshot_parts_lost",
    "snapshot_damaged",
    "snapshots_fail",
    "left_behind",
    "forged_entry",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_costs_nothing_and_ends(kind: str) -> None:
    world = quiet_world(4, MANY)
    faults = SchedulerFaults(world.around, world.schedulers, FAULTS_NS)
    for _ in range(4):
        faults.kinds()[kind]()
        world.timeline.run(world.timeline.now + 3 * SECOND)
    world.plan.heal()
    world._finish()
    assert world.figures().violations == ()


def test_every_kind_is_tried() -> None:
    world = quiet_world()
    kinds = SchedulerFaults(world.around, world.schedulers, FAULTS_NS).kinds()
    assert tuple(kinds) == KINDS
