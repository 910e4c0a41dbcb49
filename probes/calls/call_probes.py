# SPDX-License-Identifier: Apache-2.0
"""Calls of jobs into GPU libraries: which sites are attached where, and what was counted.

Files and processes of jobs cannot make these functions raise: each call has a state with a reason.
Attaching waits for the kernel, so `look` needs a thread of its own (`probes/calls/call_watch.py`);
reading does not wait. Counts of a process are kept when it ends, so totals of a job only grow.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from stoker.native.errors import Refused, StokerError
from stoker.probes.calls.call_records import CallLimits, CallState, CallTimes
from stoker.probes.calls.call_targets import LIBRARIES, NCCL, TARGETS, CallTarget
from stoker.probes.calls.call_windows import Windows
from stoker.probes.calls.elf import ElfFile
from stoker.probes.calls.library_copies import Copy, copies_of, opened, start_time
from stoker.probes.calls.probe_sites import Call, SiteDecision, choose, find_calls, share_step
from stoker.probes.calls.trap_cost import TrapCosts
from stoker.probes.catalogue import ProbeState, State
from stoker.probes.cost.cost_budget import PPM, GovernorAction, SiteReading

if TYPE_CHECKING:
    from stoker.native import _calls

PROBE = "calls.uprobe"
"""The stable id of the programs as a whole."""

RETRY_NS = 10_000_000_000
"""A call that could not be attached is tried again after this time."""
LOOK_NS = 500_000_000
LOOK_MAX_NS = 8_000_000_000
"""Period of reading a process's mappings; it doubles after each reading without change."""
LOOK_FIRST_NS = 25_000_000
"""Half the pause before the second look at a new process: it loads its libraries just then."""
LOOK_SHARE = 20
"""The pause before the next reading of mappings, as a multiple of the time of the last one."""
READS_MAX = 64
"""The most libraries of one job that are read, as a job may write new ones endlessly."""
LIBRARIES_MAX = 256
"""The most copies whose sites are kept."""

_STATES: tuple[State, ...] = ("attached", "refused", "unknown")
_LOSSES = ("calls.key", "calls.frame", "calls.stray", "calls.ring")
_ANSWERS = {
    errno.ESRCH: "the process is gone",
    errno.EINVAL: "the place is no start of an instruction, or not in the file any more",
    errno.ENOEXEC: "the kernel knows no such instruction",
    errno.EOPNOTSUPP: "the kernel does not probe this instruction, or has no uprobes",
    524: "the kernel does not probe this instruction",
    errno.EPERM: "CAP_BPF and CAP_PERFMON, or root, are needed",
    errno.EACCES: "CAP_BPF and CAP_PERFMON, or root, are needed",
    errno.EMFILE: "too many open files",
}
"""The meaning of an errno of bpf(2) and perf_event_open(2) for a probe. 524 is the kernel's
ENOTSUPP, which has no name outside of it.
"""


class _Library(msgspec.Struct):
    """The state of one copy of a library; its key is the file and the state of its contents."""

    calls: list[Call]
    decisions: dict[str, SiteDecision]


class _Group(msgspec.Struct):
    handle: int
    ids: tuple[str, ...]
    ranks: bool
    """The process had NCCL when it was attached, so waits for its device are told too."""


class _Process(msgspec.Struct):
    pid: int
    started: int
    look_at: int = 0
    wait_ns: int = LOOK_FIRST_NS
    copies: dict[tuple[str, int], tuple[Copy, tuple[object, ...]]] = msgspec.field(
        default_factory=dict
    )
    """The mapping of each file, and the key of its library."""
    groups: dict[tuple[tuple[object, ...], int], _Group] = msgspec.field(default_factory=dict)
    """The attachments by library and part of the time (ppm)."""
    failed: dict[tuple[tuple[object, ...], int], tuple[int, str]] = msgspec.field(
        default_factory=dict
    )
    """The time of the next try and the reason of the last failure, by library and ppm."""
    absent: str = ""
    told: Copy | None = None
    """The library whose collective calls the kernel tells, from before it does so."""


class _Job(msgspec.Struct):
    processes: dict[int, _Process] = msgspec.field(default_factory=dict)
    duties: dict[str, int] = msgspec.field(default_factory=dict)
    """The part of the time (ppm) that the governor set, by target id; else the decision's own."""
    reasons: dict[str, str] = msgspec.field(default_factory=dict)
    on_ns: dict[str, int] = msgspec.field(default_factory=dict)
    reads: int = 0
    watched_ns: int = 0
    """The time in which any process of it had a library mapped, which includes `on_ns`."""
    ended: dict[str, CallTimes] = msgspec.field(default_factory=dict)


