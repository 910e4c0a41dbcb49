# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing to a job, by launch rate and mode: the plan, the figures and their noise.

Pure: slices come in, rows go out. A row compares one mode with off in quads (off, on, on, off) of
short slices, so that a machine that drifts drifts for both; its noise is the same comparison of two
programs that are both off. Targets are printed beside the figures and do not make the benchmark
fail.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Driver = Literal["pocl", "SIM"]
BenchMode = Literal["off", "dormant", "governed", "full"]

RATES = (1_000, 10_000, 50_000, 100_000, 1_000_000)
"""The rates of untraced launches per second, which set the length of the kernel."""

MODES: tuple[BenchMode, ...] = ("off", "dormant", "governed", "full")
"""The modes; `off` is measured against `off` as well, which gives the noise."""

SLICE_NS = 20_000_000
"""The length of a slice: a tracer's tick, short enough for a steady machine over four slices."""

DISTURBED = 0.02
"""A slice is not counted if other programs had the core for more than this part of it."""

CLEAN_MIN = 10
NOISE_MAX_PCT = 0.3
STEADY = {"governed": (10, 20)}
"""Slices in a row, unmeasured and measured, where a tracer's budget depends on its recent cost:
after an idle time it could spend more in a single slice than it ever can in a job.
"""
RESAMPLES = 1000

TARGETS = {
    "governed_slowdown_pct": 1.0,
    "estimate_error_pct": 2.0,
    "dormant_ns_per_launch": 20.0,
    "noise_pct": NOISE_MAX_PCT,
    "fold_events_per_s": 20e6,
    "drain_events_per_s": 50e6,
    "ring_events_per_s": 8e6,
    "ring_lost_at_2500k_per_s": 0,
    "clock_error_p99_ns": 1000,
}
"""The targets that are printed beside the figures; nothing depends on them."""


_FIGURES = (
    "drain_events_per_s",
    "fold_events_per_s",
    "ring_events_per_s",
    "ring_lost_at_2500k_per_s",
    "clock_error_p99_ns",
)
"""The figures that separate programs measure."""


class Slice(msgspec.Struct, frozen=True):
    """One slice of launches, as the program measured it; `cpu_ns` is of all its threads."""

    wall_ns: int
    cpu_ns: int
    iterations: int

    @property
    def disturbed(self) -> bool:
        """Return True if another program had the core."""
        return self.wall_ns - self.cpu_ns > DISTURBED * self.wall_ns


class Quad(msgspec.Struct, frozen=True):
    """Four slices, off, on, on, off, with the same number of launches each."""

    off: tuple[Slice, ...]
    on: tuple[Slice, ...]

    @property
    def disturbed(self) -> bool:
        """Return True if too little of one side was measured without other load."""
        return any(len(_clean(side)) < max(2, len(side) / 2) for side in (self.off, self.on))

    @property
    def walls(self) -> tuple[float, float]:
        """Return the time of an off slice and of an on slice, ns."""
        return _mean(each.wall_ns for each in _counted(self.off)), _mean(
            each.wall_ns for each in _counted(self.on)
        )

    @property
    def cpus(self) -> tuple[float, float]:
        """Return the mean CPU times of the slices that are off and on."""
        return _mean(each.cpu_ns for each in _counted(self.off)), _mean(
            each.cpu_ns for each in _counted(self.on)
        )


def _clean(side: Sequence[Slice]) -> list[Slice]:
    return [each for each in side if not each.disturbed]


def _counted(side: Sequence[Slice]) -> Sequence[Slice]:
    return _clean(side) or side


def _mean(values: Iterable[int]) -> float:
    return statistics.fmean(values)


class RecordTally(msgspec.Struct, frozen=True):
    """The fate of one traced program's records, counted after its end."""

    made: int = 0
    folded: int = 0
    dropped: int = 0
    launches: int = 0

    @property
    def equal(self) -> bool:
        """Return True if every missing record is counted."""
        return self.made == self.folded + self.dropped


