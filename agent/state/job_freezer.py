# SPDX-License-Identifier: Apache-2.0
"""The freezer of jobs: the cgroup that the watchdog freezes, and the agent where nobody watches.

Absence is a reason: `why_not` says why jobs cannot be frozen here, and is empty where they can.
"""

from __future__ import annotations

from pathlib import Path

from stoker.agent.state.lease import FREEZE_FAILED, NO_CGROUP, Lease
from stoker.native.structured_log import structlog

LATE_NS = 5_000_000_000
"""A watchdog that has not looked for this long is reported; the supervisor restarts a killed one
sooner."""
FREEZE = "cgroup.freeze"

_log = structlog.get_logger("lease")


class JobFreezer:
    """Freezes the cgroup `jobs` of all jobs that must fence; None if there is none."""

    def __init__(self, jobs: Path | None, lease: Lease) -> None:
        self._jobs = jobs
        self._lease = lease

    def why_not(self, now_ns: int) -> str:
        """Return why jobs are not frozen when the lease ends (CLOCK_BOOTTIME), or empty."""
        if self._jobs is None:
            return "jobs have no cgroups here"
        if not (self._jobs / FREEZE).exists():
            return "this kernel cannot freeze cgroups, which takes Linux 5.2"
        seen_ns = self._lease.watchdog_seen_ns
        if seen_ns is None or now_ns - seen_ns > LATE_NS:
            return "the watchdog does not look"
        if self._lease.watchdog_flags & NO_CGROUP:
            return "the watchdog has no cgroup of jobs"
        return "a freeze was refused" if self._lease.watchdog_flags & FREEZE_FAILED else ""

    def look(self, now_ns: int) -> bool:
        """Freeze the jobs if the lease has ended and no watchdog looks; True if that was done.

        The freeze has no record: the next watchdog finds it and records it.
        """
        if self._jobs is None or self._lease.valid(now_ns) or not self._lease.expiry_boottime_ns:
            return False
        if not self._lease.watchdog_stale(now_ns):
            return False
        path = self._jobs / FREEZE
        try:
            if path.read_text().strip() == "1":
                return False
            path.write_text("1")
        except OSError as error:
            _log.error("jobs cannot be frozen", error=str(error))
            return False
        _log.warning("jobs are frozen: the lease ran out and no watchdog looks")
        return True
