# SPDX-License-Identifier: Apache-2.0
"""Full traces of short launches, each the first job after an `up`, beside two compile loops.

    python -m tests.soak.short_launches [--rounds N] [--loops N]        (make soak)

A program makes a known number of launches of some 300 ns, with a wait after each 256, on a driver
that compiles them anew each time. Every launch must be in the count, and each one without a time in
a named counter. Writes what it saw to docs/measurements/launch-counts.md, and exits with 1 if
anything was missing. Needs root and PoCL; removes the nodes, processes and files it makes.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.product_node import live_node

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "probes" / "opencl_program.c"
RECORD = ROOT / "docs" / "measurements" / "launch-counts.md"
LAUNCHES = 20_011
UNTIMED = ("untimed", "ring_full", "pending_full", "failed", "unstamped", "unfinished")
"""Counters of launches that have no time of their own, each launch in one of them."""


@dataclass
class Seen:
    """Results of the rounds so far."""

    rounds: int = 0
    exact: int = 0
    """All were counted and all were timed."""
    named: int = 0
    """All were counted, and those without a time were in a named counter."""
    losses: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    load: list[float] = field(default_factory=list)


def take(seen: Seen, trace: dict[str, Any] | None) -> None:
    """Hold one trace against what is known of its program."""
    seen.rounds += 1
    seen.load.append(os.getloadavg()[0])
    if trace is None:
        seen.wrong.append("no trace")
        return
    counted = sum(row["count"] for row in trace["kernels"])
    timed = trace["records"]["folded"] - sum(row["count"] for row in trace["events"])
    lost = {name: count for name, count in trace["loss"].items() if count}
    told = sum(lost.get(name, 0) for name in UNTIMED)
    seen.losses.update(lost)
    if counted != LAUNCHES or timed + told != LAUNCHES:
        seen.wrong.append(f"{counted} counted, {timed} timed, {lost}, {trace['coverage']}")
    elif timed == LAUNCHES:
        seen.exact += 1
    else:
        seen.named += 1


@contextmanager
def compiling(loops: int) -> Iterator[None]:
    """Keep `loops` endless loops of a compiler, each in a process group of its own."""
    line = f"while :; do cc -O2 -c -o /dev/null {PROGRAM}; done"
    made = [subprocess.Popen(["sh", "-c", line], start_new_session=True) for _ in range(loops)]
    try:
        yield
    finally:
        for process in made:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def rounds(count: int, program: str) -> Iterator[Seen]:
    """Each with a node of its own, which is gone when the next begins."""
    seen = Seen()
    while seen.rounds < count:
        with live_node("--root-jobs-as", "root") as node:
            job = node.submit(
                program, "rounds", str(LAUNCHES), gpu_milli=1000, trace="full",
                env={"POCL_KERNEL_CACHE": "0"},
            )  # fmt: skip
            take(seen, node.wait(job, trace=True).trace)
        yield seen


def record(seen: Seen, loops: int, seconds: float) -> str:
    """The page of the measurement."""
    lost = ", ".join(f"`{name}` {count}" for name, count in sorted(seen.losses.items()))
    load = sorted(seen.load)
    return f"""# Counts of short launches

`make soak` (or `python -m tests.soak.short_launches`) runs a full trace of {LAUNCHES:,} launches of
some 300 ns, with a wait after each 256, as the first job after an `up`, beside {loops} compile
loops, on PoCL without its cache of kernels.

Measured on {time.strftime("%Y-%m-%d")} ({os.cpu_count()} cores).

| | |
|---|---|
| rounds | {seen.rounds} |
| every launch counted and timed | {seen.exact} |
| every launch counted, each one without a time in a named counter | {seen.named} |
| anything missing | {len(seen.wrong)} |
| losses that were counted, of all rounds | {lost or "none"} |
| load average: least, middle, most | {load[0]:.1f}, {load[len(load) // 2]:.1f}, {load[-1]:.1f} |
| time | {seconds / 60:.0f} min |
"""


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description="Full traces of short launches under load.")
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--loops", type=int, default=2)
    asked = options.parse_args()
    began = time.monotonic()
    seen = Seen()
    with tempfile.TemporaryDirectory(prefix="stoker-soak-", dir="/tmp") as folder:
        program = str(Path(folder, "program"))
        subprocess.run(["cc", "-O1", "-pthread", "-o", program, PROGRAM, "-lOpenCL"], check=True)
        with compiling(asked.loops):
            for seen in rounds(asked.rounds, program):
                print(f"{seen.rounds}: {seen.exact} exact, {seen.named} named", flush=True)
    for wrong in seen.wrong:
        print(f"missing: {wrong}", file=sys.stderr)
    RECORD.write_text(record(seen, asked.loops, time.monotonic() - began))
    return 1 if seen.wrong or not seen.rounds else 0


if __name__ == "__main__":
    sys.exit(main())