class CallProbes:
    """The programs and their attachments. One thread calls `look`, any may call the rest."""

    def __init__(
        self,
        costs: TrapCosts,
        limits: CallLimits | None = None,
        *,
        targets: Sequence[CallTarget] = TARGETS,
        one_by_one: bool = False,
        seed: int | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`one_by_one` uses a link per site, as kernels without links over many sites need."""
        self._costs, self._limits = costs, limits or CallLimits()
        self._targets = {target.id: target for target in targets}
        self._numbers = {target.id: number for number, target in enumerate(targets)}
        self._ids = [target.id for target in targets]
        self._prefixes = tuple(dict.fromkeys(t.library for t in targets)) or LIBRARIES
        self._one_by_one = one_by_one
        self._kernel: _calls.Calls | None = None
        self._lock = threading.RLock()
        self._jobs: dict[int, _Job] = {}
        self._wanted: dict[int, tuple[int, ...]] = {}
        self._libraries: dict[tuple[object, ...], _Library] = {}
        self._windows = Windows(seed)
        self._clock_ns = clock_ns
        self._looked_ns = 0
        """The end of the last look, from which time is not charged yet; 0 during a look."""
        self._refused = {"calls.process": 0, "calls.job": 0}
        self.probe = ProbeState(PROBE, "unknown", "not loaded")

    def load(self) -> ProbeState:
        """Load the programs; never raises: the result has the reason of a failure."""
        try:
            from stoker.native import _calls

            kernel = _calls.Calls(self._one_by_one)
            answer, why = kernel.load()
        except (ImportError, OSError) as error:
            self.probe = ProbeState(PROBE, "unknown", f"this build has no eBPF part ({error})")
            return self.probe
        self.probe = ProbeState(PROBE, _STATES[answer], why)
        if self.probe.state == "attached":
            self._kernel = kernel
        return self.probe

    # --- from any thread --------------------------------------------------------------------------

    def want(self, jobs: Mapping[int, Iterable[int]]) -> None:
        """Set the processes of each job from the next look on; a job that is not named is over.

        Pids are those of this process's namespace, which must be the initial one.
        """
        self._wanted = {job: tuple(pids) for job, pids in jobs.items()}

    def obey(self, job: int, action: GovernorAction) -> None:
        """Carry out the governor's action on a site (attach, sample, detach); ignore others."""
        if action.target in self._targets:
            self.set_share(job, action.target, action.value, action.reason)

    def set_share(self, job: int, id: str, duty_ppm: int, reason: str) -> None:
        """Attach a call's sites all the time (PPM), in windows, or not at all (0)."""
        with self._lock:
            known = self._jobs.setdefault(job, _Job())
            known.duties[id] = share_step(duty_ppm)
            known.reasons[id] = reason

    def read(self, job: int) -> dict[str, CallTimes]:
        """Return the calls of the job's processes by target id, including ended processes."""
        with self._lock:
            known = self._jobs.get(job)
            if known is None:
                return {}
            found = dict(known.ended)
            for pid, times in self._rows().items():
                if pid in known.processes:
                    _add(found, times)
            return found

    def read_processes(self, job: int) -> dict[int, dict[str, CallTimes]]:
        """Return the calls of the job by living process, then by target id."""
        with self._lock:
            known = self._jobs.get(job, _Job())
            return {pid: each for pid, each in self._rows().items() if pid in known.processes}

    def collectives(self) -> bytes:
        """Take the records of collective calls of all jobs, in the order of the calls."""
        with self._lock:
            return self._kernel.collectives() if self._kernel is not None else b""

    def told(self, job: int) -> dict[int, Copy]:
        """Return the processes of which the kernel tells each collective call, by their library.

        Read after `collectives`, it has every process that these records are of, except one whose
        sites were detached meanwhile.
        """
        with self._lock:
            known = self._jobs.get(job, _Job())
            return {pid: each.told for pid, each in known.processes.items() if each.told}

    def site_readings(self, job: int) -> tuple[SiteReading, ...]:
        """Return hits, their cost and the attached time of sites for the governor."""
        with self._lock:
            known = self._jobs.get(job)
            if known is None:
                return ()
            priced = self._priced(known)
            called, on_ns = self.read(job), self._times(known)[1]
            return tuple(
                SiteReading(
                    id,
                    called[id].entered if id in called else 0,
                    hit_ns,
                    on_ns.get(id, 0),
                )
                for id, hit_ns in priced.items()
            )

    def seen(self, job: int) -> dict[str, float]:
        """Return by target id the attached part of the time with a library."""
        with self._lock:
            known = self._jobs.get(job)
            watched_ns, on_ns = self._times(known) if known is not None else (0, {})
            return {id: min(1.0, ns / watched_ns) for id, ns in on_ns.items()} if watched_ns else {}

    def states(self) -> list[CallState]:
        """Return the state of every call of every copy that a job has mapped."""
        with self._lock:
            return [state for job in sorted(self._jobs) for state in self._states_of(job)]

    def dropped(self) -> dict[str, int]:
        """Return the records lost since loading by name, with every name from the start."""
        with self._lock:
            lost = self._kernel.losses() if self._kernel else dict.fromkeys(_LOSSES, 0)
            return lost | self._refused

    def close(self) -> None:
        """Detach everything; this waits for the kernel."""
        with self._lock:
            kernel, self._kernel = self._kernel, None
            self._jobs.clear()
        if kernel is not None:
            kernel.close()
        self.probe = ProbeState(PROBE, "unknown", "closed")

    # --- in the watching thread -------------------------------------------------------------------

    def look(self) -> int:
        """Attach and detach as wanted; return the time of the next look."""
        now_ns = self._clock_ns()
        if self._kernel is None:
            return now_ns + LOOK_MAX_NS
        self._windows.begin(now_ns)
        with self._lock:
            self._count_time(now_ns)
            gone = self._take_jobs()
        for _, process in gone:
            self._detach_all(process)
        with self._lock:
            self._forget(gone)
            living = [(job, p) for job in self._jobs.values() for p in job.processes.values()]
        for job, process in living:
            if now_ns >= process.look_at:
                self._scan(job, process, now_ns)
            self._settle(job, process, now_ns)
        self._looked_ns = self._clock_ns()
        if not self._wanted:
            return now_ns + LOOK_MAX_NS
        looks = (process.look_at for _, process in living)
        return min((self._windows.next_edge(now_ns), now_ns + LOOK_NS, *looks))

    def _take_jobs(self) -> list[tuple[_Job, _Process]]:
        """Add new jobs and processes and drop ended ones; return those to detach."""
        wanted = dict(list(self._wanted.items())[: self._limits.jobs])
        self._refused["calls.job"] = max(0, len(self._wanted) - self._limits.jobs)
        gone = [
            (job, process)
            for id, job in self._jobs.items()
            for pid, process in job.processes.items()
            if id not in wanted or start_time(pid) != process.started
        ]
        room = self._limits.processes - sum(len(job.processes) for job in self._jobs.values())
        new = [(id, pid) for id, pids in wanted.items() for pid in pids]
        new = [(id, pid) for id, pid in new if pid not in self._jobs.get(id, _Job()).processes]
        self._refused["calls.process"] = max(0, len(new) - room)
        for id, pid in new[: max(0, room)]:
            started = start_time(pid)
            if started is not None:
                self._jobs.setdefault(id, _Job()).processes[pid] = _Process(pid, started)
        for id in wanted:
            self._jobs.setdefault(id, _Job())
        return gone

    def _forget(self, gone: list[tuple[_Job, _Process]]) -> None:
        """Add the calls of ended processes to their job's total; remove jobs that are over."""
        rows = self._rows()
        for job, process in gone:
            _add(job.ended, rows.get(process.pid, {}))
            del job.processes[process.pid]
        for id in self._jobs.keys() - self._wanted.keys():
            del self._jobs[id]
        there = {pid for job in self._jobs.values() for pid in job.processes}
        for pid in rows.keys() - there:
            if self._kernel is not None:
                self._kernel.forget(pid)

    def _scan(self, job: _Job, process: _Process, now_ns: int) -> None:
        """Find the library copies that the process has mapped now."""
        before, began_ns = process.copies, time.thread_time_ns()
        try:
            copies = copies_of(process.pid, self._prefixes)
            process.absent = "" if copies else "no process of the job has such a library mapped"
        except StokerError as error:
            copies, process.absent = [], error.message
        found = {}
        for copy in copies:
            try:
                found[copy.key] = copy, self._library(job, process.pid, copy)
            except (StokerError, OSError) as error:
                process.absent = error.message if isinstance(error, StokerError) else str(error)
        process.copies = found
        changed = before.keys() != found.keys() or any(
            before[key][1] != found[key][1] for key in found
        )
        process.wait_ns = LOOK_NS if changed else min(2 * process.wait_ns, LOOK_MAX_NS)
        took_ns = time.thread_time_ns() - began_ns
        process.look_at = now_ns + max(process.wait_ns, LOOK_SHARE * took_ns)

    def _library(self, job: _Job, pid: int, copy: Copy) -> tuple[object, ...]:
        """Return the key of the copy's library, which is read if it is new."""
        with opened(pid, copy) as file:
            key = (*copy.key, *file.version)
            if key not in self._libraries:
                job.reads += 1
                if job.reads > READS_MAX:
                    raise Refused(f"the job has mapped more than {READS_MAX} such libraries")
                calls = self._read_library(file.fd, copy)
                chosen = choose(calls, self._limits.budget_ppm, self._costs)
                while len(self._libraries) >= LIBRARIES_MAX:
                    del self._libraries[next(iter(self._libraries))]
                self._libraries[key] = _Library(calls, {each.id: each for each in chosen})
            return key

    def _read_library(self, fd: int, copy: Copy) -> list[Call]:
        name = copy.path.rpartition("/")[2]
        mine = [t for t in self._targets.values() if name.startswith(t.library)]
        try:
            return find_calls(ElfFile(fd, copy.path), mine)
        except (StokerError, OSError) as error:
            why = error.message if isinstance(error, StokerError) else str(error)
            return [Call(target, (), "unknown", why) for target in mine]

    # --- what should be attached ------------------------------------------------------------------

    def _share(self, job: _Job, decision: SiteDecision) -> int:
        """Return the part of the time (ppm) for a call's sites. Calls of ranks are matched one by
        one, so a part of them is worth nothing: they are told all the time or not at all."""
        share = job.duties.get(decision.id, decision.duty_ppm) if decision.trap else 0
        return 0 if self._targets[decision.id].ranked and share < PPM else share

    def _settle(self, job: _Job, process: _Process, now_ns: int) -> None:
        """Attach and detach so that the process has exactly the groups it should have now."""
        wanted: dict[tuple[tuple[object, ...], int], tuple[str, ...]] = {}
        for _, key in process.copies.values():
            library = self._libraries.get(key)
            for decision in library.decisions.values() if library else ():
                duty = self._share(job, decision)
                if duty and self._windows.is_open(duty, now_ns):
                    wanted[key, duty] = (*wanted.get((key, duty), ()), decision.id)
        for place, group in list(process.groups.items()):
            if wanted.get(place) != group.ids or group.ranks != _has_ranks(process):
                del process.groups[place]
                if any(self._targets[id].ranked for id in group.ids):
                    process.told = None
                self._detach(group)
        for place in process.failed.keys() - wanted.keys():
            del process.failed[place]
        for place, ids in wanted.items():
            if place not in process.groups and process.failed.get(place, (0, ""))[0] <= now_ns:
                self._attach(process, place, ids, now_ns)

    def _attach(
        self,
        process: _Process,
        place: tuple[tuple[object, ...], int],
        ids: tuple[str, ...],
        now_ns: int,
    ) -> None:
        copy = next(copy for copy, key in process.copies.values() if key == place[0])
        kernel, ranks = self._kernel, _has_ranks(process)
        sites = [
            (
                site.offset,
                site.semaphore,
                self._numbers[call.target.id],
                site.entry_only,
                call.target.told if call.target.ranked or ranks else 0,
            )
            for call in self._libraries[place[0]].calls
            if call.target.id in ids
            for site in call.sites
        ]
        if any(self._targets[id].ranked for id in ids) and (
            process.told is None or any(self._targets[id].waits == "start" for id in ids)
        ):
            process.told = copy
        try:
            with opened(process.pid, copy) as file:
                same = (*copy.key, *file.version) == place[0]
                why = "" if same else "the file was changed"
                handle = kernel.attach(file.path, process.pid, sites) if kernel and same else 0
        except (StokerError, OSError) as error:
            handle, why = 0, error.message if isinstance(error, StokerError) else str(error)
        if handle > 0:
            process.groups[place] = _Group(handle, ids, ranks)
            process.failed.pop(place, None)
            return
        process.look_at = now_ns + LOOK_NS
        process.failed[place] = (now_ns + RETRY_NS, why or _why_not(handle))

    def _detach(self, group: _Group) -> None:
        if self._kernel is not None:
            self._kernel.detach(group.handle)

    def _detach_all(self, process: _Process) -> None:
        for group in process.groups.values():
            self._detach(group)
        process.groups.clear()

    # --- times ------------------------------------------------------------------------------------

    def _count_time(self, now_ns: int) -> None:
        """Charge the time since the end of the last look to the sites attached in it."""
        for job in self._jobs.values():
            job.watched_ns, job.on_ns = self._times(job, now_ns)
        self._looked_ns = 0

    def _times(self, job: _Job, now_ns: int | None = None) -> tuple[int, dict[str, int]]:
        """Return the watched time of a job and the attached time of each call, both until now.

        A job may be over before the next look, so the time since the last one counts, too.
        """
        looked_ns, on_ns = self._looked_ns, dict(job.on_ns)
        now_ns = self._clock_ns() if now_ns is None else now_ns
        passed = max(0, now_ns - looked_ns) if looked_ns else 0
        watched = any(process.copies for process in job.processes.values())
        there = {id for p in job.processes.values() for g in p.groups.values() for id in g.ids}
        for id in there if passed else ():
            on_ns[id] = on_ns.get(id, 0) + passed
        return job.watched_ns + (passed if watched else 0), on_ns

    # --- reports ----------------------------------------------------------------------------------

    def _rows(self) -> dict[int, dict[str, CallTimes]]:
        found: dict[int, dict[str, CallTimes]] = {}
        for row in self._kernel.read() if self._kernel else ():
            found.setdefault(row[0], {})[self._ids[row[1]]] = CallTimes(*row[2:])
        return found

    def _priced(self, job: _Job) -> dict[str, int]:
        """Return the most expensive hit of each call that has sites in any copy of the job."""
        found: dict[str, int] = {}
        for process in job.processes.values():
            for _, key in process.copies.values():
                library = self._libraries.get(key)
                for id, decision in library.decisions.items() if library else ():
                    if decision.trap is not None:
                        found[id] = max(found.get(id, 0), decision.hit_ns or 0)
        return found

    def _states_of(self, id: int) -> list[CallState]:
        job = self._jobs[id]
        found: dict[tuple[tuple[object, ...], str], CallState] = {}
        for process in job.processes.values():
            for _, key in process.copies.values():
                library = self._libraries.get(key)
                for decision in library.decisions.values() if library else ():
                    state = self._state(id, process, key, decision)
                    other = found.get((key, decision.id))
                    found[key, decision.id] = _together(other, state) if other else state
        missing = {why: None for p in job.processes.values() if (why := p.absent) and not p.copies}
        if not found and missing:
            return [
                CallState(target, id, "", "absent", next(iter(missing)), "", None, 0, 0)
                for target in self._ids
            ]
        return list(found.values())

    def _state(
        self, id: int, process: _Process, key: tuple[object, ...], decision: SiteDecision
    ) -> CallState:
        job = self._jobs[id]
        copy = next(copy for copy, each in process.copies.values() if each == key)
        duty = self._share(job, decision)
        attached = (key, duty) in process.groups
        reason = job.reasons.get(decision.id, decision.reason)
        state = decision.state
        if decision.trap is not None:
            state = "off" if not duty else "attached" if duty == PPM else "sampled"
            failed = process.failed.get((key, duty))
            if failed is not None:
                state, reason = "refused", failed[1]
        name = f"{copy.path} (deleted, still mapped)" if copy.deleted else copy.path
        return CallState(
            decision.id,
            id,
            name,
            state,
            reason,
            decision.trap or "",
            decision.hit_ns,
            duty,
            int(attached),
        )


def _has_ranks(process: _Process) -> bool:
    """Return whether the process's device may work for ranks: it has NCCL mapped."""
    return any(copy.path.rpartition("/")[2].startswith(NCCL) for copy, _ in process.copies.values())


def _add(totals: dict[str, CallTimes], more: Mapping[str, CallTimes]) -> None:
    for id, times in more.items():
        totals[id] = totals[id].plus(times) if id in totals else times


def _together(one: CallState, other: CallState) -> CallState:
    """Join the states of one call in two processes: attached in either counts as attached."""
    worse = other if one.state != "refused" else one
    return msgspec.structs.replace(worse, processes=one.processes + other.processes)


def _why_not(negative: int) -> str:
    """Describe the kernel's error for a failed attachment."""
    meant = _ANSWERS.get(-negative, "")
    return f"attaching: {os.strerror(-negative)}{f': {meant}' if meant else ''}"
