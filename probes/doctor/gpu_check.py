# SPDX-License-Identifier: Apache-2.0
"""Findings of `make gpu-check` on a machine with an NVIDIA GPU: traces compared with the truth.

Pure: runs come in, lines go out. A comparison with the truth can FAIL. So can a figure that misses
its target, unless the machine's noise is as large as the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any, Literal, NamedTuple

import msgspec

from stoker.probes.kernels.job_trace import TraceSummary

Verdict = Literal["PASS", "FAIL", "INFO"]
BenchMode = Literal["off", "dormant", "governed", "full"]

MODES: tuple[BenchMode, ...] = ("off", "dormant", "governed", "full")
RATES = (1_000, 10_000, 50_000, 100_000)
"""The rates of launches per second without a tracer, which set the length of the kernel."""

SPIN, NODE = "stoker_spin", "stoker_node"
BATCH_ERROR = 0.01
BATCH_ERROR_NS = 20_000
"""The allowed difference of a batch between the trace and CUDA's own events."""
CLOCK_ERROR_MAX_NS = 100_000
GOVERNED_PCT = 1.0
DORMANT_NS = 20.0
ESTIMATE_PCT = 2.0


class GpuLine(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    found: str
    wanted: str = ""
    verdict: Verdict = "INFO"


class KnownRun(msgspec.Struct, frozen=True):
    """The result of `stoker-bench-cuda known`; `batch_ns` is measured by CUDA events."""

    spins: int
    nodes: int
    graphs: int
    writes: int
    reads: int
    fills: int
    copy_bytes: int
    batch_ns: float
    spin_ns: int
    simulated: bool
    value: int


class GpuEvent(msgspec.Struct, frozen=True):
    """One record of a trace."""

    name: str
    kind: int
    start_ns: int
    end_ns: int
    call_ns: int
    tid: int


class CurveRun(msgspec.Struct, frozen=True):
    """One run of `stoker-bench-cuda curve`; `estimate_ns` is the trace's kernel time."""

    rate: int
    mode: BenchMode
    launches: int
    elapsed_ns: int
    cpu_ns: int
    counted: int = 0
    estimate_ns: int = 0
    dropped: int = 0


class CurvePoint(msgspec.Struct, frozen=True):
    """One rate and mode against off, in percent and ns of a launch."""

    launches_per_s: float
    mode: BenchMode
    slowdown_pct: float
    noise_pct: float
    ns_per_launch: float
    cpu_ns_per_launch: float
    estimate_error_pct: float | None = None


def same(name: str, found: object, wanted: object) -> GpuLine:
    """Return a line that passes if both are equal."""
    return GpuLine(name, str(found), str(wanted), "PASS" if found == wanted else "FAIL")


def below(name: str, found: float, limit: float, unit: str, *, noise: float = 0.0) -> GpuLine:
    """Return a line that passes up to a limit, or if the noise is too large to decide."""
    met = found <= limit + noise
    text = f"{found:.3g} {unit}"
    return GpuLine(name, text, f"at most {limit:g} {unit}", "PASS" if met else "FAIL")


def known_lines(
    known: KnownRun, summary: TraceSummary, events: Sequence[GpuEvent]
) -> Iterator[GpuLine]:
    """Return the lines of the known program: counts, times against CUDA events, threads, clock."""
    counts = {row.name: row.count for row in summary.kernels}
    yield same("kernels counted", counts.get(SPIN, 0), known.spins)
    yield same("kernels of graphs counted", counts.get(NODE, 0), known.nodes)
    copies = {row.name: (row.count, row.bytes) for row in summary.copies}
    for name, count in (("write", known.writes), ("read", known.reads), ("fill", known.fills)):
        wanted = (count, count * known.copy_bytes)
        yield same(f"copies: {name} (count, bytes)", copies.get(name, (0, 0)), wanted)
    yield same("simulated device", _is_simulated(summary), known.simulated)
    yield from _times(known, events)
    made = summary.records
    lost = sum(v for k, v in summary.loss.items() if k != "timeline_dropped")
    if made is not None:
        yield same("records made = folded + dropped", made.made, made.folded + made.dropped)
    yield same("records lost", lost, 0)
    for what, why in summary.absent.items():
        if not what.startswith(("causes", "spans")):
            yield GpuLine(f"absent: {what}", why)
    if summary.clock is not None:
        yield below("clock error", summary.clock.error_ns, CLOCK_ERROR_MAX_NS, "ns")


def _is_simulated(summary: TraceSummary) -> bool:
    return any(process.simulated for process in summary.processes)


def _times(known: KnownRun, events: Sequence[GpuEvent]) -> Iterator[GpuLine]:
    spins = sorted((e for e in events if e.name == SPIN), key=lambda e: e.start_ns)
    yield same("kernels timed", len(spins), known.spins)
    if len(spins) != known.spins:
        return
    yield same("threads that launched", len({e.tid for e in spins}), 1)
    yield same("kernels joined to their call", all(e.call_ns for e in spins), True)
    batch = spins[1:]  # behind the long one, between two events
    traced_ns = batch[-1].end_ns - batch[0].start_ns
    limit = known.batch_ns * BATCH_ERROR + BATCH_ERROR_NS
    off_by = abs(traced_ns - known.batch_ns)
    yield below("batch: trace against CUDA events", off_by, limit, "ns")
    shortest = min(e.end_ns - e.start_ns for e in batch)
    yield GpuLine("shortest spin", f"{shortest} ns", f"{known.spin_ns} ns at the highest clock")
    overlap = sum(a.end_ns > b.start_ns for a, b in pairwise(batch))
    yield same("kernels of one stream that overlap", overlap, 0)


def curve(runs: Sequence[CurveRun]) -> list[CurvePoint]:
    """Return every rate and mode compared with the runs that are off at the same rate."""
    points = []
    for rate in sorted({run.rate for run in runs}):
        of_rate = [run for run in runs if run.rate == rate]
        off = [run.elapsed_ns / run.launches for run in of_rate if run.mode == "off"]
        base, cpu = fmean(off), fmean(_cpu(run) for run in of_rate if run.mode == "off")
        noise = (max(off) - min(off)) / base * 50 if len(off) > 1 else 0.0
        true_ns = _true_ns(of_rate)
        for mode in MODES[1:]:
            mine = [run for run in of_rate if run.mode == mode]
            if mine:
                points.append(_point(mode, mine, _Base(base, cpu, noise, true_ns)))
    return points


class _Base(NamedTuple):
    """One launch without a tracer; `true_ns` is its device time, if known."""

    elapsed_ns: float
    cpu_ns: float
    noise_pct: float
    true_ns: float | None


def _cpu(run: CurveRun) -> float:
    return run.cpu_ns / run.launches


def _true_ns(runs: Sequence[CurveRun]) -> float | None:
    """Return the device time of one launch by full tracing."""
    full = [run for run in runs if run.mode == "full" and run.counted]
    return fmean(run.estimate_ns / run.counted for run in full) if full else None


def _point(mode: BenchMode, runs: Sequence[CurveRun], base: _Base) -> CurvePoint:
    mean = fmean(run.elapsed_ns / run.launches for run in runs)
    error = None
    if mode == "governed" and base.true_ns:
        estimate = fmean(run.estimate_ns / (run.launches + WARM_UP) for run in runs)
        error = abs(estimate / base.true_ns - 1) * 100
    return CurvePoint(
        launches_per_s=1e9 / base.elapsed_ns,
        mode=mode,
        slowdown_pct=(mean / base.elapsed_ns - 1) * 100,
        noise_pct=base.noise_pct,
        ns_per_launch=mean - base.elapsed_ns,
        cpu_ns_per_launch=fmean(map(_cpu, runs)) - base.cpu_ns,
        estimate_error_pct=error,
    )


WARM_UP = 200
"""The launches of a run before its clock begins, which the trace has too."""


def curve_lines(points: Sequence[CurvePoint]) -> Iterator[GpuLine]:
    """Return the curve against its targets: governed by time, dormant by launch; full has none."""
    for point in points:
        name = f"{point.launches_per_s:,.0f}/s {point.mode}"
        found = f"{point.slowdown_pct:+.2f} % (noise {point.noise_pct:.2f} %)"
        if point.mode == "governed":
            met = point.slowdown_pct <= GOVERNED_PCT + point.noise_pct
            yield GpuLine(name, found, f"at most {GOVERNED_PCT:g} %", "PASS" if met else "FAIL")
        elif point.mode == "dormant":
            noise_ns = point.noise_pct / 100 * 1e9 / point.launches_per_s
            met = point.ns_per_launch <= DORMANT_NS + noise_ns
            text = f"{point.ns_per_launch:+.1f} ns a launch (noise {noise_ns:.1f} ns)"
            yield GpuLine(name, text, f"at most {DORMANT_NS:g} ns", "PASS" if met else "FAIL")
        else:
            yield GpuLine(name, f"{found}, {point.cpu_ns_per_launch:+.0f} CPU-ns a launch")
        if point.estimate_error_pct is not None:
            label = f"{name}: busy time, estimate against full"
            yield below(label, point.estimate_error_pct, ESTIMATE_PCT, "%")


def table(lines: Sequence[GpuLine]) -> str:
    """Format the lines as one table."""
    rows = [(line.verdict, line.name, line.found, line.wanted) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def result(
    lines: Sequence[GpuLine], points: Sequence[CurvePoint], **more: Any
) -> Mapping[str, Any]:
    """Return everything as JSON; `passed` is that of the exit status."""
    return {
        "passed": not any(line.verdict == "FAIL" for line in lines),
        "lines": [msgspec.to_builtins(line) for line in lines],
        "curve": [msgspec.to_builtins(point) for point in points],
        **more,
    }
