# SPDX-License-Identifier: Apache-2.0
"""What of the host's probes is attached for one job alone, because it is dear: stacks and faults.

Owns that the kernel is asked only when something changes, and that page faults nobody timed are
said where they are many.
"""

from __future__ import annotations

from stoker.native.errors import StokerError
from stoker.probes.host.host_probes import HostProbes
from stoker.probes.host.host_records import StateDurations

FAULT_NS = 500
"""About the least that a page fault takes of a CPU."""
WORTH_SAYING = 0.01
"""Part of a job's time from which on faults that were not timed are said."""


class DetailedProbes:
    """Of one job."""

    def __init__(self, host: HostProbes | None, cgroup_id: int) -> None:
        self._host, self._cgroup_id = host, cgroup_id
        self._wanted = (False, False)
        self._untimed = 0
        self._why: dict[str, str] = {}

    def want(self, *, stacks: bool, faults: bool) -> None:
        """The stacks of its waits, and what its page faults take, from now on; or not any more."""
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
        """Take in what is known of its threads: how many of their faults were not timed."""
        if totals is not None:
            seen = totals.user_faults + totals.kernel_faults
            self._untimed = totals.minor_faults + totals.major_faults - seen

    def absent(self, window_ns: int) -> dict[str, str]:
        """What is missing in a summary of so much time, and why."""
        if self._untimed * FAULT_NS < WORTH_SAYING * window_ns:
            return {name: why for name, why in self._why.items() if name != "page faults"}
        default = "page faults are timed while every launch is (full)"
        why = self._why.get("page faults", default)
        said = f"{self._untimed} were not timed, what they took is host on CPU: {why}"
        return {**self._why, "page faults": said}
