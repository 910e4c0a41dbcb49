# SPDX-License-Identifier: Apache-2.0
"""The duration histogram: exact bounds, bounded error, merging, OTLP's scale."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.native import _trace

RATIO = 2 ** (1 / 32)
FIRST, END = 4 * 32, 48 * 32

durations = st.one_of(
    st.integers(0, 1 << 10),
    st.integers(0, 1 << 47),
    st.integers(4, 47).map(lambda bit: 1 << bit),
    st.integers(4, 47).map(lambda bit: (1 << bit) + 1),
    st.integers(4, 47).map(lambda bit: (1 << bit) - 1),
)


def at_most(value: int, index: int) -> bool:
    """value <= 2^(index/32), decided in integers: both sides to the 32nd power."""
    return value**32 <= 2**index


@given(st.integers(1, (1 << 62) - 1))
def test_a_value_lies_in_the_bucket_that_otlp_gives_it(value: int) -> None:
    index = _trace.Histogram.index(value)
    assert at_most(value, index + 1)
    assert index < 0 or not at_most(value, index)


def test_powers_of_two_are_upper_bounds() -> None:
    for bit in range(62):
        assert _trace.Histogram.index(1 << bit) == 32 * bit - 1
        if bit:
            assert _trace.Histogram.index((1 << bit) + 1) >= 32 * bit


def test_lower_bounds_are_floors() -> None:
    for index in range(FIRST, END):
        low = _trace.Histogram.lower(index)
        assert at_most(low, index)
        assert not at_most(low + 1, index)


@given(st.lists(st.tuples(durations, st.integers(1, 1 << 15)), min_size=1, max_size=60))
def test_totals_are_exact_and_merging_is_adding(values: list[tuple[int, int]]) -> None:
    whole, left, right = (_trace.Histogram() for _ in range(3))
    for i, (value, weight) in enumerate(values):
        whole.add(value, weight)
        (left if i % 2 else right).add(value, weight)
    left.merge(right)
    for each in (whole, left):
        count, total, low, high, zero, above = each.totals()
        assert count == sum(weight for _, weight in values)
        assert total == sum(value * weight for value, weight in values)
        assert (low, high) == (min(v for v, _ in values), max(v for v, _ in values))
        assert zero == sum(weight for value, weight in values if value <= 16)
        assert above == 0
        assert zero + sum(each.buckets().values()) == count
    assert whole.buckets() == left.buckets()


@given(st.lists(durations, min_size=1, max_size=80), st.integers(1, 1000))
def test_a_quantile_is_within_the_bucket_error(values: list[int], permille: int) -> None:
    histogram = _trace.Histogram()
    for value in values:
        histogram.add(value)
    rank = math.ceil(Fraction(len(values) * permille, 1000))
    exact = sorted(values)[rank - 1]
    found = histogram.quantile(permille)
    assert found is not None
    if exact <= 16:
        assert min(values) <= found <= 16
    else:
        assert abs(found - exact) <= exact * (RATIO - 1) / 2 * 1.02 + 1


def test_weights_count_in_quantiles() -> None:
    histogram = _trace.Histogram()
    histogram.add(1000, 99)
    histogram.add(1_000_000)
    assert histogram.quantile(990) == pytest.approx(1000, rel=0.011)
    assert histogram.quantile(1000) == pytest.approx(1_000_000, rel=0.011)


def test_empty_has_no_quantile() -> None:
    assert _trace.Histogram().quantile(500) is None


def test_what_is_too_long_is_counted() -> None:
    histogram = _trace.Histogram()
    histogram.add((1 << 48) + 1)
    histogram.add(1 << 48)
    assert histogram.totals()[5] == 1
    assert histogram.buckets() == {END - 1: 2}
