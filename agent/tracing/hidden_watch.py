# SPDX-License-Identifier: Apache-2.0
"""The thread that looks for processes of jobs that use a device without a tracer.

`JobCalls` relies on it. It reads files of the kernel and waits for nothing else: a job that hides
its work may last a second, in which attaching the probes of other jobs can still wait for the
kernel. A job is named by the id of its cgroup.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from stoker.agent.tracing.cgroup_processes import processes_of
from stoker.agent.tracing.untraced_processes import HiddenUse, UntracedProcesses
from stoker.probes.calls.look_thread import LookThread
from stoker.probes.kernels.job_trace import FoundSegment

PIDS_EVERY_NS = 500_000_000
"""Nanoseconds between two readings of the processes of all jobs."""
IDLE_NS = 60_000_000_000
"""Nanoseconds between two looks while there is no job; the first one that begins ends the wait."""


class HiddenWatch:
    """The hidden processes of all jobs of the node. All but `_look` is for any thread."""

    def __init__(self) -> None:
        self._jobs: dict[int, tuple[Callable[[], Path], HiddenUse]] = {}
        """cgroup id -> its folder, which is looked up when it is read, and its processes."""
        self._read_at = 0
        self._thread = LookThread("hidden", self._look, most_s=IDLE_NS / 1e9)

    def start(self) -> None:
        """Start the thread and return at once."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def begin(self, cgroup_id: int, folder: Callable[[], Path], segments: Path) -> None:
        """Watch a job, whose tracers write to `segments`; a second call changes nothing."""
        self._jobs.setdefault(cgroup_id, (folder, HiddenUse(time.monotonic_ns(), segments)))
        if len(self._jobs) == 1:
            self._thread.hurry()

    def end(self, cgroup_id: int) -> None:
        """Forget a job that is over."""
        self._jobs.pop(cgroup_id, None)

    def started(self, programs: Iterable[tuple[int, int]]) -> None:
        """Look soon at these processes (cgroup id, pid), which have begun a program just now."""
        for cgroup_id, pid in programs:
            if cgroup_id in self._jobs:
                self._jobs[cgroup_id][1].began(pid)
        self._read_at = 0
        self._thread.hurry()

    def found(self, cgroup_id: int, segments: Iterable[FoundSegment], now_ns: int) -> None:
        """Record segments that processes of this job have made by now: they have a tracer."""
        if (job := self._jobs.get(cgroup_id)) is not None:
            job[1].found(segments, now_ns)

    def hidden(self, cgroup_id: int, now_ns: int) -> UntracedProcesses | None:
        """Return what the job's processes did without a tracer until `now_ns`, or None if they
        were never examined."""
        job = self._jobs.get(cgroup_id)
        return None if job is None else job[1].until(now_ns)

    def _look(self) -> int:
        """Examine what is due; return the time on CLOCK_MONOTONIC (ns) of the next look."""
        now_ns = time.monotonic_ns()
        jobs = list(self._jobs.values())
        if not jobs:
            return now_ns + IDLE_NS
        if now_ns >= self._read_at:
            self._read_at = now_ns + PIDS_EVERY_NS
            for folder, use in jobs:
                use.look(processes_of(folder()), time.monotonic_ns())
        due = [use.look_again(time.monotonic_ns()) for _, use in jobs]
        return min([self._read_at, *due])
