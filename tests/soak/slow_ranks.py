# SPDX-License-Identifier: Apache-2.0
"""Ranks of Open MPI of which one works a known part longer: is it named, and with what part?

    python -m tests.soak.slow_ranks [--runs N] [--ranks N] [--percent P]        (make soak)

Each second run has no slow rank, so that a false accusation shows. The ranks spin while they wait,
and may be more than there are CPUs. Writes what it saw to docs/measurements/slow-ranks.md, and
exits with 1 if a rank was not named, or a wrong one, or by a part that is off by more than 5
points. Needs root and Open MPI.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stoker.probes.collectives.collective_rows import Collectives
from stoker.probes.collectives.straggler import Straggler, straggler
from tests.product_node import LiveNode, live_node, wait_until

RECORD = Path(__file__).parents[2] / "docs" / "measurements" / "slow-ranks.md"
ITERATIONS, ROUNDS = 2_000_000, 100
POINTS = 0.05
"""The largest error of the part by which a rank is slower."""
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n")


@dataclass(frozen=True)
class Run:
    """One run: the rank that was slow (None: none), the one that was named, and the order."""

    planted: int | None
    named: Straggler | None
    first: int
    """The rank that came last most often."""

    def right(self, percent: int) -> bool:
        if self.planted is None or self.named is None:
            return self.planted is None and self.named is None
        error = abs(self.named.longer - percent / 100)
        return self.named.rank == self.planted and error <= POINTS


def built(folder: Path) -> str:
    program = folder / "slow_rank"
    source = Path(__file__).with_name("slow_rank.c")
    subprocess.run(["mpicc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    return str(program)


def run(node: LiveNode, program: str, ranks: int, planted: int | None, percent: int) -> Run:
    words = [str(ITERATIONS), str(ROUNDS), str(-1 if planted is None else planted), str(percent)]
    job = node.submit(*MPIRUN, str(ranks), program, *words, gpu_milli=1000, trace="full")
    view = node.wait(job, trace=True)
    if view.state != "succeeded" or view.trace is None:
        raise SystemExit(f"job {job}: {view.reason} {view.trace_absent}")
    found = _rows(view.trace["collectives"])
    most = max(found.communicators[0].members, key=lambda member: member.last)
    return Run(planted, straggler(found), most.rank)


def _rows(found: dict[str, Any]) -> Collectives:
    return msgspec.convert(found, Collectives)


def page(runs: list[Run], ranks: int, percent: int, load: float) -> str:
    planted = [each for each in runs if each.planted is not None]
    calm = [each for each in runs if each.planted is None]
    named = [each for each in planted if each.named and each.named.rank == each.planted]
    parts = sorted(each.named.longer * 100 for each in named if each.named)
    ordered = sum(each.first == each.planted for each in planted)
    accused = sum(each.named is not None for each in calm)
    span = f"{parts[0]:.1f} to {parts[-1]:.1f} %" if parts else "none"
    command = f"tests.soak.slow_ranks --runs {len(runs)} --ranks {ranks} --percent {percent}"
    return f"""# Slow ranks

`python -m {command}` on {os.cpu_count()} CPUs, load {load:.1f} before it began.
{ranks} ranks of Open MPI compute and call `MPI_Allreduce`, {ROUNDS} rounds a run; they spin while
they wait. In half of the runs one rank, each in turn, has {percent} % more work. The report of
each run names a rank or nobody.

| | |
|---|---|
| runs with a slow rank, in which it was named | {len(named)} of {len(planted)} |
| the part by which it was said to be slower | {span} |
| runs in which it was also the one that came last most often | {ordered} of {len(planted)} |
| runs without a slow rank, in which one was named | {accused} of {len(calm)} |
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--percent", type=int, default=20)
    told = parser.parse_args()
    load = os.getloadavg()[0]
    runs: list[Run] = []
    with (
        tempfile.TemporaryDirectory(prefix="stoker-soak-", dir="/tmp") as folder,
        live_node("--root-jobs-as", "root") as node,
    ):
        program = built(Path(folder))
        wait_until(lambda: bool(node.ask(lambda client: client.devices()).devices), "a device")
        for number in range(told.runs):
            planted = None if number % 2 else number // 2 % told.ranks
            runs.append(run(node, program, told.ranks, planted, told.percent))
            print(number, runs[-1].planted, runs[-1].named, flush=True)
    RECORD.write_text(page(runs, told.ranks, told.percent, load))
    return 0 if all(each.right(told.percent) for each in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
