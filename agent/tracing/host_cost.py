# SPDX-License-Identifier: Apache-2.0
"""When it is measured what the host's programs take, in windows short enough to cost nothing.

Calls no clock. Owns that nothing is told of programs that did something else when they were
measured: that is 0, 0, not measured.
"""

from __future__ import annotations

from typing import Final, Protocol

from stoker.agent.tracing.job_governor import HostCost
from stoker.probes.host.host_probes import Cost

EVERY_S: Final = 10.0
"""Between two windows: one slows every BPF program of the machine."""
LEAST_S: Final = 0.03
"""Length of a window. What a shorter one tells may be of a single burst."""


class HostPrograms(Protocol):
    """Those of the host: `HostProbes`."""

    def begin_cost(self) -> None: ...

    def cost(self) -> Cost: ...


class HostMeter:
    """`newest` about once a second, `look` with every drain; seconds of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self._due_s: float | None = None
        """None: at once."""
        self._begun_s: float | None = None
        """When the window that is open began."""
        self._spent = HostCost()

    def newest(self, programs: HostPrograms, now_s: float) -> HostCost:
        """What is known; opens a window when one is due."""
        if self._begun_s is None and (self._due_s is None or now_s >= self._due_s):
            self._due_s = now_s + EVERY_S
            self._begun_s = now_s
            programs.begin_cost()
        return self._spent

    def look(self, programs: HostPrograms, jobs: int, now_s: float) -> None:
        """Close a window that is long enough. All of it is put on the jobs, in equal parts: what
        programs take of other processes is paid because of the jobs as well."""
        if self._begun_s is None or now_s - self._begun_s < LEAST_S:
            return
        self._begun_s = None
        cost = programs.cost()
        if not cost.absent and self._due_s is not None:
            self._spent = HostCost(cost.run_ns // max(jobs, 1), cost.window_ns)

    def anew(self) -> None:
        """The programs do something else now, or for other jobs."""
        self._due_s, self._spent = None, HostCost()
