# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG text: lines over numbers, bars over names; for light and dark backgrounds.

Pure but for the last step, the write; the same figures give the same bytes. Colours come from one
style sheet inside the file, so no viewer needs anything else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest, Refused

Series = Mapping[str, Sequence[tuple[float, float]]]
"""The points (x, y) of each line by name, in the order in which they are joined."""
Bars = Mapping[str, Mapping[str, float]]
"""The heights of bars by group and by bar."""

SERIES_MAX: Final = 16
POINTS_MAX: Final = 1_000
"""The most points of one line in the file; a longer one is thinned evenly, its ends kept."""
GROUPS_MAX: Final = 40

WIDTH, HEIGHT = 860, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 20, 44, 56
_LIGHT = ("#0b62a4", "#c4500a", "#1a7f4b", "#a13d87", "#8a6a00", "#127c8a", "#5b51c9", "#5f6672")
_DARK = ("#6db3f2", "#ff9d5c", "#5fd394", "#ee9bd5", "#e3c14f", "#57cfe0", "#b0a8ff", "#b4bcc8")
_DASHES = ("none", "6 3")
_DASHES_ABOVE: Mapping[int, str] = {1: "12 12", 2: "8 16"}
"""The dashes of a line by the number of lines that are the same and below it, so that each shows
in the gaps of the next; a fourth one is in the legend alone."""
SPREAD_LEAST: Final = 0.3
"""The least part of the highest value by which values differ on an axis that begins at 0."""


