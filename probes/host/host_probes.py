# SPDX-License-Identifier: Apache-2.0
"""Threads and processes of jobs as the kernel sees them, through BPF.

Attaching never raises for a missing feature: each probe's state has the kernel's error. Totals stay
exact while threads come and go, and every loss is counted by name in `dropped()`. One instance
belongs to one thread.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from stoker.native.errors import StokerError, from_errno
from stoker.probes.catalogue import ProbeState, State, all_states
from stoker.probes.host.cgroups import cgroup_id, cgroup_level
from stoker.probes.host.host_records import (
    EventKind,
    HostTimes,
    ProcessEvent,
    StateDurations,
    ThreadTimes,
)
from stoker.probes.host.notices import Notice, notice_of
from stoker.probes.host.pressure import (
    ASK_CALLS,
    ASK_FAULTS,
    ASK_STACKS,
    JobPressure,
    NodeSignals,
    Tally,
    job_pressure,
    node_signals,
    psi_missing,
)
from stoker.probes.host.wait_stacks import StackWait, Symbols

if TYPE_CHECKING:
    from stoker.native import _bpf

__all__ = [
    "Cost",
    "HostLimits",
    "HostProbes",
    "HostTimes",
    "JobPressure",
    "NodeSignals",
    "Notice",
    "ProbeState",
    "StackWait",
    "cgroup_id",
]

NO_CGROUP = 2**64 - 1
"""An id that no cgroup has: the kernel counts them from 1."""

PAGE = mmap.PAGESIZE

_STATES: tuple[State, ...] = ("attached", "refused", "unknown", "off")
_KINDS: tuple[EventKind, ...] = ("exec", "fork", "thread", "exit", "thread_exit")


class HostLimits(msgspec.Struct, frozen=True):
    """The sizes of the kernel's tables and rings; beyond each one, losses are counted."""

    threads: int = 16384
    """The most threads of all jobs alive at once."""
    jobs: int = 8192
    """The most jobs known at once: alive, or ended and neither unfollowed nor expired."""
    span_ring_bytes: int = 16 << 20
    """Power of two, at least one page. A span takes 40 bytes. The first job that is followed in
    full makes this ring, and `rest` frees it."""
    event_ring_bytes: int = 1 << 20
    """Power of two, at least one page. Thread events may fill half of it."""
    notice_ring_bytes: int = 1 << 18
    """Power of two, at least one page; of critical notices, and of opens of devices."""
    tallies: int = 16384
    """The most tallies at once: about ten for each job, and one for each process and device."""
    stack_ns: int = 1_000_000
    """Waits shorter than this have no stack kept."""


def _states_of(answers: list[tuple[str, int, str]]) -> list[ProbeState]:
    return [ProbeState(id, _STATES[state], why) for id, state, why in answers]


class Cost(msgspec.Struct, frozen=True):
    """The run time of the programs during a measuring window, on all CPUs together."""

    run_ns: int = 0
    runs: int = 0
    window_ns: int = 0
    programs: dict[str, tuple[int, int]] | None = None
    """The ns and number of runs by probe id."""
    absent: str = ""
    """The reason why nothing was measured; the numbers are then meaningless."""


