# SPDX-License-Identifier: Apache-2.0
"""Runs seeds of the simulated cluster with each planted fault: every one must be caught.

    python -m tests.agent.sim.mutants.hunt [NAME ...]

Prints how many seeds each took, and the median and the worst of all. Guards that another one covers
(`COVERED` in `table.py`) are hunted only by name.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import NamedTuple

from stoker.agent.sim.campaign import figures_of
from tests.agent.sim.mutants.planting import Mutant, plant
from tests.agent.sim.mutants.table import COVERED, MUTANTS

SEEDS_MAX = 10_000


class Caught(NamedTuple):
    """The number of seeds until something was noticed, and what; empty if nothing was."""

    name: str
    seeds: int
    what: str


def hunted(mutant: Mutant, seeds_max: int = SEEDS_MAX) -> Caught:
    """Plant one fault in this process for good and run seeds until one notices."""
    plant(mutant)
    for seed in range(seeds_max):
        if violations := figures_of(seed).violations:
            return Caught(mutant.name, seed + 1, violations[0])
    return Caught(mutant.name, seeds_max, "")


def hunt(mutants: Sequence[Mutant], seeds_max: int = SEEDS_MAX) -> Iterator[Caught]:
    """Yield what became of each mutant as soon as that is known, each in a process of its own."""
    with ProcessPoolExecutor(None, get_context("spawn"), max_tasks_per_child=1) as pool:
        hunts = [pool.submit(hunted, mutant, seeds_max) for mutant in mutants]
        yield from (done.result() for done in as_completed(hunts))


def main(names: set[str]) -> int:
    """Hunt these mutants, or all; return how many escaped."""
    named = [mutant for mutant in (*MUTANTS, *COVERED) if mutant.name in names]
    wanted = named if names else MUTANTS
    guards = {mutant.name: mutant.guard for mutant in wanted}
    found = []
    for caught in hunt(wanted):
        found.append(caught)
        print(
            f"{caught.name:18} {caught.seeds:6} {caught.what[:90] or 'ESCAPED'}"
            f" ({guards[caught.name]})",
            flush=True,
        )
    seeds = [caught.seeds for caught in found if caught.what]
    if seeds:
        print(f"seeds until caught: median {statistics.median(seeds):g}, worst {max(seeds)}")
    return sum(not caught.what for caught in found)


if __name__ == "__main__":
    raise SystemExit(main(set(sys.argv[1:])))