class _Axis(NamedTuple):
    """A range of numbers mapped to a range of pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (map(math.log10, (self.low, self.high, value)) if self.log
                            else (self.low, self.high, value))  # fmt: skip
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [10.0**power for power in powers]
        step = _step(self.high - self.low)
        count = round((self.high - self.low) / step)
        return [self.low + step * i for i in range(count + 1)]


def line_chart(
    path: Path,
    title: str,
    x_label: str,
    y_label: str,
    series: Series,
    *,
    log_x: bool = False,
    zero: bool | None = None,
) -> None:
    """Write a chart of lines (`line_svg`); Refused if the file cannot be written."""
    _write(path, line_svg(title, x_label, y_label, series, log_x=log_x, zero=zero))


def bar_chart(path: Path, title: str, y_label: str, groups: Bars) -> None:
    """Write a chart of bars (`bar_svg`); Refused if the file cannot be written."""
    _write(path, bar_svg(title, y_label, groups))


def line_svg(
    title: str,
    x_label: str,
    y_label: str,
    series: Series,
    *,
    log_x: bool = False,
    zero: bool | None = None,
) -> str:
    """Return the SVG text of a chart of lines.

    `log_x` leaves out points whose x is not above 0; `zero` has the y axis begin at 0: by default
    unless all lines would lie in the upper part of the chart, where nobody could tell them apart.
    An axis that begins elsewhere says so. Lines that are the same are drawn in turns, and the
    legend names which one is below. Raises BadRequest where there is no point, one that is no
    number, or more than SERIES_MAX lines.
    """
    lines = {
        name: _thinned([(x, y) for x, y in points if x > 0 or not log_x])
        for name, points in series.items()
    }
    every = [point for points in lines.values() for point in points]
    _check(list(lines), [number for point in every for number in point])
    xs, ys = [x for x, _ in every], [y for _, y in every]
    below = _below(lines)
    names = [name + (f" (as {lower[0]})" if lower else "") for name, lower in below.items()]
    dashes = [_DASHES_ABOVE.get(len(lower), "") for lower in below.values()]
    legend = _legend(names, dashes)
    top = _TOP + 18 * len(legend)
    across = _Axis(*_bounds(xs, log=log_x), _LEFT, WIDTH - _RIGHT, log_x)
    zero = _tells_from_zero(ys) if zero is None else zero
    up = _Axis(*_bounds([*ys, 0.0] if zero else ys), HEIGHT - _BOTTOM, top)
    if up.low > 0:
        y_label = f"{y_label} (the axis begins at {up.low:.6g})"
    body = [*_grid(up), *_ticks_across(across), *_labels(title, x_label, y_label)]
    body += [line for row in legend for line in row]
    for number, points in enumerate(lines.values()):
        at = [(across.at(x), up.at(y)) for x, y in points]
        body.append(_path(number, at, dashes[number]))
    return _document(title, body)


def _below(lines: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, list[str]]:
    """Return for each line the earlier ones with the same points, over which it is drawn."""
    found: dict[str, list[str]] = {}
    seen: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for name, points in lines.items():
        same = seen.setdefault(tuple(points), [])
        found[name] = list(same)
        same.append(name)
    return found


def _tells_from_zero(ys: Sequence[float]) -> bool:
    """Return True if an axis from 0 leaves the lines enough room to differ in."""
    low, high = min(ys), max(ys)
    return low <= 0 or low == high or high - low >= SPREAD_LEAST * high


def bar_svg(title: str, y_label: str, groups: Bars) -> str:
    """Return the SVG text of bars in groups, each bar with its figure above it.

    Raises BadRequest where there is no bar, one that is no number, or more than GROUPS_MAX groups
    or SERIES_MAX names.
    """
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    values = [value for bars in groups.values() for value in bars.values()]
    _check(names, values)
    if len(groups) > GROUPS_MAX:
        raise BadRequest(f"a chart has at most {GROUPS_MAX} groups of bars, not {len(groups)}")
    legend = _legend(names)
    up = _Axis(*_bounds([*values, 0.0]), HEIGHT - _BOTTOM, _TOP + 18 * len(legend))
    body = [*_grid(up), *_labels(title, "", y_label), *(line for row in legend for line in row)]
    slot = (WIDTH - _RIGHT - _LEFT) / len(groups)
    for place, (group, bars) in enumerate(groups.items()):
        left = _LEFT + slot * place
        body.append(_text(left + slot / 2, HEIGHT - _BOTTOM + 18, group, "middle"))
        body += _bars(left + slot * 0.1, slot * 0.8 / len(names), up, names, bars)
    return _document(title, body)


def _bars(
    left: float, width: float, up: _Axis, names: list[str], bars: Mapping[str, float]
) -> list[str]:
    made = []
    for number, name in enumerate(names):
        if name not in bars:
            continue
        x, tip, foot = left + width * number, up.at(bars[name]), up.at(0.0)
        made.append(
            f'<rect class="f{number % len(_LIGHT)}" x="{x:.1f}" y="{min(tip, foot):.1f}" '
            f'width="{width * 0.92:.1f}" height="{abs(foot - tip):.1f}">'
            f"<title>{escape(name)}: {bars[name]:.6g}</title></rect>"
        )
        if width > 24:
            figure = f"{bars[name]:.4g}"
            made.append(_text(x + width * 0.46, min(tip, foot) - 4, figure, "middle", "small"))
    return made


def _check(names: list[str], numbers: list[float]) -> None:
    if not numbers:
        raise BadRequest("there is nothing to draw")
    if len(names) > SERIES_MAX:
        raise BadRequest(f"a chart has at most {SERIES_MAX} lines, not {len(names)}")
    if not all(map(math.isfinite, numbers)):
        raise BadRequest("a chart's figures must be finite numbers")


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(points) <= POINTS_MAX:
        return list(points)
    last = len(points) - 1
    return [points[round(i * last / (POINTS_MAX - 1))] for i in range(POINTS_MAX)]


def _bounds(values: Sequence[float], *, log: bool = False) -> tuple[float, float]:
    """Return two different round numbers that enclose all values."""
    low, high = min(values), max(values)
    if log:
        low, high = 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
        return low, high if high > low else low * 10
    if low == high:
        low, high = (low - 1, high + 1) if low else (0.0, 1.0)
    step = _step(high - low)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _step(span: float) -> float:
    """Return 1, 2 or 5 times a power of ten, so that a span has about five steps."""
    power = 10.0 ** math.floor(math.log10(span / 5))
    return next(power * times for times in (1, 2, 5, 10) if power * times * 5 >= span * 0.999)


def _grid(up: _Axis) -> list[str]:
    made = []
    for tick in up.ticks():
        y = up.at(tick)
        made.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}"/>')
        made.append(_text(_LEFT - 8, y + 4, f"{tick:.6g}", "end", "small"))
    return made


def _ticks_across(across: _Axis) -> list[str]:
    made = []
    for tick in across.ticks():
        x = across.at(tick)
        made.append(f'<path class="axis" d="M{x:.1f} {HEIGHT - _BOTTOM}v5"/>')
        made.append(_text(x, HEIGHT - _BOTTOM + 18, f"{tick:.6g}", "middle", "small"))
    return made


def _labels(title: str, x_label: str, y_label: str) -> list[str]:
    middle = (HEIGHT - _BOTTOM + _TOP) / 2
    return [
        f'<path class="axis" d="M{_LEFT} {HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>',
        _text(_LEFT, 24, title, "start", "title"),
        _text((WIDTH + _LEFT - _RIGHT) / 2, HEIGHT - 14, x_label, "middle"),
        f'<g transform="translate(18 {middle:.0f}) rotate(-90)">'
        + _text(0, 0, y_label, "middle")
        + "</g>",
    ]


def _legend(names: list[str], dashes: Sequence[str] = ()) -> list[list[str]]:
    """Return the rows of the legend, one list of names each."""
    rows: list[list[str]] = [[]]
    x = float(_LEFT)
    for number, name in enumerate(names):
        width = 34 + 7.2 * len(name)
        if x + width > WIDTH - _RIGHT and rows[-1]:
            rows.append([])
            x = float(_LEFT)
        y = 40 + 18 * (len(rows) - 1)
        dash = dashes[number] if dashes else ""
        rows[-1].append(_path(number, [(x, y - 4.0), (x + 20, y - 4.0)], dash))
        rows[-1].append(_text(x + 26, y, name, "start", "small"))
        x += width
    return rows


def _path(number: int, points: Sequence[tuple[float, float]], dash: str = "") -> str:
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = dash or _DASHES[number // len(_LIGHT) % len(_DASHES)]
    return f'<polyline class="s{number % len(_LIGHT)}" stroke-dasharray="{dash}" points="{at}"/>'


def _text(x: float, y: float, words: str, anchor: str, style: str = "") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def _style() -> str:
    def colours(ground: str, ink: str, faint: str, palette: tuple[str, ...]) -> str:
        lines = [f".s{i}{{stroke:{c}}}.f{i}{{fill:{c}}}" for i, c in enumerate(palette)]
        return (
            f".ground{{fill:{ground}}}text{{fill:{ink}}}.axis{{stroke:{ink}}}"
            f".grid{{stroke:{faint}}}" + "".join(lines)
        )

    return (
        "text{font:13px system-ui,sans-serif}.small{font-size:11px}.title{font-size:15px;"
        "font-weight:600}polyline{fill:none;stroke-width:2;stroke-linejoin:round}"
        + colours("#ffffff", "#1d2330", "#dfe3ea", _LIGHT)
        + "@media (prefers-color-scheme:dark){"
        + colours("#14181f", "#e6e9ef", "#2f3642", _DARK)
        + "}"
    )


def _document(title: str, body: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img">'
    )
    ground = f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>'
    parts = [head, f"<title>{escape(title)}</title>", f"<style>{_style()}</style>", ground]
    return "\n".join([*parts, *body, "</svg>"]) + "\n"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refused(f"the chart cannot be written to {path}: {error.strerror}") from error