class HostProbes:
    """The attached programs and their maps. `attach` makes them, `close` ends them.

    A job is named by the id of its cgroup, a grandchild of the jobs cgroup. Threads of every
    job are accounted from their first event on; `follow` adds a timeline, `unfollow` forgets.
    """

    def __init__(self, kernel: _bpf.Host | None, states: list[ProbeState]) -> None:
        self._kernel = kernel
        self.states = states
        self._asked: dict[int, int] = {}
        self._no_psi = psi_missing()
        self._symbols = Symbols()
        self.has_span_ring = False
        """True if there may be a ring of spans."""
        self.attached_ns = time.monotonic_ns()
        """The CLOCK_MONOTONIC ns from which on threads are seen."""

    @classmethod
    def attach(
        cls, jobs_cgroup: Path, limits: HostLimits | None = None, *, btf_path: str = ""
    ) -> Self:
        """Attach all that this kernel allows, for the cgroups below `jobs_cgroup` (cgroup v2).

        Never raises for a missing permission, feature or build part: `states` has the reason.
        `btf_path` names another file than the running kernel's own description of its types.
        """
        try:
            target = cgroup_id(jobs_cgroup), cgroup_level(jobs_cgroup)
            directory = os.open(jobs_cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (StokerError, OSError) as error:
            return cls(None, all_states("unknown", str(error)))
        try:
            return cls._attach(target, limits or HostLimits(), directory, btf_path)
        finally:
            os.close(directory)

    @classmethod
    def trial(cls) -> list[ProbeState]:
        """Return the states that `attach` would give: attach for no cgroup, then detach."""
        return cls.trial_measured(0.0)[0]

    @classmethod
    def trial_measured(cls, window_s: float) -> tuple[list[ProbeState], Cost]:
        """Return states as `trial`, and the programs' cost in `window_s` for tasks in no job."""
        limits = HostLimits(1, 1, PAGE, PAGE, PAGE, 1)
        with cls._attach((NO_CGROUP, 1), limits, -1, "") as probes:
            if not window_s:
                return probes.states, Cost(absent="not asked for")
            probes.begin_cost()
            time.sleep(window_s)
            return probes.states, probes.cost()

    @classmethod
    def _attach(
        cls, target: tuple[int, int], limits: HostLimits, directory: int, btf_path: str
    ) -> Self:
        try:
            from stoker.native import _bpf
        except ImportError as error:
            why = f"this build has no eBPF part ({error}): clang, bpftool or libbpf-dev was missing"
            return cls(None, all_states("unknown", why))
        kernel = _bpf.Host(
            *target,
            jobs_directory=directory,
            threads=limits.threads,
            jobs=limits.jobs,
            tallies=limits.tallies,
            span_ring_bytes=limits.span_ring_bytes,
            event_ring_bytes=limits.event_ring_bytes,
            notice_ring_bytes=limits.notice_ring_bytes,
            stack_ns=limits.stack_ns,
            btf_path=btf_path,
        )
        return cls(kernel, _states_of(kernel.attach()))

    def follow(self, job: int, full: bool) -> None:
        """Keep this job until `unfollow`; with `full`, also record a span of every interval.

        Does nothing if the programs are not attached; Refused if `limits.jobs` is reached.
        """
        self.has_span_ring |= full and self._kernel is not None
        if self._kernel is not None and (error := self._kernel.follow(job, full)):
            raise from_errno(error, f"follow the job of cgroup {job}")

    def unfollow(self, job: int) -> None:
        """Forget a job and its threads; for after its end, since living threads start anew."""
        if self._kernel is not None:
            self._kernel.unfollow(job)
            self._asked.pop(job, None)
            self.states = _states_of(self._kernel.states())

    def read(self, job: int) -> HostTimes:
        """Return the times of one job's threads now, since `attached_ns`."""
        now_ns = time.monotonic_ns()
        return self._read(job).get(job) or HostTimes(
            job, now_ns, now_ns, None, absent=self._why_nothing()
        )

    def read_all(self) -> dict[int, HostTimes]:
        """Return the times of every known job, in one pass over the kernel's tables."""
        return self._read(0)

    def spans(self) -> dict[int, bytes]:
        """Return the spans since the last call by job: 24-byte records of span.h in order of their
        end.
        """
        return self._kernel.spans() if self._kernel is not None else {}

    def rest(self) -> None:
        """Free the ring of spans and the names of functions, unless a job is followed in full or
        the latest `spans` found some. The next job followed in full makes them again."""
        self.has_span_ring = self._kernel is not None and not self._kernel.rest()
        if not self.has_span_ring:
            self._symbols = Symbols()

    def process_events(self) -> list[ProcessEvent]:
        """Return the events of jobs' processes since the last call, in order."""
        if self._kernel is None:
            return []
        return [ProcessEvent(_KINDS[event[0]], *event[1:]) for event in self._kernel.events()]

    def opt_in(
        self, job: int, *, calls: bool = False, stacks: bool = False, faults: bool = False
    ) -> None:
        """Set a job's opt-ins: device calls, wait stacks, page faults by mode with their CPU time.

        The programs are attached for the first job that opts in and detached after the last. A call
        without opt-ins ends them and forgets the job's stacks; so does `unfollow`. `states` shows
        the result. Raises Refused if too many jobs opt in or the kernel refuses.
        """
        if self._kernel is None:
            return
        what = calls * ASK_CALLS + stacks * ASK_STACKS + faults * ASK_FAULTS
        error = self._kernel.ask(job, what)
        if not error:
            self._note(job, what)
        self.states = _states_of(self._kernel.states())
        if error:
            raise from_errno(error, f"watch the job of cgroup {job} more closely")

    def pressure(self, job: int) -> JobPressure:
        """Return delays of a job's threads by others than themselves; None if none was seen."""
        return self._pressure(job, self.read(job), self._tallies())

    def pressures(self) -> dict[int, JobPressure]:
        """Return the delays of every known job's threads, in one pass over the kernel's tables."""
        tallies = self._tallies()
        return {job: self._pressure(job, times, tallies) for job, times in self.read_all().items()}

    def node_signals(self) -> NodeSignals:
        """Return clocks and thermal events of the node since attaching."""
        return node_signals(self._tallies(), self.states)

    def critical(self) -> list[Notice]:
        """Return kills, deadly signals, refused devices and Xids since the last call, in order."""
        found = self._kernel.critical() if self._kernel is not None else []
        return [notice_of(each) for each in found]

    def device_opens(self) -> list[Notice]:
        """Return the device files that jobs tried to open since the last call, in order."""
        found = self._kernel.opens() if self._kernel is not None else []
        return [notice_of(each) for each in found]

    def stack_waits(self, job: int, most: int = 20) -> list[StackWait]:
        """Return the places where a job's threads waited longest since its opt-in, longest first.

        Frames have names if the first call is made while the processes live.
        """
        if self._kernel is None:
            return []
        waits = sorted(self._kernel.stack_waits(job), key=lambda each: -each[6])[:most]
        return [self._symbols.wait_of(each, self._kernel.stack) for each in waits]

    def made(self) -> dict[str, int]:
        """Return the records made since attaching by name: delivered + dropped + still queued."""
        return self._kernel.made() if self._kernel is not None else {}

    def dropped(self) -> dict[str, int]:
        """Return the losses since attaching by name, with every name from the start."""
        return self._kernel.dropped() if self._kernel is not None else {}

    def begin_cost(self) -> None:
        """Open a measuring window; keep it short, as it slows every BPF program of the machine."""
        if self._kernel is not None:
            self._kernel.begin_cost()

    def cost(self) -> Cost:
        """Close the window; return the run time of the programs in it."""
        if self._kernel is None:
            return Cost(absent=self._why_nothing())
        window_ns, programs, why = self._kernel.end_cost()
        if why:
            return Cost(absent=why)
        spent = {id: (ns, runs) for id, ns, runs in programs}
        run_ns, runs = (sum(each[i] for each in spent.values()) for i in (0, 1))
        return Cost(run_ns, runs, window_ns, spent)

    def close(self) -> None:
        """Detach and free everything; afterwards this object behaves as if never attached."""
        if self._kernel is not None:
            self._kernel.close()
            self._kernel = None
            self.has_span_ring = False
            self.states = all_states("unknown", "closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, job: int) -> dict[int, HostTimes]:
        if self._kernel is None:
            return {}
        asked_ns, t_ns, jobs = self._kernel.read(job)
        return {
            id: HostTimes(
                id,
                asked_ns,
                t_ns,
                StateDurations(*totals),
                tuple(ThreadTimes(*fixed, StateDurations(*times)) for fixed, times in threads),
                ended,
                unsettled,
            )
            for id, totals, threads, ended, unsettled in jobs
        }

    def _note(self, job: int, what: int) -> None:
        """Keep a job's opt-ins; past ones stay readable until the job is forgotten."""
        if what:
            self._asked[job] = self._asked.get(job, 0) | what

    def _pressure(self, job: int, times: HostTimes, tallies: list[Tally]) -> JobPressure:
        asked = self._asked.get(job, 0)
        return job_pressure(job, times, tallies, self.states, asked=asked, no_psi=self._no_psi)

    def _tallies(self) -> list[Tally]:
        if self._kernel is None:
            return []
        return [Tally(*each) for each in self._kernel.tallies()]

    def _why_nothing(self) -> str:
        switch = next(state for state in self.states if state.id == "host.sched.switch")
        return switch.reason or "no thread of this cgroup was seen since attaching"
