# SPDX-License-Identifier: Apache-2.0
"""`stoker bench trace`: the tracer's cost for one launch, measured from outside.

The cost is in ns per launch, for several lengths of a launch down to the shortest. It is the best
traced batch less the best untraced one, of many short ones, which any machine can repeat. Where
`governed` times some windows only, its best batch lies between them, so the means of all batches in
which no other program had the core are compared instead.
`stoker bench probes` measures something else: the loss of a job at a rate of launches, against the
budget. Its programs are used here too. Untraced ones (off: the layer is not loaded) and traced ones
run on one core in ABBA order, so that a machine that drifts drifts for both. `noise_pct` is the
difference between the two halves of the off runs. The benchmark never fails by its figures. Only
`_measure` starts processes.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from stoker.probes.bench.bench_probes import BenchMode, Slice
from stoker.probes.bench.launch_loops import (
    Device,
    LaunchLoop,
    calibrate,
    fast_folder,
    out_of_the_way,
    shortest_ns,
)
from stoker.probes.kernels.job_trace import Mode, TraceSummary

TARGETS_NS = (0, 10_000, 100_000, 1_000_000)
"""The lengths of an untraced launch, ns; 0 is the shortest possible one of the driver."""

BATCH_NS = 1_000_000
"""The length of a batch: shorter than a time slice, so that some are never interrupted."""

WHOLE = 0.99
"""The share of timed launches from which every batch has the full cost."""

TARGET_NS_PER_LAUNCH = 250
TARGET_SLOWDOWN_PCT = 3.0


class TraceCase(msgspec.Struct, frozen=True):
    """A row to measure: a driver of PoCL, an untraced launch length and a mode."""

    driver: Device
    target_ns: int
    mode: Mode
    alone: bool = False
    """The program starts no thread, so the tracer's is its second one, which makes the locks of
    glibc atomic."""


class TraceRun(msgspec.Struct, frozen=True):
    """One run: time per launch of its best batch and of all that were not disturbed, ns; CPU time
    in the same way."""

    best_ns: float
    mean_ns: float
    cpu_ns: float
    mean_cpu_ns: float
    launches: int
    batches: int


class TraceRow(msgspec.Struct, frozen=True):
    """The result of one case."""

    driver: Device
    target_ns: int
    mode: Mode
    off_ns: float
    """The untraced time of a launch, including the wait for it."""
    on_ns: float
    ns_per_launch: float
    slowdown_pct: float
    noise_pct: float
    cpu_ns_per_launch: float
    """The extra CPU time of all threads, which other load disturbs less than wall time."""
    timed_share: float
    """The part of the launches that were timed."""
    lost: int
    tracer_ns_per_launch: float
    """The cost by the tracer's own measurement."""
    alone: bool = False
    """The tracer's thread was the second one of the program."""


def plan() -> list[TraceCase]:
    """Return all rows.

    PoCL's `basic` driver runs kernels in the calling thread, so its shortest launch is the worst
    case for a tracer and nothing but the launch is measured; with `pthread`, the users' default,
    every launch has two context switches, whose cost varies.
    """
    modes: tuple[Mode, ...] = ("governed", "full")
    lengths: list[tuple[Device, int]] = [("basic", target) for target in TARGETS_NS]
    lengths += [("pthread", target) for target in TARGETS_NS[::2]]
    cases = [TraceCase(driver, target, mode) for driver, target in lengths for mode in modes]
    return [*cases, TraceCase("basic", 0, "governed", alone=True)]


def abba(rounds: int) -> list[bool]:
    """Return the order of the runs, True for traced: off, on, on, off, repeated."""
    return [False, True, True, False] * rounds


def row(
    case: TraceCase, off: list[TraceRun], on: list[TraceRun], traced: TraceSummary | None
) -> TraceRow:
    """Return the result of one case."""
    cost = traced.cost if traced is not None else None
    counts = traced.records if traced is not None else None
    launches = cost.launches if cost is not None else 0
    waits = sum(each.count for each in traced.events) if traced is not None else 0
    timed = (counts.made - waits) / launches if counts is not None and launches else 0.0
    wall, cpu_of = (_mean, _mean_cpu) if 0 < timed < WHOLE else (_best, _best_cpu)
    base, with_it = wall(off), wall(on)
    noise = abs(wall(off[::2]) - wall(off[1::2])) if len(off) > 1 else 0.0
    cpu = cpu_of(on) - cpu_of(off)
    return TraceRow(
        case.driver,
        case.target_ns,
        case.mode,
        round(base, 1),
        round(with_it, 1),
        round(with_it - base, 1),
        round(100 * (with_it - base) / base, 2),
        round(100 * noise / base, 2),
        round(cpu, 1),
        round(timed, 4),
        counts.dropped if counts is not None else 0,
        round(cost.ns_per_launch, 1) if cost is not None else 0.0,
        case.alone,
    )


