# SPDX-License-Identifier: Apache-2.0
"""The library calls of this node's jobs: the agent's end of the probes on calls.

A thread reads the processes of each job from its cgroup and attaches the probes; nothing here waits
for it. The states of all sites are left in a file for the doctor. Without cgroups or BPF there are
no rows, and `absent` says why.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

from stoker.agent.jobs.attempt_folders import cgroup_folder
from stoker.agent.tracing.cgroup_processes import is_frozen, processes_of
from stoker.agent.tracing.hidden_watch import HiddenWatch
from stoker.agent.tracing.rank_watch import RankWatch, ToldGang, TroubledRank
from stoker.agent.tracing.untraced_processes import UntracedProcesses
from stoker.probes.calls import site_report
from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.call_records import NONE, CallRow, CallState, call_row
from stoker.probes.calls.call_targets import TARGETS
from stoker.probes.calls.call_watch import CallWatch
from stoker.probes.calls.trap_cost import known_costs
from stoker.probes.collectives.collective_rows import Collectives
from stoker.probes.collectives.rank_judge import RankTrouble
from stoker.probes.cost.cost_budget import GovernorAction, SiteReading
from stoker.probes.cost.cost_governor import Governor, Readings
from stoker.probes.doctor.site_doctor import COSTS_FILE
from stoker.probes.kernels.job_trace import FoundSegment
from stoker.scheduler.nouns import TaskKey

PIDS_EVERY_S = 0.5
NOTHING_DUE = 1 << 62
"""A time on CLOCK_MONOTONIC (ns) that does not come."""
PROBED = ("attached", "sampled", "off")
RANKED = ("mpi.", "nccl.")
"""The beginnings of the ids of calls in which ranks wait for each other."""
COUNTED_ONLY = ("nccl.ncclSend", "nccl.ncclRecv")
"""Calls for which ranks wait, and which are counted but not matched."""
BEGIN_LATER = frozenset(target.id for target in TARGETS if target.waits == "later")
WAIT_FOR_DEVICE = frozenset(target.id for target in TARGETS if target.waits == "device")
UNSEEN_MAX = 16
"""The largest number of one job's libraries that are reported as not probed."""


