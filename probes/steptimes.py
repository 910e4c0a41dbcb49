# SPDX-License-Identifier: Apache-2.0
"""What tracing costs by the job's own pace: its steps with tracing against those without.

Relied on by the governor, for costs that no clock of ours sees: caches, locks, a vendor's
profiler. Pure. Says only what is certain: the lower end of a 95 % interval, never below 0, so
that a noisy job is not blamed on the tracer.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

STEPS_KEPT = 128
"""Newest steps of each kind that are compared."""
STEPS_NEEDED = 8
"""Fewer of either kind say nothing."""
NORMAL_95 = 1.96
MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean, for normal data: sqrt(pi / 2)."""
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the job (an iteration, or a number of launches) and whether it was traced."""

    traced: bool
    ns: int


class StepTimes:
    """Newest steps of both kinds, from windows that alternate."""

    def __init__(self) -> None:
        self._logs: dict[bool, deque[float]] = {
            traced: deque(maxlen=STEPS_KEPT) for traced in (True, False)
        }

    def add(self, steps: Iterable[Step]) -> None:
        """Take in finished steps; one without a length says nothing and is left out."""
        for step in steps:
            if step.ns > 0:
                self._logs[step.traced].append(math.log(step.ns))

    def forget(self) -> None:
        """After a change of what is attached: older steps tell of something else."""
        for logs in self._logs.values():
            logs.clear()

    def slowdown_ppm(self) -> int | None:
        """How much longer traced steps certainly are; None: too few steps of a kind."""
        on, off = self._logs[True], self._logs[False]
        if min(len(on), len(off)) < STEPS_NEEDED:
            return None
        more = statistics.median(on) - statistics.median(off)
        least = more - NORMAL_95 * math.hypot(_median_error(on), _median_error(off))
        return round(1e6 * max(0.0, math.expm1(least)))


def _median_error(values: deque[float]) -> float:
    """Standard error of the median, by the spread around it."""
    middle = statistics.median(values)
    spread = statistics.median(abs(value - middle) for value in values)
    return MEDIAN_ERROR * MAD_TO_SIGMA * spread / math.sqrt(len(values))
