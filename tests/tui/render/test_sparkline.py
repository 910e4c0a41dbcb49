# SPDX-License-Identifier: Apache-2.0
"""Series as lines of blocks: gaps stay gaps, a flat series is no full bar, axes span all values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.tui.render import sparkline


def test_points_fall_into_their_part_of_the_time() -> None:
    points = [(0, 1.0), (10, 3.0), (19, 5.0), (30, 9.0), (45, 7.0)]
    assert sparkline.buckets(points, 0, 40, 4) == [1.0, 4.0, None, 9.0]
    assert sparkline.buckets([], 0, 40, 3) == [None, None, None]


def test_a_gap_is_a_gap_and_a_flat_series_is_in_the_middle() -> None:
    assert sparkline.line([None, 5.0, None], 5.0, 5.0) == " ▄ "
    assert sparkline.line([0.0, 50.0, 100.0], 0, 100) == "▁▅█"
    assert sparkline.line([0.0, 100.0], 0, 100, unicode=False) == "_@"
    assert sparkline.line([-9.0, 999.0], 0, 100) == "▁█"


def test_an_axis_holds_what_is_seen_and_what_is_known() -> None:
    assert sparkline.bounds([3.0, None, 9.0], 0.0, 7.0) == (0.0, 9.0)
    assert sparkline.bounds([3.0, 9.0], None, None) == (3.0, 9.0)
    assert sparkline.bounds([None], 0.0, 1.0) is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9))), st.floats(0, 1e9), st.floats(0, 1e9))
def test_there_is_one_mark_for_each_value(
    values: list[float | None], low: float, high: float
) -> None:
    line = sparkline.line(values, low, high)
    assert len(line) == len(values)
    assert [mark == " " for mark in line] == [value is None for value in values]
