# SPDX-License-Identifier: Apache-2.0
"""The reports of the call probes: counts and times of calls, and the state of their sites.

Plain values. Times are CLOCK_MONOTONIC nanoseconds.
"""

from __future__ import annotations

import math

import msgspec

from stoker.probes.calls.probe_sites import SiteState


class CallLimits(msgspec.Struct, frozen=True):
    """Named maxima; beyond each one a counter of `dropped()` grows."""

    processes: int = 512
    """The most processes of all jobs whose calls are watched."""
    jobs: int = 256
    budget_ppm: int = 5_000
    """The highest cost of all sites of a job by planned rates, until its own are known."""


class CallTimes(msgspec.Struct, frozen=True):
    """Calls of one kind. `entered - returned` are still open, or their thread ended in them."""

    entered: int
    returned: int
    total_ns: int
    longest_ns: int
    log2: tuple[int, ...]
    """Returned calls by length: bucket i is [2^i, 2^(i+1)) ns, the last has all above."""

    def plus(self, more: CallTimes) -> CallTimes:
        """Return the sum of both."""
        return CallTimes(
            self.entered + more.entered,
            self.returned + more.returned,
            self.total_ns + more.total_ns,
            max(self.longest_ns, more.longest_ns),
            tuple(a + b for a, b in zip(self.log2, more.log2, strict=True)),
        )


NONE = CallTimes(0, 0, 0, 0, ())
"""True if no call was seen."""
SAW_NONE = "sampled, saw none"


class CallState(msgspec.Struct, frozen=True):
    """One call in one copy of a library, for one job."""

    id: str
    job: int
    library: str
    """The path as the job sees it, with remarks on it."""
    state: SiteState
    reason: str
    trap: str
    hit_ns: int | None
    duty_ppm: int
    processes: int
    """The number of processes in which it is attached now."""


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
    """Return the summary of one kind of calls, or of sampled sites without a call."""
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
    """Return the geometric middle of the bucket at this part of the calls; None without calls."""
    left = part * sum(log2)
    for bucket, count in enumerate(log2):
        if count and count >= left:
            return round(math.sqrt(2) * (1 << bucket))
        left -= count
    return None
