# SPDX-License-Identifier: Apache-2.0
"""The waits of ranks for each other, in each job of this node: the agent's end of their calls.

The tasks of a gang on this node are ranks of one job. One thread drains; nothing here waits for a
process or for the kernel. Invariant: a record is given to every job once, in the order of the
calls, and what no job took is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.library_copies import start_time
from stoker.probes.collectives.collective_rows import PRESENT, Collectives
from stoker.probes.collectives.job_ranks import RECORD_BYTES, JobRanks, SpreadGroup
from stoker.probes.collectives.rank_identity import RankIdentity, RankReader
from stoker.probes.collectives.rank_judge import RankJudge, RankTrouble

LATE_NS = 2_000_000
"""A record is in the ring this long after its call at the latest; up to then waits are counted that
go on."""
SPANS_MAX = 1 << 22
"""The most bytes of waits that are kept for a task whose trace takes none."""

Gang = tuple[int, ...]
"""Tasks with the same value are ranks of one another."""


class _Task(msgspec.Struct):
    """The processes of one cgroup."""

    gang: Gang
    ranks: dict[int, RankIdentity] = msgspec.field(default_factory=dict)
    """Process -> its rank, read once."""
    spans: list[bytes] = msgspec.field(default_factory=list)
    """Waits of its threads that nobody has taken yet."""
    bytes: int = 0


class TroubledRank(msgspec.Struct, frozen=True):
    """A rank that keeps the others of its gang waiting; `cgroup_id` is that of its task, or 0 if
    none of its processes is here. `tasks`: the gang's tasks on this node. `over`: it does so no
    more."""

    cgroup_id: int
    rank: int
    tasks: tuple[int, ...]
    trouble: RankTrouble
    over: bool = False


class ToldGang(msgspec.Struct, frozen=True):
    """One gang as others are told of it. `homes`: rank -> the cgroup id of its task."""

    gang: Gang
    spread: tuple[SpreadGroup, ...]
    troubles: tuple[RankTrouble, ...]
    homes: Mapping[int, int]
    resumed_ns: int
    """The end of the last time in which it was frozen."""


class RankWatch:
    """The ranks of all jobs, by the ids of their cgroups."""

    def __init__(self) -> None:
        self._gangs: dict[Gang, JobRanks] = {}
        self._judges: dict[Gang, RankJudge] = {}
        self._tasks: dict[int, _Task] = {}
        self._homes: dict[int, int] = {}
        """Process -> the cgroup id of its task."""
        self._frozen: set[Gang] = set()
        """The gangs that were frozen when they were judged last."""
        self._reader = RankReader()
        self.strays = 0
        """Records that were of no job any more."""

    def begin(self, cgroup_id: int, gang: Gang | None = None) -> None:
        """Follow a task; a second call changes nothing. Without a gang it is alone."""
        if cgroup_id not in self._tasks:
            task = self._tasks[cgroup_id] = _Task(gang or (cgroup_id,))
            self._gangs.setdefault(task.gang, JobRanks())
            self._judges.setdefault(task.gang, RankJudge())

    def end(self, cgroup_id: int) -> None:
        """Forget a task, and with the last one of a gang its ranks."""
        task = self._tasks.pop(cgroup_id, None)
        if task is not None and not self._of(task.gang):
            del self._gangs[task.gang], self._judges[task.gang]
            self._frozen.discard(task.gang)
        self._homes = {pid: home for pid, home in self._homes.items() if home != cgroup_id}

    def drain(self, probes: CallProbes) -> None:
        """Take what the kernel has told and give it to the jobs."""
        to_ns = time.monotonic_ns() - LATE_NS
        records = probes.collectives()
        left = len(records) // RECORD_BYTES
        for gang, job in self._gangs.items():
            ranks: dict[int, RankIdentity] = {}
            for cgroup_id in self._of(gang):
                ranks |= self._read(cgroup_id, probes)
            if not ranks and not job.seen:
                continue
            left -= job.add(records, ranks, _is_alive)
            job.show(to_ns)
            self._hand_out(job)
        self.strays += max(0, left)

    def waits(self, cgroup_id: int) -> tuple[bytes, int] | None:
        """Return the waits of a task's threads since the last call, and up to when all are known;
        None if it has no ranks."""
        task = self._tasks.get(cgroup_id)
        if task is None or not self._gangs[task.gang].seen:
            return None
        spans, task.spans, task.bytes = b"".join(task.spans), [], 0
        return spans, self._gangs[task.gang].told_ns

    def collectives(self, cgroup_id: int, now_ns: int) -> Collectives | None:
        """Return what is known of the ranks of a task's gang; None if it has none."""
        task = self._tasks.get(cgroup_id)
        if task is None or not self._gangs[task.gang].seen:
            return None
        found = self._gangs[task.gang].collectives(now_ns)
        troubles = self._judges[task.gang].troubles
        if not troubles:
            return found
        now = tuple(f"{PRESENT}{each.text}" for each in troubles if each.kind == "slow")
        return msgspec.structs.replace(found, said=now + found.said, trouble=troubles[0].text)

    def strange(self, cgroup_id: int) -> bool:
        """Return True if a job may have called NCCL on communicators not seen to be made."""
        task = self._tasks.get(cgroup_id)
        return task is None or self._gangs[task.gang].strange

    def elsewhere(self, cgroup_id: int) -> str:
        """Return a call on a communicator with ranks on other nodes; empty if there is none."""
        task = self._tasks.get(cgroup_id)
        rows = self._gangs[task.gang].spread() if task is not None else ()
        return next((row.call for row in rows if row.call), "")

    def judge(self, frozen: Callable[[int], bool]) -> list[TroubledRank]:
        """Return the ranks that began or ceased to keep others waiting; call it once a second.

        `frozen`: whether a task is frozen now, which is no fault of its ranks.
        """
        found: list[TroubledRank] = []
        for gang, job in self._gangs.items():
            if not job.seen:
                continue
            if any(map(frozen, self._of(gang))):
                self._judges[gang].rest(job.told_ns)
                self._frozen.add(gang)
                continue
            self._frozen.discard(gang)
            rows = job.collectives(job.told_ns)
            began, ended = self._judges[gang].judge(rows, time.monotonic_ns())
            tasks, homes = tuple(self._of(gang)), self._homes_of(job)
            for troubles, over in ((began, False), (ended, True)):
                for trouble in troubles:
                    found += [
                        TroubledRank(homes.get(rank, 0), rank, tasks, trouble, over)
                        for rank in trouble.ranks
                    ]
        return found

    def troubles(self, cgroup_id: int) -> tuple[RankTrouble, ...]:
        """Return what is wrong with the ranks of a task's gang now."""
        task = self._tasks.get(cgroup_id)
        return () if task is None else self._judges[task.gang].troubles

    def gangs(self) -> list[ToldGang]:
        """Return the gangs with ranks on other nodes, and those whose ranks are in trouble."""
        found = []
        for gang, job in self._gangs.items():
            judge = self._judges[gang]
            spread = job.spread() if job.seen and gang not in self._frozen else ()
            if spread or judge.troubles:
                homes = self._homes_of(job)
                found.append(ToldGang(gang, spread, judge.troubles, homes, judge.resumed_ns))
        return found

    def _homes_of(self, job: JobRanks) -> Mapping[int, int]:
        """Return rank -> the cgroup id of its newest process."""
        return {rank: self._homes[pid] for rank, pid in job.pids() if pid in self._homes}

    def _of(self, gang: Gang) -> Iterable[int]:
        return [id for id, task in self._tasks.items() if task.gang == gang]

    def _hand_out(self, job: JobRanks) -> None:
        """Keep each thread's waits for the trace of its own task."""
        for pid, spans in job.take().items():
            task = self._tasks.get(self._homes.get(pid, 0))
            if task is not None and task.bytes + len(spans) <= SPANS_MAX:
                task.spans.append(spans)
                task.bytes += len(spans)

    def _read(self, cgroup_id: int, probes: CallProbes) -> Mapping[int, RankIdentity]:
        """Return the ranks of the processes whose calls are told now."""
        known = self._tasks[cgroup_id].ranks
        told = probes.told(cgroup_id)
        for pid in known.keys() - told.keys():
            del known[pid]
        for pid in told.keys() - known.keys():
            known[pid] = self._reader.read(pid, told[pid])
            self._homes[pid] = cgroup_id
        return known


def _is_alive(pid: int) -> bool:
    return start_time(pid) is not None
