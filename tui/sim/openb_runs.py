# SPDX-License-Identifier: Apache-2.0
"""Runs of `sim openb` and `sim power`, spread over processes, and the facts that both report.

Results do not depend on the number of processes.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from stoker.scheduler.sim.openb import Machine
from stoker.scheduler.sim.openb_run import OpenbResult, OpenbRun, RunRules, Workload, run
from stoker.tui.render.progress import progress

Runs = dict[tuple[str, str], list[OpenbResult]]
"""(workload, policy) -> results by seed."""


def every_run(
    workloads: Sequence[Workload], policies: Sequence[str], seeds: Sequence[int], rules: RunRules
) -> list[OpenbRun]:
    """One run for each workload, policy and seed."""
    return [
        OpenbRun(workload, policy, seed, rules)
        for workload, policy, seed in itertools.product(workloads, policies, seeds)
    ]


def simulate(runs: Sequence[OpenbRun], processes: int | None) -> Runs:
    """Do every run, on this number of processes, or on one for each CPU; return the results."""
    processes = processes or len(os.sched_getaffinity(0))
    found: Runs = {}
    with progress("simulating", len(runs)) as advance:
        for result in _results(runs, min(processes, len(runs))):
            found.setdefault((result.name, result.policy), []).append(result)
            advance(1)
    return found


def _results(runs: Sequence[OpenbRun], processes: int) -> Iterator[OpenbResult]:
    if processes <= 1:
        yield from map(run, runs)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(run, runs)


def gpus(machines: Sequence[Machine]) -> int:
    """GPUs of the cluster."""
    return sum(machine.gpus for machine in machines)


def facts(machines: Sequence[Machine], seeds: Sequence[int], started_s: float) -> dict[str, Any]:
    """The cluster, the seeds and the time since `started_s` (monotonic), as a report has them."""
    return {
        "nodes": len(machines),
        "gpus": gpus(machines),
        "seeds": seeds,
        "elapsed_s": round(time.monotonic() - started_s, 3),
    }