class JobCalls:
    """The calls of all jobs of the node. `begin` and `end` name a job by the id of its cgroup."""

    def __init__(self, jobs_cgroup: Path, folder: Path) -> None:
        """`folder`: the agent's own, for the measured costs and the states of sites."""
        self._jobs_cgroup, self._folder = jobs_cgroup, folder
        self._groups: dict[int, tuple[TaskKey, int]] = {}
        """cgroup id -> (its start, CLOCK_MONOTONIC ns of its beginning)."""
        self._governors: dict[int, Governor] = {}
        self._lost: dict[int, dict[str, int]] = {}
        """cgroup id -> losses of all jobs when this one began."""
        self._unseen: dict[int, dict[str, str]] = {}
        """cgroup id -> library -> why its calls are not counted."""
        self._sampled: dict[int, set[str]] = {}
        """cgroup id -> calls whose sites were attached for a part of the time."""
        self._hidden = HiddenWatch()
        self._ranks = RankWatch()
        self._untold: dict[int, str] = {}
        """cgroup id -> why its ranks' calls are not told."""
        self._probed: set[int] = set()
        """cgroup ids of jobs with a library whose calls are or were counted."""
        self._saved: object = None
        self._saved_at = self._read_at = 0.0
        self._watch = CallWatch(self._make, self._prepare)

    def start(self) -> None:
        """Start the threads; that of the probes measures the costs first if this boot has not."""
        self._hidden.start()
        self._watch.start()

    def begin(self, key: TaskKey, cgroup_id: int, segments: Path | None = None) -> None:
        """Watch a running job, whose tracers write to `segments`; a second call changes nothing."""
        now_ns = time.monotonic_ns()
        if segments is not None:
            self._hidden.begin(cgroup_id, lambda: self._folder_of(key), segments)
        first = not self._groups
        self._groups.setdefault(cgroup_id, (key, now_ns))
        if first:
            self._watch.hurry()  # it rests for seconds while there is no job
        self._lost.setdefault(cgroup_id, self.dropped())
        self._ranks.begin(cgroup_id, (key.job, key.attempt, key.placing))

    def end(self, cgroup_id: int) -> None:
        """Forget a job that is over; its rows were read before."""
        self._groups.pop(cgroup_id, None)
        self._lost.pop(cgroup_id, None)
        self._unseen.pop(cgroup_id, None)
        self._sampled.pop(cgroup_id, None)
        self._governors.pop(cgroup_id, None)
        self._hidden.end(cgroup_id)
        self._untold.pop(cgroup_id, None)
        self._probed.discard(cgroup_id)
        self._ranks.end(cgroup_id)

    def counted(self, cgroup_id: int) -> bool:
        """Return True if calls of the job may have been counted; waits for no probe."""
        return cgroup_id in self._probed

    def started(self, programs: Iterable[tuple[int, int]]) -> None:
        """Look at once for the processes of these jobs, which have begun a program just now.

        Each is the id of a cgroup and a process in it.
        """
        mine = [each for each in programs if each[0] in self._groups]
        if mine:
            self._hidden.started(mine)
            self._read_at = 0.0
            self._watch.hurry()

    def drain(self) -> None:
        """Take the calls of ranks that the kernel has told, for all jobs."""
        if self._watch.probes is not None:
            self._ranks.drain(self._watch.probes)

    def waits(self, cgroup_id: int) -> tuple[bytes, int] | None:
        """Return how the job's threads waited for other ranks since the last call, and up to when
        that is known; None if it has no ranks."""
        return self._ranks.waits(cgroup_id)

    def collectives(self, cgroup_id: int, now_ns: int) -> Collectives | None:
        """Return which of the job's ranks waited for which; None if it has none."""
        return self._ranks.collectives(cgroup_id, now_ns)

    def judge(self) -> list[TroubledRank]:
        """Return the ranks that began or ceased to keep others waiting; call it once a second."""
        return self._ranks.judge(self._is_frozen)

    def gangs(self) -> list[ToldGang]:
        """Return the gangs of whose ranks the scheduler is told."""
        return self._ranks.gangs()

    def _is_frozen(self, cgroup_id: int) -> bool:
        group = self._groups.get(cgroup_id)
        return group is not None and is_frozen(self._folder_of(group[0]))

    def _folder_of(self, key: TaskKey) -> Path:
        """Return the cgroup of a start. It is looked up only when it is read: in a burst of starts
        the look is dear, and most of the jobs are over before it."""
        return cgroup_folder(self._jobs_cgroup, key)

    def troubles(self, cgroup_id: int) -> tuple[RankTrouble, ...]:
        """Return what is wrong now with the ranks of a task's gang."""
        return self._ranks.troubles(cgroup_id)

    def untold(self, cgroup_id: int) -> str:
        """Return why waiting for other ranks is not told apart; empty if it is."""
        return self.absent or self._untold.get(cgroup_id, "") or self._unmatched(cgroup_id)

    def _unmatched(self, cgroup_id: int) -> str:
        """Return why waiting is unknown if the job has made calls that are not matched."""
        called = {row.name for row in self.rows(cgroup_id) if row.count}
        if first := next((name for name in COUNTED_ONLY if name in called), ""):
            return f"{first}: messages of NCCL are counted, and who waits for them is not known"
        first = min(called & BEGIN_LATER, default="")
        if first and self._ranks.strange(cgroup_id):
            return f"{first}: called on a communicator that was not seen to be made"
        if call := self._ranks.elsewhere(cgroup_id):
            return f"{call}: has ranks on other nodes, so waits for them are not told one by one"
        partly = self._sampled.get(cgroup_id, set()) & WAIT_FOR_DEVICE
        if first and partly:
            return f"{min(partly)}: seen for a part of the time, so waits for {first} are not known"
        return ""

    def hidden(self, cgroup_id: int, now_ns: int) -> UntracedProcesses | None:
        """Return what the job's processes did without a tracer until `now_ns`, or None if they
        were never examined."""
        return self._hidden.hidden(cgroup_id, now_ns)

    def found(self, cgroup_id: int, segments: Iterable[FoundSegment], now_ns: int) -> None:
        """Record segments that processes of this job have made by now: they have a tracer."""
        self._hidden.found(cgroup_id, segments, now_ns)

    def rows(self, cgroup_id: int) -> tuple[CallRow, ...]:
        """Return the job's calls by name, with those that it may have made unobserved."""
        probes, group = self._watch.probes, self._groups.get(cgroup_id)
        if probes is None or group is None:
            return ()
        covered, found = probes.seen(cgroup_id), probes.read(cgroup_id)
        called = {id for id, times in found.items() if times.entered}
        ids = called | self._sampled.get(cgroup_id, set())
        return tuple(call_row(id, found.get(id, NONE), covered.get(id, 0.0)) for id in sorted(ids))

    def readings(self, cgroup_id: int) -> tuple[SiteReading, ...]:
        """Return the cost of the job's sites, for its governor."""
        probes = self._watch.probes
        return probes.site_readings(cgroup_id) if probes is not None else ()

    def obey(self, cgroup_id: int, action: GovernorAction) -> None:
        """Carry out the governor's action on one site."""
        if self._watch.probes is not None:
            self._watch.probes.obey(cgroup_id, action)

    def govern_alone(self, cgroup_id: int, now_ns: int) -> None:
        """Keep the probe sites of a job without a tracer under its budget.

        No tracer reports the time of the job's threads, so the budget is that of one thread.
        """
        group = self._groups.get(cgroup_id)
        if group is None:
            return
        governor = self._governors.setdefault(cgroup_id, Governor())
        lived_ns = max(0, now_ns - group[1])
        for action in governor.step(Readings(lived_ns, sites=self.readings(cgroup_id)), now_ns):
            self.obey(cgroup_id, action)

    def dropped(self) -> dict[str, int]:
        """Return the number of lost records of all jobs, by name."""
        probes = self._watch.probes
        if probes is None:
            return {}
        return probes.dropped() | {"calls.stray_rank": self._ranks.strays}

    def lost(self, cgroup_id: int) -> dict[str, int]:
        """Return the losses of all jobs since this one began: jobs share the kernel's tables."""
        before = self._lost.get(cgroup_id, {})
        return {name: count - before.get(name, 0) for name, count in self.dropped().items()}

    def unseen(self, cgroup_id: int) -> dict[str, str]:
        """Return the mapped libraries whose calls could not be counted, and why."""
        why = dict(self._unseen.get(cgroup_id, {}))
        if self._watch.probes is not None and self.absent:
            why["calls"] = self.absent
        return why

    @property
    def absent(self) -> str:
        """The reason why nothing is counted; empty if calls are counted."""
        probes = self._watch.probes
        if probes is None:
            return "calls into GPU libraries are not counted yet: the agent started just now"
        return (
            "" if probes.probe.state == "attached" else f"{probes.probe.id}: {probes.probe.reason}"
        )

    def close(self) -> None:
        """Detach all probes and end the threads."""
        self._hidden.close()
        self._watch.close()
        with contextlib.suppress(OSError):
            (self._folder / site_report.FILE).unlink()

    # --- in the thread ----------------------------------------------------------------------------

    def _make(self) -> CallProbes:
        probes = CallProbes(known_costs(self._folder / COSTS_FILE))
        probes.load()
        return probes

    def _prepare(self, probes: CallProbes) -> int:
        """Read what is due; return the time on CLOCK_MONOTONIC (ns) of the next reading."""
        now_s = time.monotonic()
        if now_s >= self._read_at:
            self._read_at = now_s + PIDS_EVERY_S
            groups = list(self._groups.items())
            probes.want({id: processes_of(self._folder_of(key)) for id, (key, _) in groups})
        self._save(probes, now_s)
        return round(self._read_at * 1e9) if self._groups else NOTHING_DUE

    def _save(self, probes: CallProbes, now_s: float) -> None:
        """Write the states for the doctor when they have changed, and now and then."""
        states = probes.states()
        self._note_unseen(states)
        self._note_untold(states)
        for each in states:
            if each.state in PROBED and each.job in self._groups:
                self._probed.add(each.job)
            if each.state == "sampled" and each.job in self._groups:
                self._sampled.setdefault(each.job, set()).add(each.id)
        if states == self._saved and now_s < self._saved_at + site_report.RENEW_NS / 1e9:
            return
        with contextlib.suppress(OSError):  # a full disk: the doctor then shows no agent
            site_report.save(
                self._folder / site_report.FILE, probes.probe, states, probes.dropped()
            )
            self._saved, self._saved_at = states, now_s

    def _note_untold(self, states: list[CallState]) -> None:
        """Record the first call in which ranks wait and that is not told, by job."""
        found: dict[int, str] = {}
        for each in states:
            if each.id.startswith(RANKED) and each.state in ("off", "refused", "unknown"):
                found.setdefault(each.job, f"{each.id}: {each.reason}")
        self._untold = {job: why for job, why in found.items() if job in self._groups}

    def _note_unseen(self, states: list[CallState]) -> None:
        """Record libraries of which no call at all can be counted."""
        reasons: dict[tuple[int, str], str] = {}
        seen = {(each.job, each.library) for each in states if each.state in PROBED}
        for each in states:
            if each.state in ("refused", "unknown") and (each.job, each.library) not in seen:
                reasons.setdefault((each.job, each.library), each.reason)
        for (job, library), reason in reasons.items():
            libraries = self._unseen.setdefault(job, {})
            if job in self._groups and len(libraries) < UNSEEN_MAX:
                libraries.setdefault(f"calls of {library}", reason)
