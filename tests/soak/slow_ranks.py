# SPDX-License-Identifier: Apache-2.0
"""Ranks of Open MPI of which one works a known part longer: is it named, and with what part?

    python -m tests.soak.slow_ranks [--runs N] [--ranks N] [--percent P] [--neighbours N]

Each second run has no slow rank, so that a false accusation shows. The ranks spin while they wait,
and may be more than there are CPUs; neighbours are processes of another user that take a CPU each.
Counted are the rank that the report of a run names and those that the agent named meanwhile.
Writes what it saw to docs/measurements/slow-ranks.md, or slow-ranks-neighbours.md with neighbours,
and exits with 1 if a report did not name the rank, or a wrong one, or by a part that is off by more
than 5 points, or if anybody else was named. Of such a run it prints and records what the judge saw:
the times of each rank, and the conditions of a name that did not hold. Needs root and Open MPI.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.probes.collectives.collective_rows import Collectives
from stoker.probes.collectives.rank_judge import WINDOW_NS
from stoker.probes.collectives.straggler import Straggler, straggler
from tests.product_node import LiveNode, live_node, wait_until
from tests.soak import rank_evidence

RECORDS = Path(__file__).parents[2] / "docs" / "measurements"
ITERATIONS, ROUNDS = 2_000_000, 120
POINTS = 0.05
"""The largest error of the part by which a rank is slower."""
LIVE_S = 6.0
"""A slow rank of a longer run is named while it runs."""
MISSES_SHOWN = 8
"""The most runs of which the record has an account; all are printed."""
TOLD = "a rank keeps others waiting"
"""The line of the agent's log file that names a rank."""
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "-n")


@dataclass(frozen=True)
class Run:
    """One run: the rank that was slow (None: none), the one its report named, and the order."""

    planted: int | None
    named: Straggler | None
    first: int
    """The rank that came last most often."""
    live: frozenset[int]
    """The ranks that the agent named while it ran."""
    seconds: float
    saw: tuple[str, ...] = field(default=(), repr=False)
    """The rows that the judge had to go by, of the whole run and of its seconds."""

    @property
    def accused(self) -> bool:
        """True if somebody was named who was not slow."""
        return bool(self.live - {self.planted})

    def right(self, percent: int) -> bool:
        if self.planted is None or self.named is None:
            return self.planted is None and self.named is None and not self.accused
        error = abs(self.named.longer - percent / 100)
        return self.named.rank == self.planted and error <= POINTS and not self.accused

    def missed(self, percent: int) -> bool:
        """True for a run that is worth an account: it is not right, or its slow rank was not named
        while it ran long enough."""
        late = self.planted is not None and self.planted not in self.live
        return not self.right(percent) or (late and self.seconds > LIVE_S)


def built(folder: Path) -> str:
    program = folder / "slow_rank"
    source = Path(__file__).with_name("slow_rank.c")
    subprocess.run(["mpicc", "-O1", "-Wall", "-Werror", "-o", program, source], check=True)
    return str(program)


def run(node: LiveNode, program: str, ranks: int, planted: int | None, percent: int) -> Run:
    words = [str(ITERATIONS), str(ROUNDS), str(-1 if planted is None else planted), str(percent)]
    job = node.submit(*MPIRUN, str(ranks), program, *words, gpu_milli=1000, trace="full")
    view, rows = watched(node, job)
    if view.state != "succeeded" or view.trace is None:
        raise SystemExit(f"job {job}: {view.reason} {view.trace_absent}")
    found = _rows(view.trace["collectives"])
    most = max(found.communicators[0].members, key=lambda member: member.last)
    ran_ns = (view.times.ended_ns or 0) - (view.times.started_ns or 0)
    saw = (*rank_evidence.account(found), *seconds_of(rows))
    return Run(planted, straggler(found), most.rank, live(node, job), ran_ns / 1e9, saw)


def watched(node: LiveNode, job: int) -> tuple[schema.JobView, list[Collectives]]:
    """Return a job when it is over, and the rows of its ranks once a second until then."""

    async def question(client: Client) -> tuple[schema.JobView, list[Collectives]]:
        rows: list[Collectives] = []
        while True:
            view = await client.get(job, trace=True)
            if view.times.ended_ns is not None:
                return await client.get(job, trace=True), rows
            if view.trace is not None and view.trace.get("collectives"):
                rows.append(_rows(view.trace["collectives"]))
            await asyncio.sleep(1)

    return node.ask(question)


def seconds_of(rows: list[Collectives]) -> Iterator[str]:
    """Yield what was to be seen of the ranks in each window of the judge."""
    for number, now in enumerate(rows):
        before = [row for row in rows[:number] if now.at_ns - row.at_ns >= WINDOW_NS]
        if before:
            lines = rank_evidence.account(rank_evidence.since(now, before[-1]))
            yield f"read {number} after the first: {' / '.join(lines)}"


