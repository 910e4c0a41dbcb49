# SPDX-License-Identifier: Apache-2.0
"""The newest values of one field, with their times, in a ring of fixed size.

Invariant: a reader never sees the time of one point with the value of another.
"""

from __future__ import annotations

from array import array

POINTS = 600
"""Size of the ring: a minute at 10 Hz."""


class History:
    """Ring of points for one writer and any number of readers."""

    __slots__ = ("_next", "_times", "_values")

    def __init__(self) -> None:
        self._times = array("q", bytes(8 * POINTS))
        self._values = array("d", bytes(8 * POINTS))
        self._next = 0

    def add(self, t_ns: int, value: float) -> None:
        """Add a point that is not older than the one before."""
        at = self._next % POINTS
        self._times[at] = t_ns
        self._values[at] = value
        self._next += 1

    def points(self, since_ns: int = 0, most: int = POINTS) -> list[tuple[int, float]]:
        """The newest `most` points after `since_ns`, the oldest first."""
        while True:
            end = self._next
            first = max(0, end - POINTS)
            found = [(self._times[i % POINTS], self._values[i % POINTS]) for i in range(first, end)]
            if self._next == end:  # else the oldest may have been written over
                break
        return [point for point in found if point[0] > since_ns][-most:]