def _best(runs: list[TraceRun]) -> float:
    return min(run.best_ns for run in runs)


def _best_cpu(runs: list[TraceRun]) -> float:
    return min(run.cpu_ns for run in runs)


def _mean(runs: list[TraceRun]) -> float:
    return statistics.fmean(run.mean_ns for run in runs)


def _mean_cpu(runs: list[TraceRun]) -> float:
    return statistics.fmean(run.mean_cpu_ns for run in runs)


def report(rows: list[TraceRow]) -> dict[str, Any]:
    """Return the whole result.

    The three main figures are the worst of `governed` among launches of about 10 us or more
    untraced; `worst` is the worst of all its rows. `alone` is what it costs a program without a
    thread of its own, which no GPU runtime leaves a program.
    """
    alone = next((each for each in rows if each.alone), None)
    governed = [each for each in rows if each.mode == "governed" and not each.alone]
    slow = [each for each in governed if each.off_ns >= 9_000] or governed
    shown = max(slow, key=_slowdown, default=None)
    worst = max(governed, key=_slowdown, default=None)
    return {
        "schema": "stoker/v1",
        "ns_per_launch": shown.ns_per_launch if shown else None,
        "slowdown_pct": shown.slowdown_pct if shown else None,
        "noise_pct": shown.noise_pct if shown else None,
        "worst": msgspec.to_builtins(worst) if worst else None,
        "alone": msgspec.to_builtins(alone) if alone else None,
        "targets": {
            "ns_per_launch": TARGET_NS_PER_LAUNCH,
            "slowdown_pct": TARGET_SLOWDOWN_PCT,
            "of_launches_longer_than_ns": 10_000,
        },
        "rows": [msgspec.to_builtins(each) for each in rows],
    }


def _slowdown(each: TraceRow) -> float:
    return each.slowdown_pct


def run(json: bool = True, rounds: int = 3, seconds: float = 0.2) -> dict[str, Any]:
    """Measure every case; about 2 x rounds x cases x `seconds`, plus the tracer's drains.

    Without `json` it also prints each row when it is there. Raises NotSupported without PoCL.
    """
    rows = []
    with tempfile.TemporaryDirectory(dir=fast_folder(), prefix="stoker-bench-") as folder:
        for case in plan():
            rows.append(_measure(case, Path(folder), rounds, seconds))
            if not json:
                print(line(rows[-1]), flush=True)
    return report(rows)


def line(each: TraceRow) -> str:
    """Format one row for people."""
    return (
        f"{each.driver:8} {each.mode:9} untraced {each.off_ns / 1000:9.2f} us  "
        f"tracing {each.ns_per_launch:+8.0f} ns ({each.slowdown_pct:+6.2f} %, noise "
        f"{each.noise_pct:.2f} %)  cpu {each.cpu_ns_per_launch:+.0f} ns  "
        f"timed {100 * each.timed_share:.1f} %  counted {each.tracer_ns_per_launch:.0f} ns  "
        f"lost {each.lost}{'  single-threaded' if each.alone else ''}"
    )


def _measure(case: TraceCase, folder: Path, rounds: int, seconds: float) -> TraceRow:
    with out_of_the_way(), _loop(case, "off", folder) as off:
        fit = calibrate(off, case.target_ns) if case.target_ns else None
        iterations = fit[0] if fit else 1  # the shortest launch of the driver
        length_ns = shortest_ns(off, iterations, 100)
        batch = max(1, int(BATCH_NS / length_ns))
        batches = max(20, min(1000, int(seconds * 1e9 / (batch * length_ns))))
        results: dict[bool, list[TraceRun]] = {False: [], True: []}
        with _loop(case, case.mode, folder) as on:
            for traced in abba(rounds):
                slices = (on if traced else off).launch_slices(
                    iterations, batch, batches // 8, batches
                )
                results[traced].append(_run(slices, batch))
            return row(case, results[False], results[True], on.end())


def _loop(case: TraceCase, mode: BenchMode, folder: Path) -> LaunchLoop:
    return LaunchLoop(case.driver, mode, folder, alone=case.alone)


def _run(slices: list[Slice], launches: int) -> TraceRun:
    best_ns = min(each.wall_ns for each in slices) / launches
    best_cpu_ns = min(each.cpu_ns for each in slices) / launches
    clean = [each for each in slices if not each.disturbed] or slices
    mean_ns = statistics.fmean(each.wall_ns for each in clean) / launches
    mean_cpu_ns = statistics.fmean(each.cpu_ns for each in clean) / launches
    return TraceRun(best_ns, mean_ns, best_cpu_ns, mean_cpu_ns, launches, len(slices))
