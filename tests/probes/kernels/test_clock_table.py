# SPDX-License-Identifier: Apache-2.0
"""The clock table: the line through readings of clocks that run in known ways, and real clocks."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.native import _clocks
from stoker.probes.kernels.clock_table import ClockRow, Clocks, clock_table
from stoker.probes.kernels.job_trace import ClockAlignment as DeviceClock

START = 10**15
STEP = 100_000_000


def readings(
    offset: int, ppb: int, *, noise: int = 0, count: int = 40, seed: int = 1
) -> _clocks.Fit:
    """A clock that is `offset` ns behind and loses `ppb`, read with an error of up to `noise`."""
    fit, chance = _clocks.Fit(), random.Random(seed)
    for i in range(count):
        at = START + i * STEP
        clock = at - offset - i * STEP * ppb // 10**9
        fit.add(at + chance.randint(-noise, noise), clock, noise)
    return fit


def per_second_of_its_own(ppb: int) -> float:
    return ppb / (1 - ppb / 10**9)


def test_a_clock_that_stands_still_to_ours_has_no_drift_and_no_error() -> None:
    row = readings(123_456, 0).row()
    assert row is not None
    assert row[:3] == (123_456, 0, 0)


@given(st.integers(-(10**18), 10**15), st.integers(-400_000, 400_000), st.integers(0, 500))
def test_offset_and_drift_are_found_within_the_stated_error(
    offset: int, ppb: int, noise: int
) -> None:
    row = readings(offset, ppb, noise=noise).row()
    assert row is not None
    found, drift, error, refreshed, pairs, steps = row
    truth = offset + 39 * STEP * ppb // 10**9
    # A double holds what a drift of 400 ppm does to 4 s, and a line is rounded to a nanosecond.
    assert abs(found - truth) <= error + 2
    assert drift is not None and abs(drift - per_second_of_its_own(ppb)) <= noise + 2
    assert error <= 3 * noise + 4
    assert (pairs, steps) == (40, 0)
    assert abs(refreshed - (START + 39 * STEP)) <= noise


def test_a_reading_is_placed_with_the_drift_since() -> None:
    fit = readings(1000, 100_000)
    at = START + 50 * STEP
    clock = at - 1000 - 50 * STEP * 100_000 // 10**9
    placed = fit.place(clock)
    assert placed is not None and abs(placed - at) <= 2


def test_before_half_a_second_no_drift_is_claimed() -> None:
    fit = _clocks.Fit()
    for i in range(5):
        fit.add(START + i * 1000, START + i * 1000 - 7 - i * 5, 10)
    row = fit.row()
    assert row is not None and row[1] is None
    assert row[0] == 27 and row[2] >= 10 + 20  # the newest, and how far the others are from it


def test_a_clock_that_was_set_starts_a_new_window_and_is_counted() -> None:
    fit = readings(0, 0, count=10)
    at = START + 11 * STEP
    assert not fit.add(at, at - 5_000_000_000, 20)
    row = fit.row()
    assert row is not None
    assert (row[0], row[1], row[4], row[5]) == (5_000_000_000, None, 1, 1)


def test_a_clock_that_is_slewed_as_far_as_adjtimex_can_was_not_set() -> None:
    assert readings(0, 500_000).row()[5] == 0  # type: ignore[index]
    assert readings(0, -500_000).row()[5] == 0  # type: ignore[index]


def test_the_window_forgets_and_a_clock_that_bends_has_a_larger_error() -> None:
    fit = readings(0, 0, count=64)
    for i in range(64, 96):
        at = START + i * STEP
        fit.add(at, at - (i - 63) * STEP * 50_000 // 10**9, 0)
    bent = fit.row()
    for i in range(96, 160):
        at = START + i * STEP
        fit.add(at, at - (i - 63) * STEP * 50_000 // 10**9, 0)
    straight = fit.row()
    assert bent is not None and straight is not None
    assert bent[2] > 20_000
    assert straight[1] is not None and abs(straight[1] - per_second_of_its_own(50_000)) <= 1
    assert straight[2] <= 2
    assert bent[4] == straight[4] == 64


def test_nothing_read_is_no_row() -> None:
    assert _clocks.Fit().row() is None
    assert _clocks.Fit().place(5) is None


def by_name(rows: tuple[ClockRow, ...]) -> dict[str, ClockRow]:
    return {row.clock: row for row in rows}


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("REALTIME", time.CLOCK_REALTIME),
        ("MONOTONIC_RAW", time.CLOCK_MONOTONIC_RAW),
        ("BOOTTIME", time.CLOCK_BOOTTIME),
    ],
)
def test_the_clocks_of_the_system_are_where_the_table_says(name: str, id: int) -> None:
    row = by_name(clock_table())[name]
    before = time.monotonic_ns()
    other = time.clock_gettime_ns(id)
    after = time.monotonic_ns()
    assert row.offset_ns is not None and row.error_ns is not None
    # A drift of 1 ppm over the second that a row may be old, besides its own error.
    slack = row.error_ns + 1_000
    assert before - slack <= other + row.offset_ns <= after + slack


def test_the_counter_of_the_processor_is_read_or_said_to_be_unusable() -> None:
    row = clock_table()[3]
    if row.offset_ns is None:
        assert "invariant" in row.method or "still" in row.method
        assert row.error_ns is row.refreshed_ns is None
    else:
        assert row.error_ns is not None and row.refreshed_ns is not None
        assert " Hz, " in row.method


def test_a_window_of_readings_gives_a_drift() -> None:
    clocks = Clocks()
    for _ in range(8):
        clocks.refresh()
        time.sleep(0.1)
    raw = by_name(clocks.rows())["MONOTONIC_RAW"]
    assert raw.drift_ppb is not None and abs(raw.drift_ppb) < 1_000_000
    assert raw.steps == 0


def test_devices_follow_with_what_their_tracers_say() -> None:
    rows = clock_table([("GPU-1", DeviceClock("CLOCK_BOOTTIME", -5, 7, 40))])
    assert rows[-1] == ClockRow(
        "GPU-1", -5, 7, 40, None, "by the tracer in the job: CLOCK_BOOTTIME"
    )
