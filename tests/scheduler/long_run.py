# SPDX-License-Identifier: Apache-2.0
"""A long seeded run of the core against the oracle, by hand: how many commands, how many differed.

    python -m tests.scheduler.long_run --commands 1000000 [--seed 1000] [--processes 2]

Every stream is 2,000 steps from a new state; one in four decides as well. A difference names its
seed, and `--seed` starts there.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from random import Random

from tests.scheduler import streams
from tests.scheduler.pair import run

STEPS = 2000


def one(seed: int) -> tuple[int, int, str]:
    """Commands tried with this seed, and the difference if there is one."""
    try:
        pair = run(Random(seed), STEPS, streams.SMALL, decides=seed % 4 == 0, keep=False)
    except AssertionError as difference:
        return seed, 0, str(difference) or "a difference"
    return seed, pair.commands, ""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--commands", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1000)
    arguments.add_argument("--processes", type=int, default=2)
    options = arguments.parse_args()
    began, tried, different, seed = time.monotonic(), 0, 0, options.seed
    with ProcessPoolExecutor(options.processes) as pool:
        while tried < options.commands and different < 10:
            for at, count, difference in pool.map(one, range(seed, seed + 20)):
                tried += count
                if difference:
                    different += 1
                    print(f"seed {at}: {difference}", flush=True)
            seed += 20
    print(
        f"{tried} commands in {seed - options.seed} streams, {different} streams with a"
        f" difference, {time.monotonic() - began:.0f} s"
    )
    return different > 0


if __name__ == "__main__":
    raise SystemExit(main())
