# SPDX-License-Identifier: Apache-2.0
"""The probe bench, once, for a moment; and the simulated driver against what it was told to do."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from stoker.native import errors
from stoker.probes.bench import launch_loops
from stoker.probes.bench.bench_probes import MODES, STEADY, Estimate, RecordTally, Slice
from stoker.probes.bench.launch_loops import LaunchLoop, calibrate, measure
from stoker.probes.kernels.trace_summary import KernelSummary, TimeWindow, TraceSummary

DRIVERS = ("pocl", "SIM")


def test_the_simulated_driver_works_for_as_long_as_it_is_told(tmp_path: Path) -> None:
    with LaunchLoop("SIM", "full", tmp_path) as loop:
        told = [*loop.launch_slices(20_000, 50, 1, 3), *loop.launch_slices(20_000, 50, vary=True)]
        summary = loop.end()
    assert summary is not None
    (row,) = summary.kernels
    assert row.count == (6 + 50 + 150) + (6 + 50)
    assert len(told) == 4
    assert row.total_ns == sum(each.iterations for each in told)
    assert not row.estimate
    assert summary.devices[0].id == "sim-0"
    assert all(each.wall_ns >= 50 * 5_000 for each in told)


class SharedCore:
    """A loop whose launch takes 1000 ns and 2 ns an iteration, on a core that slows down."""

    def __init__(self, slow_slices: range) -> None:
        self.slow, self.measured = slow_slices, 0

    def launch_slices(
        self, iterations: int, launches: int, warm: int = 0, slices: int = 1
    ) -> list[Slice]:
        factor = 3 if self.measured in self.slow else 1
        self.measured += 1
        each = Slice(factor * launches * (1000 + 2 * iterations), 0, iterations)
        return [each] * slices


@pytest.mark.parametrize("slow", [range(0), range(1, 2), range(2, 5), range(6, 9), range(20)])
def test_a_length_fits_although_the_core_slows_down_for_a_while(slow: range) -> None:
    fit = calibrate(cast("LaunchLoop", SharedCore(slow)), 200_000)
    assert fit is not None
    iterations, took_ns = fit
    assert took_ns in (1000 + 2 * iterations, 3 * (1000 + 2 * iterations))
    assert 200_000 / 1.1 < took_ns < 200_000 * 1.1


def test_a_launch_that_is_longer_at_its_shortest_has_no_length() -> None:
    assert calibrate(cast("LaunchLoop", SharedCore(range(0))), 900) is None


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_mode_at_one_rate(
    driver: launch_loops.Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_loops, "QUADS_MAX_FACTOR", 1)
    cell = measure(5_000, driver, tmp_path, 2)
    assert cell is not None
    assert {mode: len(quads) for mode, quads in cell.quads.items()} == dict.fromkeys(MODES, 2)
    assert len(cell.quads["governed"][0].on) == 2 * STEADY["governed"][1]
    assert set(cell.records) == {"dormant", "governed", "full"}
    assert all(each.equal for each in cell.records.values())
    full = cell.records["full"]
    assert full.made >= full.launches > 0  # waits of the host are records as well
    assert cell.records["dormant"] == RecordTally()


def test_a_rate_beyond_the_driver_is_no_row(tmp_path: Path) -> None:
    assert measure(5_000_000, "pocl", tmp_path, 2) is None


def test_an_estimate_is_held_against_what_was_done(tmp_path: Path) -> None:
    found = launch_loops.estimate(20_000, tmp_path, 0.3)
    assert found is None or found.error_pct is not None
    assert found is None or found.error_pct < 100


def trace(*, count: int, total_ns: int, estimate: bool, unseen: int = 0) -> TraceSummary:
    row = KernelSummary("spin", count, total_ns, 1, 1, estimate, 10, unseen)
    return TraceSummary("governed", TimeWindow(0, 1), kernels=(row,))


def test_an_estimate_is_held_against_the_full_trace_of_equal_launches() -> None:
    full = trace(count=10, total_ns=1_000, estimate=False)
    half = trace(count=4, unseen=4, total_ns=808, estimate=True)
    assert launch_loops.against(half, full) == Estimate(1.0, 1.238)
    assert launch_loops.against(None, full) is None
    assert launch_loops.against(half, None) is None


def test_two_programs_are_not_compared_where_every_launch_was_timed() -> None:
    full = trace(count=10, total_ns=1_000, estimate=False)
    slower = trace(count=10, total_ns=1_025, estimate=False)
    assert launch_loops.against(slower, full) == Estimate(None)


def test_a_program_that_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_loops, "driver_environment", lambda _: {"OCL_ICD_VENDORS": "/none"})
    with (
        LaunchLoop("pocl", "off", tmp_path) as loop,
        pytest.raises(errors.NotSupported, match="ended"),
    ):
        loop.launch_slices(1, 1)
