# SPDX-License-Identifier: Apache-2.0
"""Totals from samples: exact when all were timed, else unbiased with an honest interval."""

from __future__ import annotations

import random

import pytest

from stoker.native import _trace


def sampled(values: list[int], shifts: list[int], chance: random.Random) -> _trace.Stat:
    """The layer's sampling: one launch of each block of 2^shift stands for its block."""
    stat, at = _trace.Stat(), 0
    for shift in shifts:
        block = values[at : at + (1 << shift)]
        pick = chance.randrange(1 << shift)
        if pick < len(block):
            stat.add(block[pick], shift)
        at += 1 << shift
    return stat


def test_all_timed_is_exact() -> None:
    stat = _trace.Stat()
    for value in (5, 7, 1_000_000_007):
        stat.add(value, 0)
    assert stat.total(3) == (3, 1_000_000_019, 0, False)


def test_none_timed_has_no_time() -> None:
    assert _trace.Stat().total(9) == (0, 0, 0, True)


def test_one_sample_has_a_wide_interval_of_its_length() -> None:
    stat = _trace.Stat()
    stat.add(1000, 3)
    timed, total, error, estimate = stat.total(8)
    assert (timed, total, estimate) == (1, 8000, True)
    assert error >= 2 * 1000


def test_equal_lengths_leave_almost_no_doubt() -> None:
    stat = _trace.Stat()
    for _ in range(1000):
        stat.add(500, 4)
    timed, total, error, estimate = stat.total(16_000)
    assert (timed, total, estimate) == (1000, 8_000_000, True)
    assert error < total // 100


def test_squares_do_not_overflow() -> None:
    stat = _trace.Stat()
    for value in (1 << 39, 3 << 38):
        for _ in range(8):
            stat.add(value, 15)
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
        stat.add(1000, 0)
    assert stat.total(1) == (10, 1000, 0, True)
    stat.add((1 << 62) - 1, 0)
    assert stat.total(1 << 62)[2] == 1 << 63
