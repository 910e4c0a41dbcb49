# SPDX-License-Identifier: Apache-2.0
"""Totals from samples: exact when all were timed, else unbiased with an honest interval."""

from __future__ import annotations

import random

import pytest

from stoker.native import _trace

WHOLE, DRAWN = 0, 1
"""Kinds of samples, enum sk_trace_stat_draw."""


def sampled(values: list[int], shifts: list[int], chance: random.Random) -> _trace.Stat:
    """The layer's sampling: one launch of each block of 2^shift stands for its block."""
    stat, at = _trace.Stat(), 0
    for shift in shifts:
        block = values[at : at + (1 << shift)]
        pick = chance.randrange(1 << shift)
        if pick < len(block):
            stat.add(block[pick], shift, WHOLE)
        at += 1 << shift
    return stat


def test_all_timed_is_exact() -> None:
    stat = _trace.Stat()
    for value in (5, 7, 1_000_000_007):
        stat.add(value, 0, WHOLE)
    assert stat.total(3) == (3, 1_000_000_019, 0, False)


def test_none_timed_has_no_time() -> None:
    assert _trace.Stat().total(9) == (0, 0, 0, True)


def test_one_sample_has_a_wide_interval_of_its_length() -> None:
    stat = _trace.Stat()
    stat.add(1000, 3, WHOLE)
    timed, total, error, estimate = stat.total(8)
    assert (timed, total, estimate) == (1, 8000, True)
    assert error >= 2 * 1000


def test_equal_lengths_leave_almost_no_doubt() -> None:
    stat = _trace.Stat()
    for _ in range(1000):
        stat.add(500, 4, WHOLE)
    timed, total, error, estimate = stat.total(16_000)
    assert (timed, total, estimate) == (1000, 8_000_000, True)
    assert error < total // 100


def test_squares_do_not_overflow() -> None:
    stat = _trace.Stat()
    for value in (1 << 39, 3 << 38):
        for _ in range(8):
            stat.add(value, 15, WHOLE)
    _, total, error, _ = stat.total(16 << 15)
    assert total == pytest.approx((16 << 15) * 1.25 * (1 << 39), rel=1e-9)
    assert total * 0.05 < error < total


@pytest.mark.parametrize("shape", ["steady", "skewed", "trend", "two-sided"])
def test_the_interval_holds_what_it_says(shape: str) -> None:
    chance = random.Random(shape)
    draw = {
        "steady": lambda i: chance.randrange(900, 1100),
        "skewed": lambda i: int(chance.lognormvariate(7, 1.5)),
        "trend": lambda i: 100 + i,
        "two-sided": lambda i: chance.choice((500, 50_000)),
    }[shape]
    values = [draw(i) for i in range(6000)]
    shifts = [0] * 100 + [1] * 50 + [2] * 50 + [4] * 345
    assert sum(1 << shift for shift in shifts) < 6000
    hits, total = 0, 0
    for _ in range(300):
        _, estimate, error, _ = sampled(values, shifts, chance).total(6000)
        hits += abs(estimate - sum(values)) <= error
        total += estimate
    assert hits >= 280, "the 95 % interval misses too often"
    if shape != "trend":  # the end of a trend that no block covers yet is extrapolated
        assert total / 300 == pytest.approx(sum(values), rel=0.03), "the estimate is biased"


def test_counts_that_a_segment_only_claims_have_a_bounded_error() -> None:
    stat = _trace.Stat()
    for _ in range(10):
        stat.add(1000, 0, WHOLE)
    assert stat.total(1) == (10, 1000, 0, True)
    stat.add((1 << 62) - 1, 0, WHOLE)
    assert stat.total(1 << 62)[2] == 1 << 63


def test_launches_of_whole_periods_stand_for_themselves_alone() -> None:
    """A kernel is called a thousand times a second for 1 ms each, and all of these are timed; then
    a million times for 1 us each, of which drawn windows time one in a hundred."""
    stat = _trace.Stat()
    for _ in range(1000):
        stat.add(1_000_000, 0, WHOLE)
    for _ in range(10_000):
        stat.add(1_000, 0, DRAWN)
    timed, total_ns, _, estimate = stat.total(1_001_000)
    assert (timed, estimate) == (11_000, True)
    assert total_ns == 1000 * 1_000_000 + 1_000_000 * 1_000


def test_long_blocks_of_whole_periods_do_not_widen_the_estimate_of_windows() -> None:
    chance, few, many = random.Random(3), _trace.Stat(), _trace.Stat()
    for stat, blocks in ((few, 0), (many, 100)):
        for _ in range(blocks):
            stat.add(chance.randrange(200, 3600), 6, WHOLE)
        for _ in range(50_000):
            stat.add(chance.randrange(200, 3600), 0, DRAWN)
    errors = [stat.total(8_000_000)[2] / stat.total(8_000_000)[1] for stat in (few, many)]
    assert errors[1] == pytest.approx(errors[0], rel=0.05)


def test_samples_of_no_window_stand_for_all_where_none_was_drawn() -> None:
    stat = _trace.Stat()
    for _ in range(10):
        stat.add(1000, 2, WHOLE)
    assert stat.total(100)[1] == 100_000
