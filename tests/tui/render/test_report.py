# SPDX-License-Identifier: Apache-2.0
"""The report against golden files, and the properties no golden file can show."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.tui.render import device_causes, report, text

GOLDEN = Path(__file__).parents[2] / "golden" / "report"


def causes(**spent: int) -> dict[str, int]:
    return {name: spent.get(name, 0) for name in device_causes.CAUSES}


def trace() -> dict[str, Any]:
    return {
        "mode": "full",
        "window": {"from_ns": 0, "to_ns": 1_000_000_000},
        "kernels": [
            {"name": "saxpy", "count": 100_003, "total_ns": 412_345_678, "p50_ns": 4012}
            | {"p99_ns": 9876, "estimate": False, "error_ns": 0},
            {"name": "évil\x1b[2J" + "long" * 20, "count": 1, "total_ns": 1500, "p50_ns": 1500}
            | {"p99_ns": 1500, "estimate": True, "error_ns": 120},
        ],
        "copies": [
            {"name": "write buffer", "count": 2, "total_ns": 90_000, "p50_ns": 45_000}
            | {"p99_ns": 50_000, "bytes": 8192, "estimate": False, "error_ns": 0}
        ],
        "devices": [
            {
                "id": "pocl-0",
                "window_ns": 1_000_000_000,
                "estimate": False,
                "causes": causes(
                    kernel_ns=412_345_678,
                    copy_ns=90_000,
                    host_on_cpu_ns=333_333_333,
                    host_blocked_ns=54_230_989,
                    held_idle_ns=200_000_000,
                ),
            }
        ],
        "loss": {"ring_full": 0, "kernel_names": 0},
        "clock": {"source": "PoCL", "offset_ns": 12, "drift_ppb": 35.5, "error_ns": 240},
        "cost": {"launches": 100_003, "tracer_ns": 14_000_420, "ns_per_launch": 140.0}
        | {"share": 0.014},
        "absent": {
            "io_wait": "tracepoint block_rq_issue is missing",
            "paging": "tracepoint block_rq_issue is missing",
            "causes.peer_ns": "collective calls are not traced",
        },
    }


def pocl_job() -> dict[str, Any]:
    return {
        "schema": "stoker/v1",
        "job": 3,
        "name": "demo",
        "user": "root",
        "uid": 65534,
        "state": "succeeded",
        "exit_code": 0,
        "signal": None,
        "reason": "",
        "spec": {
            "argv": ["/tmp/demo/stoker-demo-opencl", "--launches", "100003"],
            "gpu_milli": 500,
            "device_kind": "cpu",
        },
        "times": {
            "submitted_ns": 1_700_000_000_000_000_000,
            "started_ns": 1_700_000_000_002_345_000,
            "ended_ns": 1_700_000_001_202_345_000,
        },
        "decision": {
            "id": 131073,
            "node": "vm",
            "devices": [{"index": 0, "id": "pocl-0", "milli": 500}],
            "reason": "first fit: 1 node with 0.5 of one device free",
            "latency_ns": 18_400,
            "observations": [17],
        },
        "trace": trace(),
        "hardware": [
            {"id": "pocl-0", "vendor": "PoCL", "model": "cpu-haswell", "kind": "cpu", "sim": False}
            | {"power_w": None, "temperature_c": None}
            | {"absent": {"power_w": "no sensor", "temperature_c": "no sensor"}}
        ],
        "missing": ["fentry: this kernel refuses it, block times come from tracepoints"],
        "perfetto": "out/demo.perfetto-trace",
    }


def gpu_job() -> dict[str, Any]:
    job = pocl_job()
    job |= {
        "name": "",
        "state": "failed",
        "exit_code": None,
        "signal": 9,
        "reason": "out of memory",
    }
    job["spec"]["gpu_milli"] = 2000
    job["decision"]["devices"] = [{"index": i, "id": f"GPU-{i}", "milli": 1000} for i in (0, 1)]
    job["hardware"] = [
        {"id": f"GPU-{i}", "vendor": "NVIDIA", "model": "H200", "kind": "gpu", "sim": bool(i)}
        | {"power_w": 312.4, "temperature_c": 54.0, "absent": {}}
        for i in (0, 1)
    ]
    job["trace"] |= {"loss": {"ring_full": 41, "failed": 0}, "absent": {}, "copies": []}
    job["trace"]["kernels"] = [
        {"name": f"kernel_{i:02}", "count": i + 1, "total_ns": 10**6 * (i + 1), "p50_ns": 10**6}
        | {"p99_ns": 10**6, "estimate": False, "error_ns": 0}
        for i in range(15)
    ]
    job["trace"]["devices"] = []
    job["missing"] = []
    return job


def pending_job() -> dict[str, Any]:
    return {
        "schema": "stoker/v1",
        "job": 4,
        "name": "waits",
        "user": "alice",
        "state": "pending",
        "spec": {"argv": ["true"], "gpu_milli": 0},
        "times": {"submitted_ns": 1, "started_ns": None, "ended_ns": None},
        "decision": None,
        "trace": None,
        "hardware": [],
    }


@pytest.mark.parametrize(
    ("name", "job"),
    [("pocl", pocl_job()), ("failed", gpu_job()), ("pending", pending_job())],
)
def test_golden_report(name: str, job: dict[str, Any]) -> None:
    path = GOLDEN / f"{name}.txt"
    shown = report.render(job) + "\n"
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize("job", [pocl_job(), gpu_job(), pending_job()])
@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", [text.PAGE_LEAST, text.PAGE, text.PAGE_MOST])
def test_every_line_fits_and_nothing_controls_the_terminal(
    job: dict[str, Any], unicode: bool, width: int
) -> None:
    job["name"] = "a name that is too long for any page " * 4
    for row in (job["trace"] or {}).get("kernels", ())[:1]:
        row |= {"seen": 0.0031, "count": 123_456_789}
    job["rank_times"] = [
        {"rank": rank, "window_ns": 10**11, "causes": causes(peer_ns=10**11 - 7, copy_ns=7)}
        | {"absent": ""}
        for rank in range(3)
    ]
    shown = report.render(job, unicode=unicode, width=width)
    for line in shown.split("\n"):
        assert text.cells(line) <= width, line
        assert line.isprintable()
    assert unicode or shown.isascii()


def test_the_start_of_a_further_attempt_is_not_called_a_wait() -> None:
    lost = {"attempt": 1, "state": "lost", "reason": "gone", "node": "n1"}
    lost |= {"started_ns": 2_000_000_000, "ended_ns": 9_000_000_000}
    job = pocl_job() | {"attempt": 2, "attempts": [lost]}
    job["times"] = {"submitted_ns": 0, "started_ns": 10_000_000_000, "ended_ns": None}
    words = " ".join(report.render(job).split())
    assert "attempt 2 started 10 s after it was submitted" in words and "started after" not in words
    assert "attempt 1 on node n1: lost, gone, ran 7 s" in words


def test_colour_changes_no_words() -> None:
    coloured = report.render(pocl_job(), colour=True)
    for code in ("\x1b[1m", "\x1b[0m", "\x1b[32m"):
        assert code in coloured
        coloured = coloured.replace(code, "")
    assert coloured == report.render(pocl_job())


def test_a_cause_that_is_not_known_is_not_zero() -> None:
    job = pocl_job()
    job["trace"]["devices"][0]["causes"]["throttled_ns"] = None
    shown = report.render(job)
    assert "not measured: waiting for a peer, throttled" in shown
    assert not any(line.startswith("  0:") and "throttled" in line for line in shown.split("\n"))


def test_a_throttled_device_says_by_what_and_who_says_so() -> None:
    job = pocl_job()
    device = job["trace"]["devices"][0]
    rows = [{"cause": "power", "ns": 1_500_000_000, "error_ns": 0},
            {"cause": "thermal", "ns": 20_000_000, "error_ns": 0}]  # fmt: skip
    device["throttle"] = {"source": "counter", "busy_ns": 9, "error_ns": 10**7, "causes": rows}
    shown = " ".join(report.render(job).split())
    words = "throttled by power 1.50 s, thermal 20 ms by the driver's counters, within 10 ms"
    assert words in shown
    device["throttle"] = {"source": "quota", "busy_ns": 0, "error_ns": 0, "causes": []}
    assert "throttled by" not in report.render(job)


def test_a_count_that_is_not_whole_says_so_on_its_own_line() -> None:
    """A tracer that misses a part of the time, or samples windows, has a lower bound as count.

    The error covers the launches that were not seen.
    """
    job = pocl_job()
    row = {"name": "matmul_250us", "count": 63_800, "total_ns": 16_300_000_000, "p50_ns": 250_000,
           "p99_ns": 300_000, "estimate": True, "error_ns": 64 * 10**9, "seen": 0.467}  # fmt: skip
    job["trace"]["kernels"] = [row, {**row, "name": "tiny", "unseen": 1_000_000, "seen": 0.0031}]
    lines = report.render(job).splitlines()
    at = next(i for i, line in enumerate(lines) if "matmul_250us" in line)
    assert "at least 63,800 (47 % seen)" in lines[at + 1]
    assert lines[at + 2].strip() == "estimate, ± 1m 04s"
    assert "at least 63,800 (0.31 % seen)" in lines[at + 4]
    assert lines[at + 5].strip() == "estimate of ~1,063,800 launches, ± 1m 04s"


def test_the_clock_table_is_shown_with_what_is_known() -> None:
    job = pocl_job()
    rows = [("REALTIME", 2, 32), ("TSC", None, None), ("GPU-1", None, 900)]
    job["trace"]["clocks"] = [
        {"clock": clock, "drift_ppb": drift, "error_ns": error} for clock, drift, error in rows
    ]
    (shown,) = [line for line in report.render(job).split("\n") if line.startswith("clocks")]
    assert " ".join(shown.split()) == "clocks REALTIME ±32 ns +2 ppb, GPU-1 ±900 ns"


def test_without_thread_spans_host_time_is_not_measured() -> None:
    job = pocl_job()
    job["trace"]["absent"] = {"spans": "no BPF"}
    for name in report.HOST_CAUSES:
        job["trace"]["devices"][0]["causes"][name] = 0
    assert "not measured: host: on CPU, host: waits for a CPU" in report.render(job)


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=10).filter(any))
def test_percentages_add_up_to_a_hundred(parts: list[int]) -> None:
    shares = device_causes.percentages(parts, sum(parts))
    assert round(sum(shares) * 10) == 1000
    for part, share in zip(parts, shares, strict=True):
        assert abs(part / sum(parts) * 100 - share) < 0.1 + 1e-6
