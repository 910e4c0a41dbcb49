# SPDX-License-Identifier: Apache-2.0
"""Totals under `governed` against the truth, of every tracer on its simulated runtime (SIM).

A program prints the totals that `full` would have found. Here whole tracers run for a moment each;
test_tracer_plan.py has many seeds in simulated time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stoker.native import paths
from stoker.probes.bench.bench_probes import SLICE_NS
from stoker.probes.bench.launch_loops import LaunchLoop
from stoker.probes.kernels.job_trace import JobTrace, TraceSummary
from tests.probes import cupti_programs
from tests.probes.simulated import Traced, compile_pair

HERE = Path(__file__).parent
EXACT = 0.02
"""Part of the truth by which an estimate may be off, however small its stated error is."""
CUPTI_COSTS = {
    "SIM_CUDA_LAUNCH_NS": "2000",
    "SIM_CUPTI_CALL_NS": "100",
    "SIM_CUPTI_RECORD_NS": "700",
}
"""A launch takes a driver 2 to 5 us; CUPTI calls back twice, and its record makes it longer."""
VENDORS = {
    "rocprofiler": ("librocprofiler-sdk.so.1", "libstoker-rocprofiler.so", ()),
    "levelzero": ("libze_loader.so.1", "libstoker-levelzero.so", ("immediate",)),
}


def agrees(summary: TraceSummary, launches: int, busy_ns: int) -> None:
    """The stated errors hold, and everything that was lost is counted.

    An error is stated with 95 % confidence: of twenty runs one is beyond it, and none beyond twice
    of it. How many are is held against chance in simulated time (test_tracer_plan.py)."""
    kernels = summary.kernels
    found, error = sum(row.total_ns for row in kernels), sum(row.error_ns for row in kernels)
    assert abs(found - busy_ns) <= max(2 * error, EXACT * busy_ns), (found, busy_ns, error)
    guess = sum(row.count + row.unseen for row in kernels)
    assert abs(guess - launches) <= max(2 * error / busy_ns, EXACT) * launches, (guess, launches)
    assert summary.records is not None
    assert summary.records.made == summary.records.folded + summary.records.dropped


def drained(trace: JobTrace, running: Callable[[], bool]) -> TraceSummary:
    while running():
        trace.drain()
        time.sleep(0.01)
    return trace.finish()


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cupti_programs.library()
    return cupti_programs.compiled(tmp_path_factory.mktemp("cuda"))


@pytest.mark.parametrize("rate", [10_000, 100_000, 300_000])
def test_cupti(cuda: Path, tmp_path: Path, rate: int) -> None:
    """A host sets the pace: any cost of looking makes it launch less."""
    work_ns, length_ns = round(1e9 / rate) - 2200, round(0.6e9 / rate)
    program = cupti_programs.Cuda(cuda, tmp_path, dict(CUPTI_COSTS))
    with (
        JobTrace.open(tmp_path / "segments", tmp_path / "store", "governed") as trace,
        program.start("pace", str(work_ns), str(length_ns), "1700", mode="governed") as process,
    ):
        summary = drained(trace, lambda: process.poll() is None)
        assert process.stdout
        truth = json.loads(process.stdout.read())
    agrees(summary, truth["made"], truth["busy_ns"])
    per_s = 1e9 * truth["made"] / truth["took_ns"]  # fewer than asked for on a busy machine
    assert summary.coverage is not None
    assert summary.coverage.counted_ns > 0 or per_s < 8_000
    assert summary.coverage.blind_ns > 0 or per_s < 60_000


@pytest.mark.parametrize("budget_ppm", [8_000, 300])
@pytest.mark.parametrize("vendor", list(VENDORS))
def test_vendors(tmp_path: Path, vendor: str, budget_ppm: int) -> None:
    """Launches are counted all the time or, from some thousand a second on, in windows alone."""
    library, tracer, words = VENDORS[vendor]
    tool = str(paths.library(tracer))
    env = {
        "rocprofiler": {"ROCP_TOOL_LIBRARIES": tool},
        "levelzero": {"LD_PRELOAD": tool, "ZE_ENABLE_TRACING_LAYER": "1"},
    }[vendor]
    built, segments, store = (tmp_path / name for name in ("built", "segments", "store"))
    for folder in (built, segments, store):
        folder.mkdir()
    traced = Traced(compile_pair(HERE / vendor, built, library), segments, env, "governed")
    with JobTrace.open(segments, store, "governed") as trace, ThreadPoolExecutor(1) as waits:
        trace.control("governed", budget_ppm, 3_600_000_000_000)
        program = waits.submit(traced.finish, traced.start(*words, 1, 12_000, 3_000, 30))
        summary = drained(trace, lambda: not program.done())
        truths = [truth for truth in program.result() if truth.kernel < 100]
    active_ns = truths[-1].called_ns - truths[0].called_ns
    busy_ns = sum(truth.end_ns - truth.start_ns for truth in truths)
    agrees(summary, len(truths), busy_ns)
    assert summary.coverage is not None
    per_s = 1e9 * len(truths) / active_ns
    # Counting alone takes 50 ns a launch on a quick machine: more than 300 ppm from 6,000 on.
    assert summary.coverage.blind_ns > 0 or budget_ppm == 8_000 or per_s < 8_000


@pytest.mark.parametrize("rate", [100_000, 1_000_000])
def test_opencl(tmp_path: Path, rate: int) -> None:
    length, launches = max(1, round(1e9 / rate) - 100), SLICE_NS * rate // 10**9
    with LaunchLoop("SIM", "governed", tmp_path) as loop:
        slices = loop.launch_slices(length, launches, 0, 70, vary=True)
        summary = loop.end()
    assert summary is not None
    agrees(summary, 70 * launches, sum(each.iterations for each in slices))
