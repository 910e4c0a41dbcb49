# SPDX-License-Identifier: Apache-2.0
"""`stoker bench trace`: what the tracer costs a launch, measured from outside of it.

Relied on by the bench command. A closed loop of launches (probes/opencl/bench.c) runs on one core
with one PoCL worker, off and traced in ABBA order, so that a machine that drifts drifts for both.
Off means that the layer is not loaded. A figure is the best of many short batches over all its
processes, which is what a machine shared with others can repeat; `noise_pct` is how far that
figure of one half of the off runs lies from that of the other half. Benchmarks report, they do
not gate. The pure part (plan, rows) knows no process.
"""

from __future__ import annotations

import json as jsonlib
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from stoker.native import errors, paths
from stoker.probes.environment import layer_environment
from stoker.probes.trace import JobTrace, Mode, TraceSummary

TARGETS_NS = (0, 10_000, 100_000, 1_000_000)
"""Lengths of an untraced launch, ns; 0 is the shortest one that the driver can do."""

BATCH_NS = 1_000_000
"""Shorter than a time slice, so that some batches are never interrupted."""

TARGET_NS_PER_LAUNCH = 250
TARGET_SLOWDOWN_PCT = 3.0


class Case(msgspec.Struct, frozen=True):
    """One row to measure: a driver of PoCL, an untraced launch length, a mode."""

    driver: str
    target_ns: int
    mode: Mode


class Run(msgspec.Struct, frozen=True):
    """One process: time per launch of its best and its median batch, ns; `cpu_ns` of the CPU."""

    best_ns: float
    median_ns: float
    cpu_ns: float
    launches: int
    batches: int


class Row(msgspec.Struct, frozen=True):
    """What one case came to."""

    driver: str
    target_ns: int
    mode: Mode
    off_ns: float
    """Untraced time of a launch, waiting for it included."""
    on_ns: float
    ns_per_launch: float
    slowdown_pct: float
    noise_pct: float
    cpu_ns_per_launch: float
    """The same difference in CPU time of all threads, which others on the machine disturb less."""
    timed_share: float
    """Part of the launches that got a time."""
    lost: int
    tracer_ns_per_launch: float
    """What the tracer itself says it took."""


def plan() -> list[Case]:
    """All rows. PoCL's `basic` driver runs kernels in the calling thread, so its shortest launch
    is the worst case for a tracer and nothing but the launch is measured; with `pthread`, what
    users get, two context switches are in every launch and their cost varies by itself."""
    modes: tuple[Mode, ...] = ("governed", "full")
    lengths = [("basic", target) for target in TARGETS_NS]
    lengths += [("pthread", target) for target in TARGETS_NS[::2]]
    return [Case(driver, target, mode) for driver, target in lengths for mode in modes]


def abba(rounds: int) -> list[bool]:
    """Order of the runs, True for traced: off, on, on, off, and again."""
    return [False, True, True, False] * rounds


def row(case: Case, off: list[Run], on: list[Run], traced: TraceSummary | None) -> Row:
    """Best against best."""
    base, with_it = _best(off), _best(on)
    noise = abs(_best(off[::2]) - _best(off[1::2])) if len(off) > 1 else 0.0
    cpu = min(run.cpu_ns for run in on) - min(run.cpu_ns for run in off)
    cost = traced.cost if traced is not None else None
    counts = traced.records if traced is not None else None
    launches = cost.launches if cost is not None else 0
    waits = sum(each.count for each in traced.events) if traced is not None else 0
    return Row(
        case.driver,
        case.target_ns,
        case.mode,
        round(base, 1),
        round(with_it, 1),
        round(with_it - base, 1),
        round(100 * (with_it - base) / base, 2),
        round(100 * noise / base, 2),
        round(cpu, 1),
        round((counts.made - waits) / launches, 4) if counts is not None and launches else 0.0,
        counts.dropped if counts is not None else 0,
        round(cost.ns_per_launch, 1) if cost is not None else 0.0,
    )


def _best(runs: list[Run]) -> float:
    return min(run.best_ns for run in runs)


