# SPDX-License-Identifier: Apache-2.0
"""A jobs cgroup of a test's own, and known programs run in it.

Leaves no process and no directory behind. On a machine where the suite is root, cgroup v2 must be
usable: a test that needs it then fails rather than skips.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.probes.catalogue import ProbeState
from stoker.probes.host.host_probes import cgroup_id

CLOCK_NANOSLEEP = {"x86_64": 230, "aarch64": 115}.get(platform.machine())
"""Number of the system call that the workload sleeps in; None: not known, so not reported."""


OF_DRIVERS = {"host.critical.xid", "host.gpu.queue", "host.gpu.run"}
"""Probes of tracepoints that come with a GPU's driver; where none is, they are refused."""

UNTIL_ASKED = {
    "host.device.ioctl",
    "host.sched.stack",
    "host.memory.user_fault",
    "host.memory.kernel_fault",
    "host.memory.handling",
}
"""Probes that are off for their cost until a job asks."""


def as_expected(state: ProbeState) -> bool:
    """True if a probe is in the state it must have on any machine that runs these tests."""
    if state.id in UNTIL_ASKED:
        return state.state == "off" and "would pay" in state.reason
    if state.id in OF_DRIVERS and state.state == "refused":
        return state.reason.startswith("this kernel has no tracepoint ")
    return state.state == "attached" and not state.reason


def cgroup2_mount() -> Path:
    """Return where cgroup v2 is mounted, or end the test: skipped, for root failed."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        if fields[fields.index("-") + 1] == "cgroup2":
            return Path(fields[4])
    return _cannot("no cgroup v2 is mounted")


def require_root() -> None:
    """Loading BPF and making cgroups need root; without it the test says so and is skipped."""
    if os.geteuid():
        pytest.skip("not root: BPF programs cannot be loaded and cgroups cannot be made")


def _cannot(why: str) -> Path:
    if os.geteuid():
        pytest.skip(why)
    pytest.fail(f"{why}, although this is root")


class Job:
    """One job's cgroup and the programs started in it."""

    def __init__(self, path: Path, workload: Path) -> None:
        path.mkdir()
        self.path = path
        self.id = cgroup_id(path)
        self._workload = workload
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, verb: str, argument: int, prefix: tuple[str, ...] = ()
    ) -> subprocess.Popen[bytes]:
        """Start the workload as a new process of this cgroup; returns its parent, outside."""
        argv = [*prefix, str(self._workload), "into", str(self.path), verb, str(argument)]
        process = subprocess.Popen(argv)
        self._started.append(process)
        return process

    def run(self, verb: str, argument: int) -> int:
        """Run it to its end; the exit code, or 128 + signal. The cgroup is empty afterwards."""
        code = self.start(verb, argument).wait(60)
        eventually(lambda: "populated 0" in (self.path / "cgroup.events").read_text())
        return code

    def close(self) -> None:
        """Kill what is left and remove the cgroup."""
        (self.path / "cgroup.kill").write_text("1")
        for process in self._started:
            process.wait(60)
        eventually(lambda: "populated 0" in (self.path / "cgroup.events").read_text())
        self.path.rmdir()


class Groups:
    """`root`/jobs with jobs in a group below it, and groups beside it that are no jobs."""

    def __init__(self, root: Path, workload: Path) -> None:
        self.root = root
        self.jobs = root / "jobs"
        self._workload = workload
        self._made: list[Job] = []
        self._memory: Path | None = None
        self._group = self.jobs / "fenced"
        self._group.mkdir(parents=True)

    def job(self, name: str = "1.1") -> Job:
        """A new job's group."""
        return self._add(self._group / name)

    def beside(self, name: str = "other") -> Job:
        """A group at a job's depth that is not below the jobs cgroup."""
        (self.root / "aside" / "fenced").mkdir(parents=True, exist_ok=True)
        return self._add(self.root / "aside" / "fenced" / name)

    def limit_memory(self, job: Job, limit: int) -> tuple[str, ...]:
        """Limit what the job may use; returns a prefix for its command line (cgroup v1 or v2)."""
        if (job.path / "memory.max").exists():
            (job.path / "memory.max").write_text(str(limit))
            return ()
        self._memory = Path("/sys/fs/cgroup/memory") / self.root.name
        self._memory.mkdir()
        (self._memory / "memory.limit_in_bytes").write_text(str(limit))
        return "sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self._memory / "cgroup.procs")

    def close(self) -> None:
        for job in reversed(self._made):
            job.close()
        if self._memory is not None:
            self._memory.rmdir()
        aside = self.root / "aside"
        for path in (aside / "fenced", aside, self._group, self.jobs, self.root):
            if path.exists():
                path.rmdir()

    def _add(self, path: Path) -> Job:
        self._made.append(Job(path, self._workload))
        return self._made[-1]


def eventually(done: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for the kernel to catch up; fails with the condition's source line in the traceback."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.005)


def rings() -> list[int]:
    """The bytes of each part of a ring that is mapped here; a ring has its data mapped twice."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("anon_inode:bpf-map"):
            first, last = (int(part, 16) for part in line.split()[0].split("-"))
            found.append(last - first)
    return found


def ring_bytes() -> int:
    """The bytes of all rings that are mapped into this process."""
    return sum(rings())
