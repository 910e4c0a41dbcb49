# SPDX-License-Identifier: Apache-2.0
"""Ranks that meet in many ways, of which one has more to do in one of several: who is named?

    python -m tests.soak.rank_ways [--neighbours 1] [--rounds 100] [--mpi FOLDER]     (make soak)

Runs each way as a job of a live node beside neighbours, with a planted rank and without one. Writes
docs/measurements/rank-ways.md, or rank-ways-other-mpi.md with mpirun and mpicc of FOLDER, and exits
with 1 if the planted rank was not named, or another one was, or by a part that is off by more than
5 points where that is known. Needs root and Open MPI.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec

from stoker.probes.collectives.collective_rows import Collectives
from stoker.probes.collectives.starved_rank import starved_rank
from stoker.probes.collectives.straggler import straggler
from tests.product_node import LiveNode, live_node, wait_until
from tests.soak.slow_ranks import MPIRUN, POINTS, neighbours

RECORD = Path(__file__).parents[2] / "docs" / "measurements" / "rank-ways.md"
ITERATIONS = 2_000_000
RANKS, PLANTED = 4, 2


@dataclass(frozen=True)
class Way:
    """A way in which ranks meet, and what the planted one has more to do; `longer` is the part by
    which its own time is longer, None where only the program itself could tell."""

    meeting: str
    extra: str
    longer: float | None
    text: str


WAYS = (
    Way("barrier", "sleep", None, "`MPI_Barrier`; it sleeps 5 ms"),
    Way("barrier", "child", None, "`MPI_Barrier`; it waits 5 ms for a child"),
    Way("allreduce", "half", 0.5, "`MPI_Allreduce`; half as much work"),
    Way("bcast", "work", 1.0, "`MPI_Bcast` of 512 KiB from another root; as much work again"),
    Way("later", "half", 0.5, "`MPI_Iallreduce` and `MPI_Wait`; half as much work"),
    Way("halo", "half", 0.5, "`MPI_Isend`, `Irecv`, `Waitall` with two neighbours"),
    Way("exchange", "half", 0.5, "`MPI_Sendrecv` of 512 KiB"),
    Way("chain", "work", 1.0, "`MPI_Recv`, work, `MPI_Send`, one rank after the other"),
    Way("fence", "half", 0.5, "`MPI_Win_fence`"),
    Way("neighbours", "half", 0.5, "`MPI_Neighbor_allgather` on a ring"),
    Way("strange", "half", 0.5, "`MPI_Allreduce` on what `MPI_Comm_create` made"),
    Way("allreduce", "starve", 0.0, "`MPI_Allreduce`; it may use one CPU, at nice 15"),
    Way("asking", "work", None, "`MPI_Ibarrier` and `MPI_Test` until it is done"),
)
UNTOLD = ("asking",)
"""Meetings whose waits are not told, so that nothing is promised of them."""


@dataclass(frozen=True)
class Run:
    """One job: the ranks that its report named."""

    way: Way
    planted: bool
    slow: int | None
    longer: float
    starved: int | None

    @property
    def right(self) -> bool:
        if self.way.meeting in UNTOLD:
            return self.slow in (None, PLANTED) or not self.planted
        if not self.planted:
            return self.slow is None and self.starved is None
        if self.way.extra == "starve":
            return self.slow is None and self.starved in (None, PLANTED)
        error = abs(self.longer - self.way.longer) if self.way.longer is not None else 0.0
        return self.slow == PLANTED and error <= POINTS

    @property
    def said(self) -> str:
        parts = [f"rank {self.slow} +{self.longer * 100:.1f} %"] if self.slow is not None else []
        parts += [f"rank {self.starved} has no CPU"] if self.starved is not None else []
        return ", ".join(parts) or "nobody"


def run(node: LiveNode, program: str, way: Way, told: argparse.Namespace, *, planted: bool) -> Run:
    rank = PLANTED if planted else -1
    argv = (way.meeting, way.extra, str(ITERATIONS), str(told.rounds), str(rank))
    mpirun = (told.mpi + MPIRUN[0], *MPIRUN[1:], str(RANKS))
    job = node.submit(*mpirun, program, *argv, gpu_milli=1000, trace="full")
    view = node.wait(job, trace=True)
    if view.state != "succeeded" or view.trace is None:
        raise SystemExit(f"job {job}: {view.reason} {view.trace_absent}")
    found = msgspec.convert(view.trace["collectives"], Collectives)
    slow, starved = straggler(found), starved_rank(found)
    return Run(
        way, planted, slow.rank if slow else None, slow.longer if slow else 0.0,
        starved.rank if starved else None,
    )  # fmt: skip


def built(folder: Path, mpi: str) -> str:
    program = folder / "rank_ways"
    source = Path(__file__).with_suffix(".c")
    subprocess.run([f"{mpi}mpicc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    return str(program)


def version(mpi: str) -> str:
    done = subprocess.run([f"{mpi}mpirun", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0].replace("mpirun (Open MPI)", "Open MPI")


def page(runs: list[tuple[Run, ...]], told: argparse.Namespace, loads: tuple[float, float]) -> str:
    options = f"--rounds {told.rounds} --neighbours {told.neighbours}"
    options += " --mpi FOLDER" if told.mpi else ""
    beside = f" beside {told.neighbours} spinning of another user" if told.neighbours else ""
    lines = [
        "# Ranks that meet in many ways",
        "",
        f"`python -m tests.soak.rank_ways {options}` on {os.cpu_count()} CPUs{beside},"
        f" load {loads[0]:.1f} before and {loads[1]:.1f} after it.",
        f"{RANKS} ranks of {version(told.mpi)} compute and meet, {told.rounds} rounds a job."
        f" Rank {PLANTED} has more to do, or nobody has.",
        "",
        "| how they meet; what it has more to do | planted | named | nobody has: named | right |",
        "|---|---|---|---|---|",
    ]
    for slow, calm in runs:
        longer = slow.way.longer
        part = "" if longer is None else f"+{longer * 100:.0f} %"
        right = "yes" if slow.right and calm.right else "**no**"
        right = "not promised" if slow.way.meeting in UNTOLD else right
        lines.append(f"| {slow.way.text} | {part} | {slow.said} | {calm.said} | {right} |")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--neighbours", type=int, default=1)
    parser.add_argument("--mpi", default="")
    told = parser.parse_args()
    record = RECORD.with_stem("rank-ways-other-mpi") if told.mpi else RECORD
    told.mpi = f"{told.mpi}/" if told.mpi else ""
    load = os.getloadavg()[0]
    runs: list[tuple[Run, ...]] = []
    with (
        tempfile.TemporaryDirectory(prefix="stoker-soak-", dir="/tmp") as folder,
        live_node("--root-jobs-as", "root") as node,
        neighbours(told.neighbours),
    ):
        program = built(Path(folder), told.mpi)
        wait_until(lambda: bool(node.ask(lambda client: client.devices()).devices), "a device")
        for way in WAYS:
            both = (True, False)
            runs.append(tuple(run(node, program, way, told, planted=each) for each in both))
            print(way.text, *(each.said for each in runs[-1]), sep=": ", flush=True)
    record.write_text(page(runs, told, (load, os.getloadavg()[0])))
    return 0 if all(each.right for pair in runs for each in pair) else 1


if __name__ == "__main__":
    sys.exit(main())
