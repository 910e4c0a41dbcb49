# SPDX-License-Identifier: Apache-2.0
"""The waits of ranks for each other, in each job of this node: the agent's end of their calls.

One thread drains; nothing here waits for a process or for the kernel. Invariant: a record is given
to every job once, in the order of the calls, and what no job took is counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.library_copies import start_time
from stoker.probes.collectives.collective_rows import Collectives
from stoker.probes.collectives.job_ranks import RECORD_BYTES, JobRanks
from stoker.probes.collectives.rank_identity import RankIdentity, RankReader

LATE_NS = 2_000_000
"""A record is in the ring this long after its call at the latest; up to then waits are counted that
go on."""


class RankWatch:
    """The ranks of all jobs, by the ids of their cgroups."""

    def __init__(self) -> None:
        self._jobs: dict[int, JobRanks] = {}
        self._ranks: dict[int, dict[int, RankIdentity]] = {}
        """cgroup id -> process -> its rank, read once."""
        self._reader = RankReader()
        self.strays = 0
        """Records that were of no job any more."""

    def begin(self, cgroup_id: int) -> None:
        """Follow a job; a second call changes nothing."""
        self._jobs.setdefault(cgroup_id, JobRanks())

    def end(self, cgroup_id: int) -> None:
        """Forget a job."""
        self._jobs.pop(cgroup_id, None)
        self._ranks.pop(cgroup_id, None)

    def drain(self, probes: CallProbes) -> None:
        """Take what the kernel has told and give it to the jobs."""
        to_ns = time.monotonic_ns() - LATE_NS
        records = probes.collectives()
        left = len(records) // RECORD_BYTES
        for cgroup_id, job in self._jobs.items():
            ranks = self._read(cgroup_id, probes)
            if not ranks and not job.seen:
                continue
            left -= job.add(records, ranks, _is_alive)
            job.show(to_ns)
        self.strays += max(0, left)

    def waits(self, cgroup_id: int) -> tuple[bytes, int] | None:
        """Return the waits of a job's threads since the last call, and up to when all are known;
        None if it has no ranks."""
        job = self._jobs.get(cgroup_id)
        return job.waits() if job is not None and job.seen else None

    def collectives(self, cgroup_id: int, now_ns: int) -> Collectives | None:
        """Return what is known of a job's ranks; None if it has none."""
        job = self._jobs.get(cgroup_id)
        return job.collectives(now_ns) if job is not None and job.seen else None

    def strange(self, cgroup_id: int) -> bool:
        """Return True if a job may have called NCCL on communicators not seen to be made."""
        job = self._jobs.get(cgroup_id)
        return job is None or job.strange

    def _read(self, cgroup_id: int, probes: CallProbes) -> Mapping[int, RankIdentity]:
        """Return the ranks of the processes whose calls are told now."""
        known = self._ranks.setdefault(cgroup_id, {})
        told = probes.told(cgroup_id)
        for pid in known.keys() - told.keys():
            del known[pid]
        for pid in told.keys() - known.keys():
            known[pid] = self._reader.read(pid, told[pid])
        return known


def _is_alive(pid: int) -> bool:
    return start_time(pid) is not None
