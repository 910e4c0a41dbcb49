# SPDX-License-Identifier: Apache-2.0
"""The auditor of leases notices one that is too long, and one that nobody could give."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import World
from stoker.mesh.sim.lease_audit import HeldLease, LeaseAudit
from stoker.mesh.sim.timeline import MS, SECOND
from tests.agent.sim.quiet_world import leader_of, quiet_world


@pytest.fixture
def world() -> World:
    return quiet_world()


def extend(world: World, length_ns: int, term: int, *, lapsed: bool = False) -> LeaseAudit:
    """Give the first node a lease of this length from now on."""
    audit, node = world.around.watch.leases, world.nodes[0]
    lease = HeldLease(node.clock.boot() + length_ns, term)
    audit.extended(node.name, node.clock, lease, lapsed=lapsed)
    return audit


def test_a_lease_of_5_s_after_its_answer_is_right_and_a_longer_one_is_noticed(
    world: World,
) -> None:
    term = leader_of(world).replica.state.term
    world.around.watch.leases.answered([world.nodes[0].name])
    extend(world, 5 * SECOND, term)
    assert world.audit.violations == []
    extend(world, 5 * SECOND + 10 * MS, term)
    assert "ends 5.010 s after its last answer was made" in world.audit.violations[0]


def test_a_new_lease_of_a_candidate_is_noticed(world: World) -> None:
    term = leader_of(world).replica.state.term + 8
    world.around.watch.leases.answered([world.nodes[0].name])
    extend(world, SECOND, term)
    assert world.audit.violations == []
    extend(world, SECOND, term, lapsed=True)
    assert "which nobody has confirmed" in world.audit.violations[0]


def test_a_lease_without_an_answer_is_noticed(world: World) -> None:
    node = world.nodes[0]
    lease = HeldLease(node.clock.boot() + SECOND, leader_of(world).replica.state.term)
    world.around.watch.leases.extended("node-9", node.clock, lease, lapsed=False)
    assert world.audit.violations == ["node-9 has a lease, and no scheduler has answered it"]
