# SPDX-License-Identifier: Apache-2.0
"""Reports of the probes over calls: counts and times of calls, and the state of their sites.

Values alone. Times are CLOCK_MONOTONIC nanoseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from stoker.probes.calls.probe_sites import SiteState


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Named maxima; past each one a counter of `dropped()` grows."""

    processes: int = 512
    """Processes of all jobs whose calls are watched."""
    jobs: int = 256
    budget_ppm: int = 5_000
    """The most that all sites of a job may cost by planned rates, before its own are known."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Calls of one kind. `entered - returned` go on, or their thread ended inside of them."""

    entered: int
    returned: int
    total_ns: int
    longest_ns: int
    log2: tuple[int, ...]
    """Those that returned, by size: bucket i is [2^i, 2^(i+1)) ns, the last all above."""

    def plus(self, more: CallTimes) -> CallTimes:
        """Both together."""
        return CallTimes(
            self.entered + more.entered,
            self.returned + more.returned,
            self.total_ns + more.total_ns,
            max(self.longest_ns, more.longest_ns),
            tuple(a + b for a, b in zip(self.log2, more.log2, strict=True)),
        )


NONE = CallTimes(0, 0, 0, 0, ())
"""Nothing was called, as far as was seen."""
SAW_NONE = "sampled, saw none"


@dataclass(frozen=True, slots=True)
class CallState:
    """One call in one copy of a library, for one job."""

    id: str
    job: int
    library: str
    """Path as the job sees it, with what is odd about it."""
    state: SiteState
    reason: str
    trap: str
    hit_ns: int | None
    duty_ppm: int
    processes: int
    """Processes in which it is attached now."""


class CallRow(msgspec.Struct, frozen=True):
    """Calls of one kind in a job's summary. `count` and `total_ns` are of the time in which the
    call's sites were attached, which is `seen` (0 to 1) of the time they could have been; nothing
    is scaled. Quantiles are of log2 buckets, so within a factor of the square root of 2."""

    name: str
    count: int
    open: int
    """Calls among `count` that have not returned yet."""
    total_ns: int
    longest_ns: int
    p50_ns: int | None
    p99_ns: int | None
    seen: float
    note: str = ""
    """Remark on a site that was attached for only part of the time and was not called in it."""


def call_row(name: str, times: CallTimes, seen: float) -> CallRow:
    """The summary of one kind of calls; of one that was never seen, its sites were sampled."""
    open = max(0, times.entered - times.returned)
    p50_ns, p99_ns = (quantile_ns(times.log2, part) for part in (0.5, 0.99))
    return CallRow(
        name,
        times.entered,
        open,
        times.total_ns,
        times.longest_ns,
        p50_ns,
        p99_ns,
        seen,
        "" if times.entered else SAW_NONE,
    )


def quantile_ns(log2: tuple[int, ...], part: float) -> int | None:
    """The middle, by ratio, of the bucket that holds this part of the calls; None: no calls."""
    left = part * sum(log2)
    for bucket, count in enumerate(log2):
        if count and count >= left:
            return round(math.sqrt(2) * (1 << bucket))
        left -= count
    return None
