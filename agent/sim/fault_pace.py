# SPDX-License-Identifier: Apache-2.0
"""The times of the faults of one seed: steady, or in spells with calm between them.

Steady faults find what a cluster does that never recovers from the last one; spells find what they
do to a cluster that works. Owns the share of seeds of each kind.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from stoker.mesh.sim.timeline import MS, SECOND

SPELLS = 0.75
"""The probability that the faults of a seed come in spells."""
STEADY_NS = (300 * MS, 2 * SECOND)
"""The time between two faults that are steady."""
FIRST_NS = (3 * SECOND, 6 * SECOND)
"""The time before the first spell, in which the cluster begins to work."""
SPELL_FAULTS = (2, 7)
"""The number of faults of one spell."""
SPELL_NS = (20 * MS, 600 * MS)
"""The time between two faults of a spell."""
CALM_NS = (3500 * MS, 7 * SECOND)
"""The time from one spell to the next."""
LAST_NS = (100 * MS, 2000 * MS)
"""The time from the last fault of a spell to the end of what it stopped and cut off."""
ENDS = 0.8
"""The probability that a spell's faults end with it; else they last for as long as each wants."""


class Wait(NamedTuple):
    """The time until the next fault; `calm_ns` is the time until a calm begins before it, and
    `ends` is true if the calm ends the faults of the spell."""

    fault_ns: int
    calm_ns: int | None = None
    ends: bool = False


class FaultPace:
    """The times of one seed's faults."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._spells = chance.random() < SPELLS
        self._left = 0
        """The number of faults that the present spell still has."""

    def first(self) -> Wait:
        """Return the wait for the first fault."""
        if not self._spells:
            return Wait(self._between(STEADY_NS))
        self._left = self._chance.randint(*SPELL_FAULTS)
        return Wait(self._between(FIRST_NS), 0)

    def next(self) -> Wait:
        """Return the wait after a fault."""
        if not self._spells:
            return Wait(self._between(STEADY_NS))
        self._left -= 1
        if self._left > 0:
            return Wait(self._between(SPELL_NS))
        self._left = self._chance.randint(*SPELL_FAULTS)
        calm_ns = self._between(LAST_NS)
        ends = self._chance.random() < ENDS
        return Wait(calm_ns + self._between(CALM_NS), calm_ns, ends)

    def _between(self, span: tuple[int, int]) -> int:
        low, high = span
        return low + int((high - low) * self._chance.random())
