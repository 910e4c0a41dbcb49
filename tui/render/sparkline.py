# SPDX-License-Identifier: Apache-2.0
"""A series of values as one line of blocks, with its axes in words.

Pure. A missing value is a gap, never a low bar, and a constant series is a line in the middle, not
a full block.
"""

from __future__ import annotations

from collections.abc import Sequence

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-=+*#@"
"""Marks for terminals without block characters."""
GAP = " "

Point = tuple[int, float]
"""(ns, value)."""


def buckets(points: Sequence[Point], from_ns: int, to_ns: int, width: int) -> list[float | None]:
    """The mean of the points in each of `width` equal parts of the time, None for an empty part."""
    sums = [0.0] * width
    counts = [0] * width
    span = max(to_ns - from_ns, 1)
    for t_ns, value in points:
        place = (t_ns - from_ns) * width // span
        if 0 <= place < width:
            sums[place] += value
            counts[place] += 1
    return [s / n if n else None for s, n in zip(sums, counts, strict=True)]


def line(values: Sequence[float | None], low: float, high: float, *, unicode: bool = True) -> str:
    """One character per value, scaled between `low` and `high`."""
    marks = BLOCKS if unicode else PLAIN
    made = []
    for value in values:
        if value is None:
            made.append(GAP)
        elif high <= low:
            made.append(marks[len(marks) // 2 - 1])
        else:
            share = min(max((value - low) / (high - low), 0.0), 1.0)
            made.append(marks[min(int(share * len(marks)), len(marks) - 1)])
    return "".join(made)


def bounds(
    values: Sequence[float | None], floor: float | None, top: float | None
) -> tuple[float, float] | None:
    """The ends of the axis: the given ones, widened or replaced by the values; None without any."""
    seen = [value for value in values if value is not None]
    if not seen:
        return None
    low = min(seen) if floor is None else min(floor, *seen)
    high = max(seen) if top is None else max(top, *seen)
    return low, high
