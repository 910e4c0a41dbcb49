# SPDX-License-Identifier: Apache-2.0
"""Seeded random numbers for simulators: equal seeds give equal numbers on every machine.

A 64-bit counter through a mixing function (Steele, Lea, Flood: "Fast splittable pseudorandom number
generators", OOPSLA 2014), as the interpreter's own generator is kept out of the scheduler, where
chance is an argument.
"""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from typing import Any, Final

_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E37_79B9_7F4A_7C15


class Chance:
    """A stream of numbers from one seed."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """Return 64 random bits."""
        self._state = (self._state + _STEP) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58_476D_1CE4_E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D0_49BB_1331_11EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, bound: int) -> int:
        """Return a number from 0 to bound - 1, all equally likely; bound is at least 1."""
        fair = (1 << 64) - (1 << 64) % bound
        while (drawn := self.bits()) >= fair:
            pass
        return drawn % bound

    def unit(self) -> float:
        """Return a number in [0, 1)."""
        return (self.bits() >> 11) * 2.0**-53

    def gap(self, mean: float) -> float:
        """Return the time to the next of independent events with this mean interval."""
        return -mean * math.log1p(-self.unit())

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Shuffle in place; all orders are equally likely."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
