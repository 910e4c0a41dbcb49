# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator drains and removes nodes, and all are there at the end."""

from __future__ import annotations

from stoker.agent.sim.world import World, shape_of


def test_jobs_are_moved_nodes_are_removed_and_all_are_back_at_the_end() -> None:
    """Each of these seeds has drains; together they have moves and removals."""
    drains = moves = removals = 0
    for seed in (30, 90, 110, 980454, 980923, 980978):
        shape = shape_of(seed)
        assert shape.drains
        world = World(seed, shape)
        figures = world.run()
        assert figures.violations == ()
        drains, moves = drains + figures.drains, moves + figures.moves
        removals += figures.removals
        for each in world.schedulers:
            book = each.replica.state.book
            assert not book.drained, seed
            assert book.nodes.keys() == {node.name for node in world.nodes}, seed
    assert drains > 10 and moves > 10 and removals > 3
