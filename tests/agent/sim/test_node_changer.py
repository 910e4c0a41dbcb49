# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator drains, evicts and removes nodes; all are there at the end."""

from __future__ import annotations

from stoker.agent.sim.world import World, shape_of


def test_jobs_are_moved_nodes_are_removed_and_all_are_back_at_the_end() -> None:
    """Each of these seeds has drains; together they have moves, evictions and removals."""
    drains = moves = evictions = removals = 0
    for seed in (30, 3000014, 3000031, 3000050, 3000075, 3000091):
        shape = shape_of(seed)
        assert shape.drains
        world = World(seed, shape)
        figures = world.run()
        assert figures.violations == ()
        drains, moves = drains + figures.drains, moves + figures.moves
        changer = world._node_changer
        assert changer is not None
        evictions, removals = evictions + changer.evictions, removals + figures.removals
        for each in world.schedulers:
            book = each.replica.state.book
            assert not book.drained, seed
            assert book.nodes.keys() == {node.name for node in world.nodes}, seed
    assert drains > 10 and moves > 10 and evictions > 3 and removals > 3
