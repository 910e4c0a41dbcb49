# SPDX-License-Identifier: Apache-2.0
"""Charts by their structure: every line, bar and label is there, and lies where its number says."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stoker.native.errors import BadRequest, Refused
from stoker.scheduler.sim import plot

SVG = "{http://www.w3.org/2000/svg}"


def tree(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def words(root: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def drawn(root: ElementTree.Element, lines: int) -> list[list[tuple[float, float]]]:
    """Points of the lines themselves; the legend's samples come before them."""
    found = [
        [tuple(map(float, pair.split(","))) for pair in node.attrib["points"].split()]
        for node in root.iter(f"{SVG}polyline")
    ]
    assert len(found) == 2 * lines
    return [[(x, y) for x, y in points] for points in found[lines:]]


def test_a_line_chart_says_what_it_shows() -> None:
    text = plot.line_svg("Wait <s>", "hours", "jobs & tasks", {"a": [(0, 0), (10, 5)]})
    assert {"Wait <s>", "hours", "jobs & tasks", "a"} <= set(words(tree(text)))


def test_lines_keep_the_order_and_proportion_of_their_points() -> None:
    root = tree(plot.line_svg("t", "x", "y", {"a": [(0, 0), (5, 5), (10, 10)], "b": [(0, 10)]}))
    (x0, y0), (x1, y1), (x2, y2) = drawn(root, 2)[0]
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and x0 < x1
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.2) and y0 > y1
    assert drawn(root, 2)[1] == [(x0, y2)]


def test_the_axis_across_may_be_logarithmic() -> None:
    points = [(0.0, 9.0), (1.0, 1.0), (10.0, 2.0), (100.0, 3.0)]
    (line,) = drawn(tree(plot.line_svg("t", "x", "y", {"a": points}, log_x=True)), 1)
    assert len(line) == 3
    assert line[1][0] - line[0][0] == pytest.approx(line[2][0] - line[1][0], abs=0.2)


def test_the_axis_up_begins_at_zero_unless_that_hides_the_difference() -> None:
    flat = {"a": [(0.0, 95.0), (1.0, 96.0)], "b": [(0.0, 95.4), (1.0, 95.6)]}
    assert words(tree(plot.line_svg("t", "x", "y", flat, zero=True)))[0] == "0"
    root = tree(plot.line_svg("t", "x", "y", flat))
    assert words(root)[0] == "95" and "y (the axis begins at 95)" in words(root)
    low, high = drawn(root, 2)[0][0][1], drawn(root, 2)[0][1][1]
    assert low - high > 200, "the line takes the height that there is"
    for points in ([(0.0, 60.0), (1.0, 96.0)], [(0.0, -95.0), (1.0, 96.0)], [(0.0, 7.0)] * 2):
        said = words(tree(plot.line_svg("t", "x", "y", {"a": points})))
        assert "y" in said, "nothing is to be said of an axis that begins at 0 or below"


def test_lines_that_are_the_same_are_all_seen_and_the_legend_says_so() -> None:
    same = [(0.0, 1.0), (5.0, 3.0)]
    series = {"a": same, "b": same, "c": [(0.0, 2.0)], "d": same}
    root = tree(plot.line_svg("t", "x", "y", series))
    assert {"a", "b (as a)", "c", "d (as a)"} <= set(words(root))
    dashes = [node.attrib["stroke-dasharray"] for node in root.iter(f"{SVG}polyline")]
    assert dashes == ["none", "12 12", "none", "8 16"] * 2, "in the legend as in the chart"


@pytest.mark.parametrize("value", [0.0, 7.0, -3.0, 1e-12, 1e15])
def test_equal_values_make_a_chart_too(value: float) -> None:
    (line,) = drawn(tree(plot.line_svg("t", "x", "y", {"a": [(value, value)] * 2})), 1)
    assert all(map(math.isfinite, line[0]))


def test_a_long_line_is_thinned_and_keeps_its_ends() -> None:
    points = [(float(i), float(i % 7)) for i in range(12_345)]
    (line,) = drawn(tree(plot.line_svg("t", "x", "y", {"a": points})), 1)
    assert len(line) == plot.POINTS_MAX
    (short,) = drawn(tree(plot.line_svg("t", "x", "y", {"a": [points[0], points[-1]]})), 1)
    assert (line[0][0], line[-1][0]) == (short[0][0], short[1][0])


def test_a_bar_is_as_high_as_its_number() -> None:
    groups = {"philly": {"fifo": 10.0, "srtf": 5.0}, "gavel": {"fifo": 2.0}}
    root = tree(plot.bar_svg("t", "hours", groups))
    bars = [node for node in root.iter(f"{SVG}rect") if node.attrib["class"] != "ground"]
    heights = [float(node.attrib["height"]) for node in bars]
    assert len(heights) == 3
    assert heights[0] == pytest.approx(2 * heights[1], abs=0.2)
    assert heights[0] == pytest.approx(5 * heights[2], abs=0.2)
    assert {"philly", "gavel", "fifo", "srtf", "10", "5", "2"} <= set(words(root))


def test_light_and_dark_ground_are_both_told() -> None:
    text = plot.line_svg("t", "x", "y", {"a": [(0, 1)]})
    assert "prefers-color-scheme:dark" in text and text.count(".ground{") == 2


def test_many_names_take_more_rows_and_stay_inside() -> None:
    names = [f"a policy with a long name {i}" for i in range(plot.SERIES_MAX)]
    series = {name: [(0.0, float(i))] for i, name in enumerate(names)}
    root = tree(plot.line_svg("t", "x", "y", series))
    assert set(series) <= set(words(root))
    ends = [x for line in drawn(root, len(series)) for x, _ in line]
    assert max(ends) <= plot.WIDTH


@pytest.mark.parametrize(
    "series",
    [{}, {"a": []}, {"a": [(0.0, math.nan)]}, {"a": [(math.inf, 0.0)]},
     {str(i): [(0.0, 0.0)] for i in range(plot.SERIES_MAX + 1)}],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(series: dict[str, list[tuple[float, float]]]) -> None:
    with pytest.raises(BadRequest):
        plot.line_svg("t", "x", "y", series)


def test_too_many_groups_are_refused() -> None:
    groups = {str(i): {"a": 1.0} for i in range(plot.GROUPS_MAX + 1)}
    with pytest.raises(BadRequest, match="at most 40 groups"):
        plot.bar_svg("t", "y", groups)


def test_charts_are_written_as_they_are(tmp_path: Path) -> None:
    series = {"a": [(0.0, 1.0), (1.0, 2.0)]}
    plot.line_chart(tmp_path / "a.svg", "t", "x", "y", series)
    assert (tmp_path / "a.svg").read_text() == plot.line_svg("t", "x", "y", series)
    plot.bar_chart(tmp_path / "b.svg", "t", "y", {"g": {"a": 1.0}})
    assert (tmp_path / "b.svg").read_text() == plot.bar_svg("t", "y", {"g": {"a": 1.0}})


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be written"):
        plot.bar_chart(tmp_path / "no" / "b.svg", "t", "y", {"g": {"a": 1.0}})