def report(rows: list[Row]) -> dict[str, Any]:
    """The whole result. The three figures on top are those of `governed` where it is worst among
    launches that take about 10 us or more untraced; `worst` is the worst of all its rows."""
    governed = [each for each in rows if each.mode == "governed"]
    slow = [each for each in governed if each.off_ns >= 9_000] or governed
    shown = max(slow, key=_slowdown, default=None)
    worst = max(governed, key=_slowdown, default=None)
    return {
        "schema": "stoker/v1",
        "ns_per_launch": shown.ns_per_launch if shown else None,
        "slowdown_pct": shown.slowdown_pct if shown else None,
        "noise_pct": shown.noise_pct if shown else None,
        "worst": msgspec.to_builtins(worst) if worst else None,
        "targets": {
            "ns_per_launch": TARGET_NS_PER_LAUNCH,
            "slowdown_pct": TARGET_SLOWDOWN_PCT,
            "of_launches_longer_than_ns": 10_000,
        },
        "rows": [msgspec.to_builtins(each) for each in rows],
    }


def _slowdown(each: Row) -> float:
    return each.slowdown_pct


def run(json: bool = True, rounds: int = 3, seconds: float = 0.2) -> dict[str, Any]:
    """Measure every case; about 2 x rounds x cases x `seconds`, plus the tracer's drains.

    `json` False also prints a line per row as it comes. Raises NotSupported without PoCL.
    """
    rows = []
    with tempfile.TemporaryDirectory(dir=_fast_folder(), prefix="stoker-bench-") as folder:
        for case in plan():
            rows.append(_measure(case, Path(folder), rounds, seconds))
            if not json:
                print(line(rows[-1]), flush=True)
    return report(rows)


def line(each: Row) -> str:
    """One row for a person."""
    return (
        f"{each.driver:8} {each.mode:9} untraced {each.off_ns / 1000:9.2f} us  "
        f"tracing {each.ns_per_launch:+8.0f} ns ({each.slowdown_pct:+6.2f} %, noise "
        f"{each.noise_pct:.2f} %)  cpu {each.cpu_ns_per_launch:+.0f} ns  "
        f"timed {100 * each.timed_share:.1f} %  lost {each.lost}"
    )


def _fast_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _measure(case: Case, folder: Path, rounds: int, seconds: float) -> Row:
    program = str(paths.program("stoker-bench-opencl"))
    env = _driver_environment(case.driver)
    iterations = 1
    if case.target_ns:
        found = _call([program, "find", str(case.target_ns), "100"], env)
        iterations = int(found["iterations"])
    length_ns = float(_call([program, str(iterations), "100", "5"], env)["best_ns"])
    batch = max(1, int(BATCH_NS / length_ns))
    batches = max(20, min(1000, int(seconds * 1e9 / (batch * length_ns))))
    arguments = [program, str(iterations), str(batch), str(batches)]
    results: dict[bool, list[Run]] = {False: [], True: []}
    summary = None
    for traced in abba(rounds):
        if traced:
            result, summary = _traced(arguments, env, case.mode, folder)
        else:
            result = msgspec.convert(_call(arguments, env), Run)
        results[traced].append(result)
    return row(case, results[False], results[True], summary)


# One worker, and it shares a core with the thread that launches: nothing runs at the same time.
def _driver_environment(driver: str) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OPENCL_", "STOKER_"))}
    one = {"POCL_DEVICES": driver, "POCL_MAX_PTHREAD_COUNT": "1", "POCL_AFFINITY": "0"}
    return inherited | one


@contextmanager
def _on_one_core() -> Iterator[None]:
    """What is started inside runs on the last core allowed; this process goes back to all."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _start(arguments: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
    with _on_one_core():
        return subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _answer(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, err = process.communicate()
    if process.returncode:
        why = err.decode(errors="replace").strip() or f"exit status {process.returncode}"
        raise errors.NotSupported(f"the bench program did not run: {why}")
    answer: dict[str, Any] = jsonlib.loads(out)
    return answer


def _call(arguments: list[str], env: dict[str, str]) -> dict[str, Any]:
    return _answer(_start(arguments, env))


def _traced(
    arguments: list[str], env: dict[str, str], mode: Mode, folder: Path
) -> tuple[Run, TraceSummary]:
    segments, store = (Path(tempfile.mkdtemp(dir=folder)) for _ in range(2))
    library = paths.library("libstoker-opencl.so")
    with JobTrace.open(segments, store, mode) as trace:
        process = _start(arguments, env | layer_environment(library, segments, mode))
        while process.poll() is None:
            time.sleep(0.05)
            trace.drain()
        answer = _answer(process)
        return msgspec.convert(answer, Run), trace.finish()
