# SPDX-License-Identifier: Apache-2.0
"""The pure part of the tracing bench; and once, for a moment, the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stoker.native import errors
from stoker.probes.bench import bench_trace, launch_loops
from stoker.probes.bench.bench_trace import TraceCase, TraceRun, abba, line, plan, report, row
from stoker.probes.kernels.job_trace import TimeWindow, TraceSummary
from stoker.probes.kernels.trace_summary import CostRow, RecordCounts


def run(best_ns: float, mean_ns: float = 0) -> TraceRun:
    mean_ns = mean_ns or best_ns * 1.1
    return TraceRun(best_ns, mean_ns, best_ns, mean_ns, 100, 10)


def traced(launches: int, timed: int) -> TraceSummary:
    """Return a trace in which so many of the launches were timed."""
    made = RecordCounts(made=timed, folded=timed, dropped=0)
    cost = CostRow(launches, 0, 0.0, 0.0)
    return TraceSummary("governed", TimeWindow(0, 1), cost=cost, records=made)


def test_off_and_on_take_turns_in_both_orders() -> None:
    assert abba(2) == [False, True, True, False] * 2


def test_every_length_is_measured_under_both_modes() -> None:
    cases = plan()
    assert len(set(cases)) == len(cases)
    assert {case.mode for case in cases} == {"governed", "full"}
    assert {case.target_ns for case in cases} == set(bench_trace.TARGETS_NS)
    assert TraceCase("basic", 0, "governed") in cases


def test_a_row_compares_best_with_best() -> None:
    case = TraceCase("basic", 10_000, "full")
    made = row(case, [run(10_000), run(10_400)], [run(10_300), run(10_200)], None)
    assert (made.off_ns, made.on_ns, made.ns_per_launch) == (10_000, 10_200, 200)
    assert (made.slowdown_pct, made.noise_pct) == (2.0, 4.0)
    assert made.timed_share == 0.0
    assert "+200 ns" in line(made)


def test_windows_that_are_timed_in_part_are_compared_by_their_means() -> None:
    """The best batch of a tracer that times a fifth of the launches is one that it did not time."""
    case = TraceCase("basic", 10_000, "governed")
    off, on = [run(10_000, 10_100)], [run(10_010, 10_180)]
    assert row(case, off, on, traced(1000, 200)).ns_per_launch == 80
    assert row(case, off, on, traced(1000, 1000)).ns_per_launch == 10


def test_a_program_without_a_thread_of_its_own_is_a_row_beside_the_others() -> None:
    case = TraceCase("basic", 0, "governed", alone=True)
    assert case in plan()
    alone = row(case, [run(460)], [run(640)], None)
    found = report([row(TraceCase("basic", 0, "governed"), [run(630)], [run(640)], None), alone])
    assert found["alone"]["ns_per_launch"] == 180
    assert (found["ns_per_launch"], found["worst"]["ns_per_launch"]) == (10, 10)
    assert "single-threaded" in line(alone)


def test_the_headline_is_the_worst_governed_row_of_ten_microseconds_or_more() -> None:
    def made(target: int, mode: str, off: float, on: float) -> bench_trace.TraceRow:
        return row(TraceCase("basic", target, mode), [run(off)], [run(on)], None)  # type: ignore[arg-type]

    found = report(
        [
            made(0, "governed", 600, 740),
            made(0, "full", 600, 900),
            made(10_000, "governed", 10_000, 10_240),
            made(100_000, "governed", 100_000, 100_250),
        ]
    )
    assert (found["ns_per_launch"], found["slowdown_pct"]) == (240, 2.4)
    assert found["worst"]["off_ns"] == 600
    assert found["targets"]["ns_per_launch"] == 250
    json.dumps(found)


def test_nothing_measured_is_no_figure() -> None:
    assert report([])["ns_per_launch"] is None


def test_the_whole_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Batches are so short that all records fit into the ring, also if nobody reads it meanwhile.
    monkeypatch.setattr(bench_trace, "BATCH_NS", 100_000)
    for mode in ("governed", "full"):
        made = bench_trace._measure(TraceCase("basic", 0, mode), tmp_path, 1, 0.002)
        assert made.off_ns > 0
        assert made.lost == 0
        assert 0 < made.timed_share <= 1
        assert made.mode == "governed" or made.timed_share == 1


def test_a_program_that_fails_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        launch_loops, "driver_environment", lambda _: {"OCL_ICD_VENDORS": "/nowhere"}
    )
    with (
        launch_loops.LaunchLoop("basic", "off", tmp_path) as loop,
        pytest.raises(errors.NotSupported, match="the bench program ended: exit status"),
    ):
        loop.launch_slices(1, 1)
