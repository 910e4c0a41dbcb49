# SPDX-License-Identifier: Apache-2.0
"""The meter of the cost of the host's BPF programs, which measures in short windows.

The windows are short because measuring slows every BPF program. Pure: time comes in. Invariant: a
cost from before a change of the programs is never returned; it is then 0, 0 (not measured).
"""

from __future__ import annotations

from typing import Final, Protocol

from stoker.agent.tracing.job_governor import HostCost
from stoker.probes.host.host_probes import Cost

EVERY_S: Final = 10.0
"""Seconds from the start of one window to the next."""
LEAST_S: Final = 0.03
"""The shortest window in seconds; a shorter one may show a single burst only."""


class HostPrograms(Protocol):
    """The host's programs: `HostProbes`."""

    def begin_cost(self) -> None: ...

    def cost(self) -> Cost: ...


class HostMeter:
    """The meter. Its owner calls `newest` about once a second and `look` at every drain.

    `now_s` is CLOCK_MONOTONIC in seconds.
    """

    def __init__(self) -> None:
        self._due_s: float | None = None
        """The time at which the next window is due; None: at once."""
        self._begun_s: float | None = None
        """The time at which the open window began; None if none is open."""
        self._spent = HostCost()

    def newest(self, programs: HostPrograms, now_s: float) -> HostCost:
        """Return the newest cost; opens a window when one is due."""
        if self._begun_s is None and (self._due_s is None or now_s >= self._due_s):
            self._due_s = now_s + EVERY_S
            self._begun_s = now_s
            programs.begin_cost()
        return self._spent

    def look(self, programs: HostPrograms, jobs: int, now_s: float) -> None:
        """Close the open window if it is long enough, and divide its cost equally among the jobs.

        The cost for processes outside jobs is included, since the programs run for the jobs alone.
        """
        if self._begun_s is None or now_s - self._begun_s < LEAST_S:
            return
        self._begun_s = None
        cost = programs.cost()
        if not cost.absent and self._due_s is not None:
            self._spent = HostCost(cost.run_ns // max(jobs, 1), cost.window_ns)

    def restart(self) -> None:
        """Measure again soon: the programs do something else now, or serve other jobs."""
        self._due_s, self._spent = None, HostCost()
