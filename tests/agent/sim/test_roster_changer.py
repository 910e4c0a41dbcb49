# SPDX-License-Identifier: Apache-2.0
"""The simulated administrator changes the roster, and always leaves as many as there were."""

from __future__ import annotations

from stoker.agent.sim.world import SPARES_EVERY, World, shape_of


def test_no_roster_has_fewer_schedulers_than_the_genesis() -> None:
    """These are seeds in which a request of an old roster would have let too many go."""
    changes = 0
    for seed in (942350, 942642, 943482, *range(2, 2 + 8 * SPARES_EVERY, SPARES_EVERY)):
        shape = shape_of(seed)
        assert shape.spares
        world = World(seed, shape)
        figures = world.run()
        changes += figures.rosters
        assert world.around.watch.book.smallest == shape.schedulers, seed
    assert changes > 10
