# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of the host's programs in short windows, so that measuring costs nothing.

It calls no clock. A cost measured before the programs changed is never returned: it is 0, 0, not
measured.
"""

from __future__ import annotations

from typing import Final, Protocol

from stoker.agent.tracing.job_governor import HostCost
from stoker.probes.host.host_probes import Cost

EVERY_S: Final = 10.0
"""Seconds between two windows: measuring slows every BPF program of the machine."""
LEAST_S: Final = 0.03
"""Seconds of a window. A shorter one may show a single burst only."""


class HostPrograms(Protocol):
    """The host's programs: `HostProbes`."""

    def begin_cost(self) -> None: ...

    def cost(self) -> Cost: ...


class HostMeter:
    """Call `newest` about once a second and `look` with every drain; seconds of CLOCK_MONOTONIC."""

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
        """Close a window that is long enough. Its cost is divided equally among the jobs, including
        the cost for other processes, which the jobs cause as well."""
        if self._begun_s is None or now_s - self._begun_s < LEAST_S:
            return
        self._begun_s = None
        cost = programs.cost()
        if not cost.absent and self._due_s is not None:
            self._spent = HostCost(cost.run_ns // max(jobs, 1), cost.window_ns)

    def restart(self) -> None:
        """Measure again soon: the programs do something else now, or serve other jobs."""
        self._due_s, self._spent = None, HostCost()
