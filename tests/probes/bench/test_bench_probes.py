# SPDX-License-Identifier: Apache-2.0
"""The figures of the probe bench, from slices whose answer is known."""

from __future__ import annotations

import json
import random

import pytest

from stoker.probes.bench import bench_probes
from stoker.probes.bench.bench_probes import (
    Cell,
    Estimate,
    ProbeRow,
    Quad,
    RecordTally,
    Slice,
    clean,
    line,
    report,
    rows,
)


def piece(wall_ns: int, cpu_ns: int | None = None) -> Slice:
    return Slice(wall_ns, wall_ns if cpu_ns is None else cpu_ns, 1)


def quad(off: int, on: int) -> Quad:
    return Quad((piece(off), piece(off)), (piece(on), piece(on)))


def test_a_cost_that_comes_in_bursts_is_not_lost() -> None:
    quads = [quad(1000, 1000)] * 9 + [quad(1000, 1100)]
    assert bench_probes.slowdown_pct(quads) == pytest.approx(1.0)
    assert bench_probes.slowdown_pct([]) == 0.0


def test_drift_is_the_same_for_both() -> None:
    speeds = [1000 + 10 * i for i in range(40)]
    pairs = zip(*[iter(speeds)] * 4, strict=True)
    quads = [Quad((piece(a), piece(d)), (piece(b), piece(c))) for a, b, c, d in pairs]
    assert bench_probes.slowdown_pct(quads) == pytest.approx(0.0)


def test_a_slice_without_its_core_does_not_count() -> None:
    stolen = Quad((piece(1000), piece(1500, 1000)), (piece(1000), piece(1000)))
    assert stolen.disturbed
    assert clean([quad(1000, 1010), stolen]) == [quad(1000, 1010)]
    steady = Quad(tuple([piece(1000)] * 4), tuple([piece(1500, 1000)] + [piece(1010)] * 3))
    assert not steady.disturbed
    assert bench_probes.slowdown_pct([steady]) == pytest.approx(1.0)
    assert clean([stolen] * 9 + [quad(1000, 1010)]) == [stolen] * 9 + [quad(1000, 1010)]


def test_the_half_width_covers_the_truth() -> None:
    chance, covered = random.Random(3), 0
    for seed in range(40):
        quads = [quad(100_000, round(chance.gauss(101_000, 500))) for _ in range(60)]
        off_by = abs(bench_probes.slowdown_pct(quads) - 1.0)
        covered += off_by <= bench_probes.half_width_pct(quads, seed)
    assert 33 <= covered <= 40
    assert bench_probes.half_width_pct([quad(1, 1)]) == float("inf")


def cell(noise: int) -> Cell:
    chance = random.Random(1)
    off = [quad(100_000, chance.randrange(100_000 - noise, 100_001 + noise)) for _ in range(50)]
    made = RecordTally(100, 90, 10, 100)
    full = [quad(100_000, 103_000)] * 50
    return Cell(10_000, "SIM", 10, {"off": off, "full": full}, {"full": made})


def test_a_row_has_its_noise_and_says_when_it_is_void() -> None:
    off, full = rows(cell(200))
    assert (full.mode, full.driver, full.launches_per_s) == ("full", "SIM", 10_000)
    assert full.slowdown_pct == 3.0
    assert full.cpu_ns_per_launch == 300.0
    assert full.cpu_slowdown_pct == 3.0
    assert full.untraced_per_s == pytest.approx(100_000)
    assert full.noise_pct == off.noise_pct == off.error_pct < 0.3
    assert not full.void
    assert "VOID" in line(rows(cell(9000))[1])


def governed(found: Estimate | None) -> ProbeRow:
    made = cell(200)
    made.quads["governed"] = made.quads["full"]
    made.estimate = found
    (*others, row) = rows(made)
    assert [each.estimate_error_pct for each in others] == [None, None]
    return row


def test_an_estimate_stands_beside_the_error_that_the_trace_states() -> None:
    row = governed(Estimate(1.5, 2.0))
    assert (row.estimate_error_pct, row.estimate_stated_pct, row.absent) == (1.5, 2.0, "")
    assert "estimate off by 1.50 %, stated 2.00 %" in line(row)


def test_nothing_is_called_an_estimate_where_every_launch_was_timed() -> None:
    row = governed(Estimate(None))
    assert row.estimate_error_pct is None
    assert "every launch was timed" in row.absent
    assert row.absent in line(row)
    assert governed(None).absent == ""


def test_the_report_sums_up_and_says_what_is_not_there() -> None:
    measured = {"fold_events_per_s": 2e7, "more": 1.0}
    found = report(rows(cell(200)), 4.5, measured, {"clock": "why"})
    assert found["rates"] == {"more": 1.0}
    assert (found["made"], found["folded"], found["dropped"]) == (100, 90, 10)
    assert found["sums_equal"]
    assert found["drain_events_per_s"] is None
    assert found["fold_events_per_s"] == 2e7
    assert {row["mode"] for row in json.loads(json.dumps(found))["rows"]} == {"off", "full"}
    shown = bench_probes.text(found)
    assert "dormant_ns_per_launch" in shown
    assert "clock: why" in shown


def test_sums_that_differ_are_told() -> None:
    assert not RecordTally(100, 90, 9).equal
    lost = cell(200)
    lost.records["full"] = RecordTally(100, 90, 9)
    assert not report(rows(lost), None, {}, {})["sums_equal"]


def test_an_error_is_of_the_truth() -> None:
    assert bench_probes.error_pct(98, 100) == 2.0
    assert bench_probes.error_pct(5, 0) == 0.0
