# SPDX-License-Identifier: Apache-2.0
"""Many seeds of the simulated cluster, spread over processes.

Owns the independence of results from the number of processes: a seed alone determines its run.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from stoker.agent.sim.figures import SeedFigures
from stoker.agent.sim.world import World, shape_of

CHUNK = 8
"""Seeds that a process takes at once."""


def figures_of(seed: int) -> SeedFigures:
    """Run one seed; an exception of the shipped code is a violation of this seed.

    The garbage collector looks once, behind the run: a world keeps nearly all that it makes, so
    that looks during the run cost a tenth of it and free nothing.
    """
    gc.disable()
    try:
        return _run(seed)
    finally:
        gc.enable()
        gc.collect(0)


def _run(seed: int) -> SeedFigures:
    world = World(seed, shape_of(seed))
    try:
        return world.run()
    except Exception as error:
        figures = world.figures()
        what = f"the shipped code raised {type(error).__name__}: {error}"
        return figures._replace(violations=(*figures.violations, what))


def campaign(seeds: Sequence[int], processes: int) -> Iterator[SeedFigures]:
    """Yield the figures of each seed, in order."""
    workers = min(processes, (len(seeds) + CHUNK - 1) // CHUNK)
    if workers <= 1:
        yield from map(figures_of, seeds)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from pool.map(figures_of, seeds, chunksize=CHUNK)
