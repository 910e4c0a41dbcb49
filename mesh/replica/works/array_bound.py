# SPDX-License-Identifier: Apache-2.0
"""The most jobs of one array, which the feature level of the cluster decides.

Pure. Owns the first bound that differs between levels: a leader judges by the level of the
replicated state, so that all schedulers answer alike, whatever their builds could.
"""

from __future__ import annotations

from typing import Final

from stoker.native.errors import Refused

FIRST_MAX: Final = 10_000
"""The most jobs at feature level 1."""
JOBS_MAX: Final = 15_000
"""The most jobs from feature level 2 on: fewer than the 16,384 ended jobs that are kept by default,
so that the ends of all can be waited for."""
SINCE: Final = 2


def most(level: int) -> int:
    """Return the most jobs of one array at a feature level."""
    return JOBS_MAX if level >= SINCE else FIRST_MAX


def check(jobs: int, level: int) -> None:
    """Raise Refused for an array of more jobs than this level lets."""
    if jobs > most(level):
        raise Refused(
            f"the array has {jobs} jobs, at most {most(level)} at feature level {level} of this"
            " cluster",
            hint=f"`stoker cluster upgrade` raises the level; {JOBS_MAX} are the most at level"
            f" {SINCE}",
        )
