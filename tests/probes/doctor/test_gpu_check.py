# SPDX-License-Identifier: Apache-2.0
"""The check of a GPU machine on given runs: every line that must fail does fail."""

from __future__ import annotations

import msgspec
import pytest

from stoker.probes.doctor import gpu_check
from stoker.probes.doctor.gpu_check import CurveRun, GpuEvent, GpuLine, KnownRun
from stoker.probes.kernels.job_trace import (
    ClockAlignment,
    CopyRow,
    KernelSummary,
    RecordCounts,
    TimeWindow,
    TraceSummary,
)

KNOWN = KnownRun(
    spins=3, nodes=2, graphs=1, writes=1, reads=1, fills=1, copy_bytes=10, batch_ns=100_000.0,
    spin_ns=50_000, simulated=False, value=7,
)  # fmt: skip
EVENTS = [
    GpuEvent(gpu_check.SPIN, 16, 0, 200_000, 5, 77),
    GpuEvent(gpu_check.SPIN, 16, 200_000, 250_000, 5, 77),
    GpuEvent(gpu_check.SPIN, 16, 250_000, 300_000, 5, 77),
]
SUMMARY = TraceSummary(
    "full",
    TimeWindow(0, 1),
    kernels=(
        KernelSummary(gpu_check.SPIN, 3, 300_000, 1, 1),
        KernelSummary(gpu_check.NODE, 2, 300_000, 1, 1),
    ),
    copies=tuple(CopyRow(name, 1, 5, 1, 1, 10) for name in ("write", "read", "fill")),
    clock=ClockAlignment("MONOTONIC by CUPTI", 0, 0, 9000),
    records=RecordCounts(8, 8, 0),
)


def failed(known: KnownRun, summary: TraceSummary, events: list[GpuEvent]) -> list[str]:
    lines = gpu_check.known_lines(known, summary, events)
    return [line.name for line in lines if line.verdict == "FAIL"]


def test_a_trace_that_agrees_passes() -> None:
    assert failed(KNOWN, SUMMARY, EVENTS) == []


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"kernels": SUMMARY.kernels[1:]}, "kernels counted"),
        ({"copies": ()}, "copies: read (count, bytes)"),
        ({"loss": {"ring_full": 1}}, "records lost"),
        ({"records": RecordCounts(9, 8, 0)}, "records made = folded + dropped"),
        ({"clock": ClockAlignment("MONOTONIC by CUPTI", 0, 0, 200_000)}, "clock error"),
    ],
)
def test_a_trace_that_differs_fails_by_name(change: dict[str, object], line: str) -> None:
    assert line in failed(KNOWN, msgspec.structs.replace(SUMMARY, **change), EVENTS)


@pytest.mark.parametrize(
    ("index", "change", "line"),
    [
        (2, {"end_ns": 350_000}, "batch: trace against CUDA events"),
        (2, {"start_ns": 240_000}, "kernels of one stream that overlap"),
        (1, {"tid": 78}, "threads that launched"),
        (1, {"call_ns": 0}, "kernels joined to their call"),
        (1, {"name": "other"}, "kernels timed"),
    ],
)
def test_an_event_that_is_wrong_fails_by_name(
    index: int, change: dict[str, object], line: str
) -> None:
    events = list(EVENTS)
    events[index] = msgspec.structs.replace(events[index], **change)
    assert line in failed(KNOWN, SUMMARY, events)


def runs(governed_ns: int, estimate_ns: int = 900_000) -> list[CurveRun]:
    return [
        CurveRun(1000, "off", 1000, 1_000_000_000, 5_000_000),
        CurveRun(1000, "off", 1000, 1_002_000_000, 5_000_000),
        CurveRun(1000, "full", 1000, 1_050_000_000, 9_000_000, 1200, 1_200_000),
        CurveRun(1000, "governed", 1000, governed_ns, 6_000_000, 1200, estimate_ns),
    ]


def test_the_curve_is_against_off_at_the_same_rate() -> None:
    points = {point.mode: point for point in gpu_check.curve(runs(1_011_010_000, 1_200_000))}
    assert points["full"].slowdown_pct == pytest.approx(4.895, abs=0.01)
    assert points["full"].cpu_ns_per_launch == pytest.approx(4000)
    assert points["governed"].slowdown_pct == pytest.approx(1.0, abs=0.01)
    assert points["governed"].noise_pct == pytest.approx(0.1, abs=0.01)
    assert points["governed"].estimate_error_pct == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("governed_ns", "estimate_ns", "verdicts"),
    [
        (1_010_000_000, 1_200_000, ["PASS", "PASS"]),
        (1_030_000_000, 1_200_000, ["FAIL", "PASS"]),
        (1_010_000_000, 1_300_000, ["PASS", "FAIL"]),
    ],
)
def test_a_missed_target_fails(governed_ns: int, estimate_ns: int, verdicts: list[str]) -> None:
    points = gpu_check.curve(runs(governed_ns, estimate_ns))
    lines = [line for line in gpu_check.curve_lines(points) if "governed" in line.name]
    assert [line.verdict for line in lines] == verdicts


def test_one_failure_fails_all() -> None:
    lines = [GpuLine("a", "1"), GpuLine("b", "2", "3", "FAIL")]
    assert gpu_check.result(lines[:1], [])["passed"] is True
    assert gpu_check.result(lines, [])["passed"] is False
    assert gpu_check.table(lines).splitlines()[1] == "FAIL  b  2  3"
