# SPDX-License-Identifier: Apache-2.0
"""The newest values of one field, with their times, in a ring that never grows.

Invariant: a point is its time and its value of the same moment, whatever is written meanwhile.
"""

from __future__ import annotations

from array import array

POINTS = 600
"""A minute at 10 Hz."""


class History:
    """One writer, any number of readers; a reader sees whole points, the oldest first."""

    __slots__ = ("_next", "_times", "_values")

    def __init__(self) -> None:
        self._times = array("q", bytes(8 * POINTS))
        self._values = array("d", bytes(8 * POINTS))
        self._next = 0

    def add(self, t_ns: int, value: float) -> None:
        """The next point; times grow, or the point is one that is there already."""
        at = self._next % POINTS
        self._times[at] = t_ns
        self._values[at] = value
        self._next += 1

    @property
    def last_ns(self) -> int:
        """Time of the newest point; 0: there is none."""
        return self._times[(self._next - 1) % POINTS] if self._next else 0

    def points(self, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        """The newest `most` points after that moment."""
        while True:
            end = self._next
            first = max(0, end - POINTS)
            found = [(self._times[i % POINTS], self._values[i % POINTS]) for i in range(first, end)]
            if self._next == end:  # else the oldest may have been written over
                break
        return [point for point in found if point[0] > since_ns][-most:]

    def before(self, t_ns: int) -> tuple[int, float] | None:
        """The newest point that is not younger than that moment."""
        for i in range(self._next - 1, max(-1, self._next - POINTS - 1), -1):
            if self._times[i % POINTS] <= t_ns:
                return self._times[i % POINTS], self._values[i % POINTS]
        return None

    def spread(self, count: int) -> float:
        """Largest minus smallest of the newest `count` values."""
        end = self._next
        first = max(0, end - min(count, POINTS))
        if end - first < 2:
            return 0.0
        values = [self._values[i % POINTS] for i in range(first, end)]
        return max(values) - min(values)
