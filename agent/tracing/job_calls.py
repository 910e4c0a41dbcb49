# SPDX-License-Identifier: Apache-2.0
"""What the jobs of this node call in GPU libraries: the agent's end of the probes over calls.

Which processes a job has is read from its cgroup, by a thread that also attaches; nothing here
waits for it. The states of all sites are left in a file for the doctor. Without cgroups or BPF
there are no rows, and `absent` says why.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterable
from pathlib import Path

from stoker.agent.jobs.steps import Key
from stoker.agent.tracing.untraced_processes import HiddenUse, UntracedProcesses
from stoker.probes.calls import site_report
from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.call_records import NONE, CallRow, CallState, call_row
from stoker.probes.calls.call_watch import CallWatch
from stoker.probes.calls.trap_cost import known_costs
from stoker.probes.cost.cost_budget import GovernorAction, SiteReading
from stoker.probes.cost.cost_governor import Governor, Readings
from stoker.probes.doctor.site_doctor import COSTS_FILE
from stoker.probes.kernels.job_trace import FoundSegment

PIDS_MAX = 512
"""Processes of one job that are looked at."""
GROUPS_MAX = 64
"""Groups that one job may have made below its own and that are looked at."""
PIDS_EVERY_S = 0.5
PROBED = ("attached", "sampled", "off")
UNSEEN_MAX = 16
"""Libraries of one job that are told of because they could not be probed."""


class JobCalls:
    """All jobs of the node. `begin` and `end` name a job by the id of its cgroup."""

    def __init__(self, jobs_cgroup: Path, folder: Path) -> None:
        """`folder`: the agent's own, for the measured costs and the states of sites."""
        self._jobs_cgroup, self._folder = jobs_cgroup, folder
        self._groups: dict[int, tuple[Path, int]] = {}
        """cgroup id -> (its folder, CLOCK_MONOTONIC ns of its beginning)."""
        self._governors: dict[int, Governor] = {}
        self._lost: dict[int, dict[str, int]] = {}
        """cgroup id -> what had been lost of all jobs when this one began."""
        self._unseen: dict[int, dict[str, str]] = {}
        """cgroup id -> library -> why its calls are not counted."""
        self._sampled: dict[int, set[str]] = {}
        """cgroup id -> calls whose sites were attached for a part of the time."""
        self._hidden: dict[int, HiddenUse] = {}
        """cgroup id -> its processes that use a device without a tracer."""
        self._told: object = None
        self._told_at = self._read_at = 0.0
        self._watch = CallWatch(self._make, self._prepare)

    def start(self) -> None:
        """Begin to watch; the costs are measured first where this boot has not yet."""
        self._watch.start()

    def begin(self, key: Key, cgroup_id: int, segments: Path | None = None) -> None:
        """This job runs, and its tracers were told to write to `segments`; a second time changes
        nothing."""
        group = self._jobs_cgroup / f"{key[0]}.{key[1]}"
        now_ns = time.monotonic_ns()
        if segments is not None:
            self._hidden.setdefault(cgroup_id, HiddenUse(now_ns, segments))
        self._groups.setdefault(cgroup_id, (group, now_ns))
        self._lost.setdefault(cgroup_id, self.dropped())

    def end(self, cgroup_id: int) -> None:
        """This job is over, and its rows were taken."""
        self._groups.pop(cgroup_id, None)
        self._lost.pop(cgroup_id, None)
        self._unseen.pop(cgroup_id, None)
        self._sampled.pop(cgroup_id, None)
        self._governors.pop(cgroup_id, None)
        self._hidden.pop(cgroup_id, None)

    def hidden(self, cgroup_id: int, now_ns: int) -> UntracedProcesses | None:
        """What its processes did without a tracer, until then; None: nobody has looked."""
        found = self._hidden.get(cgroup_id)
        return None if found is None else found.until(now_ns)

    def found(self, cgroup_id: int, segments: Iterable[FoundSegment], now_ns: int) -> None:
        """Processes of this job have made these segments by now, so they have a tracer."""
        if (use := self._hidden.get(cgroup_id)) is not None:
            use.found(segments, now_ns)

    def rows(self, cgroup_id: int) -> tuple[CallRow, ...]:
        """What the job called so far, by name; and what it may have called unseen."""
        probes, known = self._watch.probes, self._groups.get(cgroup_id)
        if probes is None or known is None:
            return ()
        seen, found = probes.seen(cgroup_id), probes.read(cgroup_id)
        called = {id for id, times in found.items() if times.entered}
        ids = called | self._sampled.get(cgroup_id, set())
        return tuple(call_row(id, found.get(id, NONE), seen.get(id, 0.0)) for id in sorted(ids))

    def readings(self, cgroup_id: int) -> tuple[SiteReading, ...]:
        """What the sites of the job cost, for its governor."""
        probes = self._watch.probes
        return probes.site_readings(cgroup_id) if probes is not None else ()

    def obey(self, cgroup_id: int, action: GovernorAction) -> None:
        """Carry out what the governor said of one site."""
        if self._watch.probes is not None:
            self._watch.probes.obey(cgroup_id, action)

    def govern_alone(self, cgroup_id: int, now_ns: int) -> None:
        """Keep the sites of a job under the budget that no tracer runs in: nothing tells the time
        of its threads, so that of one thread counts."""
        known = self._groups.get(cgroup_id)
        if known is None:
            return
        governor = self._governors.setdefault(cgroup_id, Governor())
        lived_ns = max(0, now_ns - known[1])
        for action in governor.step(Readings(lived_ns, sites=self.readings(cgroup_id)), now_ns):
            self.obey(cgroup_id, action)

    def dropped(self) -> dict[str, int]:
        """What was lost of all jobs, by name."""
        probes = self._watch.probes
        return probes.dropped() if probes is not None else {}

    def lost(self, cgroup_id: int) -> dict[str, int]:
        """What was lost since this job began, of all jobs: the kernel's tables are shared."""
        before = self._lost.get(cgroup_id, {})
        return {name: count - before.get(name, 0) for name, count in self.dropped().items()}

    def unseen(self, cgroup_id: int) -> dict[str, str]:
        """Which libraries the job had mapped without that their calls could be counted, and why."""
        why = dict(self._unseen.get(cgroup_id, {}))
        if self._watch.probes is not None and self.absent:
            why["calls"] = self.absent
        return why

    @property
    def absent(self) -> str:
        """Why nothing is counted; empty where it is."""
        probes = self._watch.probes
        if probes is None:
            return "calls into GPU libraries are not counted yet: the agent started just now"
        return (
            "" if probes.probe.state == "attached" else f"{probes.probe.id}: {probes.probe.reason}"
        )

    def close(self) -> None:
        """Detach everything."""
        self._watch.close()
        with contextlib.suppress(OSError):
            (self._folder / site_report.FILE).unlink()

    # --- in the thread ----------------------------------------------------------------------------

    def _make(self) -> CallProbes:
        probes = CallProbes(known_costs(self._folder / COSTS_FILE))
        probes.load()
        return probes

    def _prepare(self, probes: CallProbes) -> None:
        now_s = time.monotonic()
        if now_s >= self._read_at:
            self._read_at = now_s + PIDS_EVERY_S
            groups = list(self._groups.items())
            found = {id: processes_of(group) for id, (group, _) in groups}
            probes.want(found)
            for id, pids in found.items():
                if (hidden := self._hidden.get(id)) is not None:
                    hidden.look(pids, time.monotonic_ns())
        self._tell(probes, now_s)

    def _tell(self, probes: CallProbes, now_s: float) -> None:
        """Leave the states for the doctor when they have changed, and now and then."""
        states = probes.states()
        self._note_unseen(states)
        for each in states:
            if each.state == "sampled" and each.job in self._groups:
                self._sampled.setdefault(each.job, set()).add(each.id)
        if states == self._told and now_s < self._told_at + site_report.RENEW_NS / 1e9:
            return
        with contextlib.suppress(OSError):  # a full disk: the doctor then tells of no agent
            site_report.save(
                self._folder / site_report.FILE, probes.probe, states, probes.dropped()
            )
            self._told, self._told_at = states, now_s

    def _note_unseen(self, states: list[CallState]) -> None:
        """Libraries of which no call at all can be counted."""
        reasons: dict[tuple[int, str], str] = {}
        seen = {(each.job, each.library) for each in states if each.state in PROBED}
        for each in states:
            if each.state in ("refused", "unknown") and (each.job, each.library) not in seen:
                reasons.setdefault((each.job, each.library), each.reason)
        for (job, library), reason in reasons.items():
            libraries = self._unseen.setdefault(job, {})
            if job in self._groups and len(libraries) < UNSEEN_MAX:
                libraries.setdefault(f"calls of {library}", reason)


def processes_of(group: Path) -> list[int]:
    """Processes of a cgroup and of those below it; none if it is gone."""
    found: list[int] = []
    for folder, _, _ in itertools.islice(os.walk(group), GROUPS_MAX):
        if len(found) >= PIDS_MAX:
            break
        with contextlib.suppress(OSError):
            text = (Path(folder) / "cgroup.procs").read_text()
            found += [int(pid) for pid in text.split()]
    return found[:PIDS_MAX]
