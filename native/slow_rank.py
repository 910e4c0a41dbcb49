# SPDX-License-Identifier: Apache-2.0
"""The rule by which one rank of several is slow: its own work takes longer than that of the others.

Pure. One rule for the ranks of a node and for those of several nodes, so that nobody is slow by one
and not by the other. A rank is slow only by more than the others differ among each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

LEAST_OPERATIONS = 10
"""The operations without which nothing is said."""
LEAST_LONGER = 0.05
"""The part by which its own time is longer than that in the middle of the others."""
LEAST_LOST = 0.02
"""The part of the time with a CPU that is lost by that."""
HUNG_NS = 3_000_000_000
"""A rank that does not come while others wait for this time is named."""
WELL_NS = 5_000_000_000
"""The time without cause after which a slow rank is named no more."""


class Slow(NamedTuple):
    """`longer`: the part by which the rank's own time is longer than that in the middle of the
    others."""

    rank: int
    longer: float


def slow_rank(own: Mapping[int, float], with_cpu: Mapping[int, float]) -> Slow | None:
    """Return the slow one of at least two ranks, or None.

    `own` is the own time of each rank, `with_cpu` the time in which it had a CPU, both in one unit.
    """
    if len(own) < 2:
        return None
    slowest = max(own, key=lambda rank: (own[rank], -rank))
    rest = [time for rank, time in own.items() if rank != slowest]
    middle = median(rest)
    late = own[slowest] - middle
    spread = max(rest) - min(rest)
    if late < max(LEAST_LONGER * middle, LEAST_LOST * with_cpu[slowest], spread) or late <= 0:
        return None
    return Slow(slowest, late / max(middle, 1e-9))
