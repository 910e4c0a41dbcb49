# SPDX-License-Identifier: Apache-2.0
"""Opt-in host probes, attached for one job because of their cost: wait stacks and page faults.

The kernel is called only when something changes. Untimed page faults are reported if they are many.
"""

from __future__ import annotations

from stoker.native.errors import StokerError
from stoker.probes.host.host_probes import HostProbes
from stoker.probes.host.host_records import StateDurations

FAULT_NS = 500
"""Nanoseconds of CPU time that a page fault takes at least, roughly."""
REPORTED_SHARE = 0.01
"""Share of a job's time from which on untimed page faults are reported."""


class DetailedProbes:
    """The opt-in probes of one job."""

    def __init__(self, host: HostProbes | None, cgroup_id: int) -> None:
        self._host, self._cgroup_id = host, cgroup_id
        self._wanted = (False, False)
        self._untimed = 0
        self._why: dict[str, str] = {}

    def want(self, *, stacks: bool, faults: bool) -> None:
        """Set whether wait stacks and the time of page faults are recorded from now on."""
        if self._host is None or (stacks, faults) == self._wanted:
            return
        self._wanted = stacks, faults
        try:
            self._host.opt_in(self._cgroup_id, stacks=stacks, faults=faults)
        except StokerError as error:
            self._why |= {"waits": error.message} if stacks else {}
            self._why |= {"page faults": error.message} if faults else {}
            return
        handling = next(each for each in self._host.states if each.id == "host.memory.handling")
        if faults and handling.state != "attached":
            self._why["page faults"] = f"{handling.id}: {handling.reason}"

    def read(self, totals: StateDurations | None) -> None:
        """Count the page faults of the job's threads that were not timed."""
        if totals is not None:
            seen = totals.user_faults + totals.kernel_faults
            self._untimed = totals.minor_faults + totals.major_faults - seen

    def absent(self, window_ns: int) -> dict[str, str]:
        """Return what is missing in a summary of `window_ns`, and why."""
        if self._untimed * FAULT_NS < REPORTED_SHARE * window_ns:
            return {name: why for name, why in self._why.items() if name != "page faults"}
        default = "page faults are timed while every launch is (full)"
        why = self._why.get("page faults", default)
        reason = f"{self._untimed} were not timed and count as host on CPU: {why}"
        return {**self._why, "page faults": reason}
