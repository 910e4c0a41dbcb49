# SPDX-License-Identifier: Apache-2.0
"""Each fault of schedulers happens, costs nothing that was acknowledged, and ends."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import FAULTS_NS
from stoker.mesh.sim.scheduler_faults import SchedulerFaults
from stoker.mesh.sim.timeline import SECOND
from stoker.mesh.wire.peer_messages import SnapshotPart
from tests.agent.sim.quiet_world import SHAPE, quiet_world

MANY = SHAPE._replace(nodes=8, users=3, wishes=40)
KINDS = (
    "several_restart",
    "leader_deposed",
    "leader_stopped",
    "killed_after_vote",
    "stopped_with_leases",
    "minority_in_the_past",
    "dies_in_batch",
    "tail_lost",
    "voter_forgets",
    "memory_lost",
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


def test_a_scheduler_that_was_left_behind_gets_a_snapshot_though_parts_are_lost() -> None:
    world, parts = quiet_world(4, MANY._replace(wishes=60), seed=3), list[int]()

    def lose(source: int, behind: int, _: SnapshotPart) -> None:
        parts.append(behind)
        names = [(each.name, world.schedulers[behind - 1].name) for each in world.schedulers]
        for name in names:
            world.network.cut(*name)
        world.timeline.after(SECOND // 2, lambda _: world.network.mend_all(), None)
        if len(parts) < 3:
            world.around.watch.ambush.lay(SnapshotPart, lose)

    world.around.watch.ambush.lay(SnapshotPart, lose)
    late, *others = world.schedulers
    late.crash()
    world.timeline.run(14 * SECOND)
    for each in others:
        each.crash()
        each.start()
    late.start()
    world.timeline.run(FAULTS_NS)
    world.plan.heal()
    world._finish()
    assert len(parts) == 3
    assert world.figures().violations == ()
