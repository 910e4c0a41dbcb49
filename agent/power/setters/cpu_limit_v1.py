# SPDX-License-Identifier: Apache-2.0
"""A device without a power limit that runs on the host's CPUs: its jobs get a share of their time.

The share of CPU time stands for the same share of the power. The first limit makes a group of the
cgroup v1 cpu controller and moves the jobs' processes into it; the group is removed when the limit
is given back. A job with a CPU limit of its own is not moved, and its own limit counts. Invariants:
only processes of jobs that were granted the device are moved; what is read back is what the
kernel's files say.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.cpu_quota import held_group, node_groups, v1_cpu
from stoker.agent.power.plan.card import PowerRange
from stoker.agent.power.setters.cpu_limit_v2 import CpuLimitV2, enable
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.power.setters.without_clocks import WithoutClocks

LEAST = 0.1
"""The least share of its power that the device keeps, so that jobs go on, however slowly."""
PERIOD_US = 100_000
PROCESSES_MAX = 4096
"""The most processes of one device that are moved."""


def own_group(mount: Path, proc: Path = Path("/proc")) -> Path:
    """The group of this process, to which processes go back."""
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return mount / path.lstrip("/")
    return mount


Jobs = Callable[[], Iterable[tuple[str, Path]]]
"""(name, cgroup v2 folder) of each job on a device."""


class Groups(NamedTuple):
    """Groups of the v1 cpu controller."""

    held: Path
    """Group made for the limited processes."""
    back: Path
    """Group that they came from."""
    limited: Path
    """Parent of the groups of jobs with a CPU limit of their own."""


class CpuLimitV1(WithoutClocks):
    """The limit of one device."""

    def __init__(self, groups: Groups, draws_w: float, cpus: int, jobs: Jobs) -> None:
        self._group, self._back, self._limited = groups
        self._draws_w, self._cpus, self._jobs = draws_w, cpus, jobs

    @property
    def _quota(self) -> Path:
        return self._group / "cpu.cfs_quota_us"

    @property
    def _whole_us(self) -> int:
        return self._cpus * PERIOD_US

    def limits(self) -> PowerRange | Absent:
        return PowerRange(LEAST * self._draws_w, self._draws_w, self._draws_w)

    def power_limit_w(self) -> float | Absent:
        """Includes jobs that were granted the device since the last call."""
        if not self._group.is_dir():
            return self._draws_w
        try:
            self._take_in()
            held = _number(self._quota)
        except OSError as error:
            return Absent(f"{self._group}: {error.strerror}")
        if held < 0:
            return self._draws_w
        share = (held + self._own_us()) / self._whole_us
        return self._draws_w * min(1.0, share)

    def set_power_limit(self, watts: float) -> Absent | None:
        if not LEAST * self._draws_w - 0.5 <= watts <= self._draws_w + 0.5:
            return Absent(f"{watts:g} W: the device takes {self.limits()}")
        try:
            if watts > self._draws_w - 0.5:
                self._let_go()
                return None
            self._group.mkdir(parents=True, exist_ok=True)
            wanted = round(watts / self._draws_w * self._whole_us) - self._own_us()
            self._quota.write_text(str(max(wanted, round(LEAST * self._whole_us))))
            self._take_in()
        except OSError as error:
            return Absent(f"{self._group}: {error.strerror}")
        return None

    def found(self) -> list[RecordedSetting] | Absent:
        """Original setting: all CPUs' time, so restoring need not move any process."""
        return [RecordedSetting("file", str(self._quota), "quota", self._whole_us)]

    def _own_us(self) -> int:
        """CPU time per period that jobs with a CPU limit of their own may use."""
        quotas = (self._limited / name / "cpu.cfs_quota_us" for name, _ in self._jobs())
        return sum(max(_number(path), 0) for path in quotas if path.exists())

    def _take_in(self) -> None:
        there = set((self._group / "cgroup.procs").read_text().split())
        wanted = [
            process
            for name, job in self._jobs()
            if not (self._limited / name).exists()
            for process in _processes(job)
        ]
        for process in wanted[:PROCESSES_MAX]:
            if process not in there:
                _move(process, self._group)

    def _let_go(self) -> None:
        """Moves every process back and removes the group."""
        if not self._group.is_dir():
            return
        self._quota.write_text("-1")
        for process in _processes(self._group):
            _move(process, self._back)
        self._group.rmdir()


def _number(path: Path) -> int:
    return int(path.read_text())


def _processes(group: Path) -> list[str]:
    try:
        return (group / "cgroup.procs").read_text().split()
    except FileNotFoundError:  # the job has ended
        return []


def _move(process: str, group: Path) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended
        (group / "cgroup.procs").write_text(process)


def cpu_hold(
    device: str, instance: str, draws_w: float, jobs: Jobs, folder: Path
) -> CpuLimitV1 | CpuLimitV2 | Absent:
    """The limit of a device of this instance, or why it has none; `folder`: groups of jobs."""
    if os.geteuid() != 0:
        return Absent("not root: jobs' CPU time cannot be held down")
    mount = v1_cpu()
    if isinstance(mount, Absent):
        return held_cpus(mount, folder, draws_w, jobs)
    own = node_groups(mount, instance)
    groups = Groups(own / held_group(device), own_group(mount), own)
    return held_cpus(groups, folder, draws_w, jobs)


def held_cpus(
    groups: Groups | Absent, folder: Path, draws_w: float, jobs: Jobs
) -> CpuLimitV1 | CpuLimitV2 | Absent:
    """The limit by cgroup v1 if that has the cpu controller, else by v2."""
    cpus = len(os.sched_getaffinity(0))
    if not isinstance(groups, Absent):
        return CpuLimitV1(groups, draws_w, cpus, jobs)
    refused = enable(folder)
    if refused is not None:
        return Absent(f"{groups.why}; {refused.why}")
    return CpuLimitV2(draws_w, cpus, lambda: list(jobs()))
