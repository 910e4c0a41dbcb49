# SPDX-License-Identifier: Apache-2.0
"""What the probes over calls report: counts and times of calls, and the state of their sites.

Relied on by the agent's tracing, the report and the tests. Values alone. Times are CLOCK_MONOTONIC
nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from stoker.probes.sites import SiteState


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Named maxima; past each one a counter of `dropped()` grows."""

    processes: int = 512
    """Processes of all jobs whose calls are watched."""
    jobs: int = 256
    budget_ppm: int = 5_000
    """What all sites of a job may take by their expected rates, before its own are known."""


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