class ProbeRow(msgspec.Struct, frozen=True):
    """One rate, mode and driver. `void`: the noise is too large for a meaningful figure."""

    launches_per_s: int
    mode: BenchMode
    driver: Driver
    slowdown_pct: float
    error_pct: float
    """95 % bootstrap half-width of `slowdown_pct`."""
    cpu_ns_per_launch: float
    """The extra CPU time of all threads of the program per launch."""
    cpu_slowdown_pct: float
    """The slowdown in CPU time, which other load disturbs less than wall time."""
    noise_pct: float
    """95 % bootstrap half-width of off against off, in the same call."""
    off_against_off_pct: float
    """The slowdown of off against off; 0 on a machine without noise."""
    void: bool
    untraced_per_s: float
    """The rate that was reached; `launches_per_s` is the requested one."""
    quads: int
    disturbed: int
    """The number of quads left out because another program had the core."""
    records: RecordTally | None = None
    estimate_error_pct: float | None = None
    """The error of the estimated device time; None if nothing was estimated."""
    estimate_stated_pct: float | None = None
    """The error that the trace itself states (95 %)."""
    absent: str = ""
    """The reason why nothing was estimated in a mode that estimates."""


def clean(quads: Sequence[Quad]) -> list[Quad]:
    """Return the undisturbed quads, or all if there are hardly any of those."""
    kept = [each for each in quads if not each.disturbed]
    return kept if len(kept) >= min(CLEAN_MIN, len(quads) / 2) else list(quads)


def slowdown_pct(quads: Sequence[Quad]) -> float:
    """Return the extra wall time of identical launches in percent, by sums as costs are bursty."""
    return _ratio_pct([each.walls for each in quads])


def _ratio_pct(pairs: Sequence[tuple[float, float]]) -> float:
    off = sum(each[0] for each in pairs)
    return 100 * (sum(each[1] for each in pairs) / off - 1) if off else 0.0