def live(node: LiveNode, job: int) -> frozenset[int]:
    """Return the ranks of a job that the agent's log file names as slow."""
    found = set()
    for line in (node.root / "log" / "agent.log").read_text().splitlines():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if row.get("event") == TOLD and row.get("job") == job and row["trouble"] == "slow":
                found.add(int(row["rank"]))
    return frozenset(found)


@contextlib.contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Have this many processes of another user take a CPU each."""
    argv = ("sh", "-c", "while :; do :; done")
    running = [subprocess.Popen(argv, user=65534, group=65534) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def _rows(found: dict[str, Any]) -> Collectives:
    return msgspec.convert(found, Collectives)


def page(runs: list[Run], told: argparse.Namespace, load: float) -> str:
    planted = [each for each in runs if each.planted is not None]
    calm = [each for each in runs if each.planted is None]
    named = [each for each in planted if each.named and each.named.rank == each.planted]
    parts = sorted(each.named.longer * 100 for each in named if each.named)
    ordered = sum(each.first == each.planted for each in planted)
    span = f"{parts[0]:.1f} to {parts[-1]:.1f} %" if parts else "none"
    options = f"--runs {len(runs)} --ranks {told.ranks} --percent {told.percent}"
    options += f" --neighbours {told.neighbours}" if told.neighbours else ""
    beside = f", beside {told.neighbours} spinning of another user" if told.neighbours else ""
    took = sorted(each.seconds for each in runs)
    caught = sum(each.planted in each.live for each in planted)
    accused = [sum(each.accused for each in some) for some in (planted, calm)]
    wrong = sum(each.named is not None for each in calm)
    return f"""# Slow ranks{" beside a neighbour" if told.neighbours else ""}

`python -m tests.soak.slow_ranks {options}` on {os.cpu_count()} CPUs, load {load:.1f} before it.
{told.ranks} ranks of Open MPI compute and call `MPI_Allreduce`, {ROUNDS} rounds a run; they spin
while they wait{beside}. In half of the runs one rank, each in turn, has {told.percent} % more work.
A run took {took[0]:.1f} to {took[-1]:.1f} s, {took[len(took) // 2]:.1f} in the middle. *Named*
is what the report of a run says; *live* what the agent said meanwhile, which takes more than 3 s.

| | |
|---|---|
| runs with a slow rank, in which it was named | {len(named)} of {len(planted)} |
| the part by which it was said to be slower | {span} |
| runs in which it was also the one that came last most often | {ordered} of {len(planted)} |
| runs with a slow rank, in which it was named live | {caught} of {len(planted)} |
| runs in which another one was named live | {accused[0]} of {len(planted)} |
| runs without a slow rank, in which one was named | {wrong} of {len(calm)} |
| runs without a slow rank, in which one was named live | {accused[1]} of {len(calm)} |
{misses(runs, told.percent)}"""


def misses(runs: list[Run], percent: int) -> str:
    """Return an account of the runs that did not come out as they should; empty without one."""
    found = [(number, each) for number, each in enumerate(runs) if each.missed(percent)]
    if not found:
        return ""
    lines = ["", "## What the judge saw where it named nobody or another", ""]
    for number, each in found[:MISSES_SHOWN]:
        lines += [f"- run {number}: {each}", *(f"  - {line}" for line in each.saw)]
    if len(found) > MISSES_SHOWN:
        lines.append(f"- and {len(found) - MISSES_SHOWN} more runs")
    return "\n".join([*lines, ""])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--percent", type=int, default=20)
    parser.add_argument("--neighbours", type=int, default=0)
    told = parser.parse_args()
    load = os.getloadavg()[0]
    runs: list[Run] = []
    with (
        tempfile.TemporaryDirectory(prefix="stoker-soak-", dir="/tmp") as folder,
        live_node("--root-jobs-as", "root") as node,
        neighbours(told.neighbours),
        contextlib.suppress(KeyboardInterrupt),  # what was seen until then is written
    ):
        program = built(Path(folder))
        wait_until(lambda: bool(node.ask(lambda client: client.devices()).devices), "a device")
        for number in range(told.runs):
            planted = None if number % 2 else number // 2 % told.ranks
            runs.append(run(node, program, told.ranks, planted, told.percent))
            print(number, runs[-1], flush=True)
            for line in runs[-1].saw if runs[-1].missed(told.percent) else ():
                print(f"    {line}", flush=True)
    name = "slow-ranks-neighbours.md" if told.neighbours else "slow-ranks.md"
    (RECORDS / name).write_text(page(runs, told, load))
    return 0 if all(each.right(told.percent) for each in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
