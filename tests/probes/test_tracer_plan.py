# SPDX-License-Identifier: Apache-2.0
"""Plans of governed tracers: the cost of windows, their places, and the totals that come of them.

The C program tests/probes/tracer/plan.c does all of it in simulated time.
"""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROBES = HERE.parents[1] / "probes"
NATIVE = HERE.parents[1] / "native"
BUDGET = 0.01
EXACT = 0.001
"""Part of the truth by which an estimate may be off beside its stated error: launches in which a
window begins or ends, and those that still cost something after it."""


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("windows") / "windows"
    statistics = NATIVE / "trace/statistics"
    estimator = [statistics / f"{name}.c" for name in ("windows", "stat", "histogram")]
    sources = [HERE / "tracer" / "plan.c", PROBES / "tracer" / "plan.c", *estimator]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"]
    argv = ["cc", *flags, f"-I{PROBES}", f"-I{NATIVE}", "-o", program, *sources, "-lm"]
    subprocess.run(argv, check=True)
    return program


def test_plans_against_an_oracle(windows: Path) -> None:
    """For any costs, limits and budget each period has one window of a fair length, at any place
    with equal chance; the budget is kept on average and used, and a period is blind only where
    counting is over budget."""
    done = subprocess.run([windows, "plans"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("job", ["host", "device", "slow", "fast", "rhythm", "noisy"])
@pytest.mark.parametrize("tracer", ["opencl", "cupti", "rocprofiler", "levelzero"])
def test_estimates_are_without_bias_and_within_their_error(
    windows: Path, tracer: str, job: str
) -> None:
    """Over 20 seeds the mean error is 0 within two standard errors, single errors are within the
    stated ones (95 %), and looking costs no more than the budget."""
    out = subprocess.run([windows, tracer, job], check=True, capture_output=True, text=True).stdout
    rows = [tuple(map(float, line.split())) for line in out.splitlines()]
    assert len(rows) == 20
    errors = [error for error, _, _ in rows]
    standard_error = statistics.stdev(errors) / len(errors) ** 0.5
    assert abs(statistics.fmean(errors)) <= max(2 * standard_error, EXACT)
    assert sum(abs(error) <= stated + EXACT for error, stated, _ in rows) >= 18
    assert statistics.fmean(cost for _, _, cost in rows) <= 1.02 * BUDGET


@pytest.mark.parametrize("tracer", ["opencl", "cupti", "rocprofiler", "levelzero"])
def test_the_error_of_a_short_and_unsteady_job_is_not_told_too_small(
    windows: Path, tracer: str
) -> None:
    """Few windows of a job whose rate changes thirtyfold may show a tenth of its launches, so an
    error may be several times the estimate, and it is not cut at the whole of it. Jobs of which no
    window was timed have no estimate and are left out."""
    out = subprocess.run(
        [windows, tracer, "short"], check=True, capture_output=True, text=True
    ).stdout
    every = [tuple(map(float, line.split())) for line in out.splitlines()]
    rows = [row for row in every if row[1] > 0]
    assert len(rows) >= 100
    inside = sum(abs(error) <= stated + EXACT for error, stated, _ in rows)
    assert inside >= 0.9 * len(rows)