def half_width_pct(quads: Sequence[Quad], seed: int = 1) -> float:
    """Return the 95 % bootstrap half-width of `slowdown_pct` (percentile method over quads)."""
    if len(quads) < 2:
        return float("inf")
    chance, pairs = random.Random(seed), [each.walls for each in quads]
    drawn = sorted(_ratio_pct(chance.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return (drawn[int(0.975 * RESAMPLES) - 1] - drawn[int(0.025 * RESAMPLES)]) / 2


class Estimate(msgspec.Struct, frozen=True):
    """An estimated device time against the truth, in percent of the truth."""

    error_pct: float | None
    """The difference from the truth; None if every launch was timed and nothing estimated."""
    stated_pct: float | None = None
    """The half-width that the trace states (95 %)."""


class Cell(msgspec.Struct):
    """All measurements at one rate with one driver."""

    launches_per_s: int
    driver: Driver
    launches: int
    """The number of launches in one slice."""
    quads: dict[BenchMode, list[Quad]]
    records: dict[BenchMode, RecordTally] = {}
    estimate: Estimate | None = None
    """The estimate of the governed mode; None if it was not compared."""

    @property
    def noise_pct(self) -> float:
        """Return the noise of the machine, from the programs that are off."""
        return half_width_pct(clean(self.quads.get("off", [])))


def rows(cell: Cell) -> list[ProbeRow]:
    """Return one row per mode that was measured."""
    noise, base = cell.noise_pct, slowdown_pct(clean(cell.quads.get("off", [])))
    return [_row(cell, mode, quads, noise, base) for mode, quads in cell.quads.items()]


def _row(
    cell: Cell, mode: BenchMode, every: Sequence[Quad], noise: float, off_against_off: float
) -> ProbeRow:
    kept = clean(every)
    launches = cell.launches * len(kept)
    cpu_off, cpu_on = (sum(each.cpus[i] for each in kept) for i in (0, 1))
    cpu = cpu_on - cpu_off
    off_ns = sum(each.walls[0] for each in kept)
    return ProbeRow(
        cell.launches_per_s,
        mode,
        cell.driver,
        round(slowdown_pct(kept), 3),
        round(half_width_pct(kept), 3),
        round(cpu / launches, 1) if launches else 0.0,
        round(100 * cpu / cpu_off, 3) if cpu_off else 0.0,
        round(noise, 3),
        round(off_against_off, 3),
        noise >= NOISE_MAX_PCT,
        round(1e9 * launches / off_ns, 1) if off_ns else 0.0,
        len(kept),
        len(every) - len(kept),
        cell.records.get(mode),
        *_estimated(cell, mode),
    )


def _estimated(cell: Cell, mode: BenchMode) -> tuple[float | None, float | None, str]:
    """Return the last fields of a row."""
    if mode != "governed" or cell.estimate is None:
        return None, None, ""
    if cell.estimate.error_pct is None:
        return None, None, "every launch was timed, so nothing was estimated"
    return cell.estimate.error_pct, cell.estimate.stated_pct, ""


def error_pct(estimate: float, truth: float) -> float:
    """Return the error of an estimate in percent of the truth."""
    return round(100 * abs(estimate - truth) / truth, 3) if truth else 0.0


def totals(found: Iterable[ProbeRow]) -> RecordTally:
    """Return the records of all rows together."""
    counts = [row.records for row in found if row.records is not None]
    return RecordTally(
        sum(each.made for each in counts),
        sum(each.folded for each in counts),
        sum(each.dropped for each in counts),
        sum(each.launches for each in counts),
    )


def report(
    found: Sequence[ProbeRow],
    dormant_ns: float | None,
    rates: dict[str, float],
    absent: dict[str, str],
) -> dict[str, object]:
    """Return the result of `stoker bench probes --json`; `absent` has the reason of each null."""
    counts = totals(found)
    return {
        "schema": "stoker/v1",
        "rows": [msgspec.to_builtins(each) for each in found],
        **{name: rates.get(name) for name in _FIGURES},
        "rates": {name: value for name, value in rates.items() if name not in _FIGURES},
        "dormant_ns_per_launch": dormant_ns,
        "made": counts.made,
        "folded": counts.folded,
        "dropped": counts.dropped,
        "sums_equal": all(each.records is None or each.records.equal for each in found),
        "targets": TARGETS,
        "absent": absent,
    }


def line(row: ProbeRow) -> str:
    """Format one row for people."""
    estimate = f"  {row.absent}" if row.absent else ""
    if row.estimate_error_pct is not None:
        estimate = f"  estimate off by {row.estimate_error_pct:.2f} %"
        if row.estimate_stated_pct is not None:
            estimate += f", stated {row.estimate_stated_pct:.2f} %"
    return (
        f"{row.driver:4} {row.launches_per_s:9,d}/s {row.mode:9} {row.slowdown_pct:+8.3f} "
        f"(+-{row.error_pct:.3f}) %  cpu {row.cpu_ns_per_launch:+9.1f} ns/launch, "
        f"{row.cpu_slowdown_pct:+7.3f} %  "
        f"noise {row.noise_pct:.3f} %{' VOID' if row.void else ''}{estimate}"
    )


def text(result: dict[str, object]) -> str:
    """Format the lines below the table: each figure beside its target."""
    lines = []
    for name in (*_FIGURES, "dormant_ns_per_launch"):
        value = result[name]
        shown = "not measured" if value is None else f"{value:,}"
        lines.append(f"{name:26} {shown:>16}   target {TARGETS[name]:,}")
    lines.append(
        f"made {result['made']:,} = folded {result['folded']:,} + "
        f"dropped {result['dropped']:,}: {result['sums_equal']}"
    )
    absent = result["absent"]
    assert isinstance(absent, dict)
    return "\n".join([*lines, *(f"{what}: {why}" for what, why in absent.items())])
