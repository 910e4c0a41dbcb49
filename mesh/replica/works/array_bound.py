# SPDX-License-Identifier: Apache-2.0
"""The most jobs of one array, which the feature level of the cluster decides.

Pure. Owns the bounds that differ between levels: a leader judges by the level of the replicated
state, so that all schedulers answer alike, whatever their builds could.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stoker.native.errors import Refused
from stoker.scheduler.array_indexes import JOBS_MAX, ArrayIndexes

MOST: Final[Mapping[int, int]] = {1: 10_000, 2: 15_000, 3: JOBS_MAX}
"""The most jobs at each feature level. Those of levels 1 and 2 are records from the start: fewer
than the 16,384 ended jobs that are kept by default, so that the ends of all can be waited for."""
LIMIT_SINCE: Final = 3
"""The first level at which only some jobs of an array may go on at once."""


def most(level: int) -> int:
    """Return the most jobs of one array at a feature level."""
    return MOST[min(level, max(MOST))]


def check(array: tuple[int, ...], indexes: ArrayIndexes, level: int) -> None:
    """Raise Refused for an array that this level does not let."""
    jobs = len(array) or indexes.size
    raises = "`stoker cluster upgrade` raises the level"
    if jobs > most(level):
        raise Refused(
            f"the array has {jobs} jobs, at most {most(level)} at feature level {level} of this"
            " cluster",
            hint=f"{raises}; {JOBS_MAX} are the most at level {max(MOST)}",
        )
    if indexes.most and level < LIMIT_SINCE:
        raise Refused(
            "no limit of how many jobs of an array go on at once is taken at feature level"
            f" {level}",
            hint=f"{raises}; or set the limit of a queue: stoker queue quota",
        )
