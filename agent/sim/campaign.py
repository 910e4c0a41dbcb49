# SPDX-License-Identifier: Apache-2.0
"""Many seeds of the simulated cluster, spread over processes.

Owns the independence of results from the number of processes: a seed alone determines its run, and
one that kills its process is a violation of this seed and of no other.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from multiprocessing import get_context
from typing import BinaryIO, NoReturn

from stoker.agent.sim.figures import SeedFigures
from stoker.agent.sim.world import World, shape_of

CHUNK = 8
"""Seeds that a process runs before it ends. Their memory is given back with it alone, about 15 MB
each, which costs less than to look for what is left of each run."""


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
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    workers = min(processes, len(chunks))
    if workers <= 1:
        yield from map(figures_of, seeds)
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        yield from chain.from_iterable(pool.map(figures_of_chunk, chunks))


def figures_of_chunk(seeds: Sequence[int]) -> list[SeedFigures]:
    """Run seeds in a process that ends with them; if one kills it, others run in another one."""
    found: list[SeedFigures] = []
    while len(found) < len(seeds):
        rest = seeds[len(found) :]
        run, status = _run_apart(rest)
        found += run
        if len(run) < len(rest):
            found.append(_dead(rest[len(run)], status))
    return found


def _run_apart(seeds: Sequence[int]) -> tuple[list[SeedFigures], int]:
    """Run seeds in a fork of this process, which has one thread; return what came of it, and how
    the fork ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        _tell(seeds, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        found = list(_told(told))
    return found, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _tell(seeds: Sequence[int], writing: int) -> NoReturn:
    """Run seeds, write the figures of each, and end this process without a look back."""
    try:
        gc.disable()
        with os.fdopen(writing, "wb") as to:
            for seed in seeds:
                pickle.dump(_run(seed), to)
                to.flush()
        os._exit(0)
    finally:
        os._exit(1)


def _told(told: BinaryIO) -> Iterator[SeedFigures]:
    while True:
        try:
            yield pickle.load(told)
        except (EOFError, pickle.UnpicklingError):  # its process ended, perhaps within a write
            return


def _dead(seed: int, status: int) -> SeedFigures:
    """Return the figures of a run that killed its process, which are not known but for one."""
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    return SeedFigures(seed, (f"the process ended {how}",), 0, 0, 0.0, {}, (), shape_of(seed), 0)
