# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator drains nodes, moves jobs, and leaves no node drained."""

from __future__ import annotations

from stoker.agent.sim.world import World, shape_of


def test_jobs_are_moved_and_no_node_stays_drained() -> None:
    """Each of these seeds has drains; together they have moves."""
    drains = moves = 0
    for seed in range(6, 126):
        shape = shape_of(seed)
        if not shape.drains or seed % 10:
            continue
        world = World(seed, shape)
        figures = world.run()
        assert figures.violations == ()
        drains, moves = drains + figures.drains, moves + figures.moves
        assert not any(each.replica.state.book.drained for each in world.schedulers), seed
    assert drains > 10 and moves > 10
