# SPDX-License-Identifier: Apache-2.0
"""Parts of one card's power, learned over all of its loads: base, memory, kernels.

Power is taken as linear in three shares. The share of the base is always 1 (the draw at rest), that
of the memory is its bandwidth in use, that of the kernels follows their clock and time. The three
parts are fitted to every settled reading since the card was first seen. They begin with a guess,
which counts as a few readings. An offset holds what the parts miss at the present load, such as the
leakage of a warm die.

Sensors are wrong by up to 5 % of their value (arXiv 2312.02741), while limits count as exact. So a
card that draws as much as its limit allows shows the error of its sensor.
Invariant: a part is never negative.
"""

from __future__ import annotations

from typing import Final

ERROR_W: Final = 8.0
"""Error of one settled reading, beside the sensor's proportional error."""
OFFSET_RATE: Final = 0.2
GAIN_RATE: Final = 0.1
GAIN_MOST: Final = 0.06
"""The largest error that a sensor is taken to have."""
AT_LIMIT: Final = 0.99
"""Share of its limit that a limited card draws, since clocks have steps."""
GUESS_ERROR: Final = (0.03, 0.05, 0.2)
"""Errors of the guesses of base, memory and kernels, in parts of the highest limit."""

Shares = tuple[float, float, float]


class CardDraw:
    """Fitted parts of one card's power, in watts."""

    def __init__(self, base_w: float, memory_w: float, kernels_w: float, most_w: float) -> None:
        self._begin = (base_w, memory_w, kernels_w)
        self._most_w = most_w
        self.parts: Shares = self._begin
        self.offset_w = 0.0
        self.gain = 1.0
        """Sensor reading over true draw."""
        self._weight = [
            [(ERROR_W / (GUESS_ERROR[i] * most_w)) ** 2 if i == j else 0.0 for j in range(3)]
            for i in range(3)
        ]
        self._sum = [self._weight[i][i] * self._begin[i] for i in range(3)]

    def at(self, shares: Shares) -> float:
        """Expected draw at these shares."""
        return sum(part * share for part, share in zip(self.parts, shares, strict=True))

    def limited(self, power_w: float, limit_w: float) -> None:
        """Learn from a settled reading of a card that its limit slows down."""
        found = power_w / (AT_LIMIT * limit_w)
        found = min(max(found, 1 - GAIN_MOST), 1 + GAIN_MOST)
        self.gain += GAIN_RATE * (found - self.gain)

    def read(self, power_w: float, shares: Shares) -> None:
        """Learn from a settled reading at these shares."""
        true_w = power_w / self.gain
        for i in range(3):
            for j in range(3):
                self._weight[i][j] += shares[i] * shares[j]
            self._sum[i] += shares[i] * true_w
        first, second, third = _solved(self._weight, self._sum)
        self.parts = (max(first, 0.0), max(second, 0.0), max(third, 0.0))

    def follow(self, power_w: float, shares: Shares) -> None:
        """Learn the present offset from any steady reading."""
        off = power_w / self.gain - self.at(shares)
        bound = 0.1 * self._most_w
        self.offset_w += OFFSET_RATE * (min(max(off, -bound), bound) - self.offset_w)


def _solved(weight: list[list[float]], right: list[float]) -> Shares:
    """Solves a symmetric positive definite system, which needs no pivots."""
    rows = [[*row, value] for row, value in zip(weight, right, strict=True)]
    for i in range(3):
        for j in range(i + 1, 3):
            part = rows[j][i] / rows[i][i]
            rows[j] = [a - part * b for a, b in zip(rows[j], rows[i], strict=True)]
    third = rows[2][3] / rows[2][2]
    second = (rows[1][3] - rows[1][2] * third) / rows[1][1]
    first = (rows[0][3] - rows[0][1] * second - rows[0][2] * third) / rows[0][0]
    return first, second, third
