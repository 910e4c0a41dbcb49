# SPDX-License-Identifier: Apache-2.0
"""The time in which a CPU quota let no thread of a job run, by the kernel's counters (cpu.stat).

The kernel adds up what every CPU lost, so a job that was stopped on two CPUs at once has twice the
time. It also counts the periods in which the quota was used up. A job that keeps c CPUs busy uses
up its quota q of a period p after q / c and then stands still for p - q / c, which every one of the
c CPUs counts. Both counters together therefore give c, and with it the time of one clock.
Invariant: `least_ns <= likely_ns <= most_ns`, and the true time lies between the outer two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.attempt_folders import cgroup_folder, cgroup_name
from stoker.scheduler.nouns import TaskKey

PERIOD_US = 100_000
"""The kernel's default period, which stoker does not change."""
_BYTES_MAX = 4096


class Stopped(NamedTuple):
    """The time since the group was made in which its quota let nobody run."""

    least_ns: int = 0
    likely_ns: int = 0
    most_ns: int = 0


class Quota(NamedTuple):
    """The counters of one group; `quota_us` is its share of a period, None if it has no limit."""

    periods: int
    """The periods in which the quota was used up."""
    lost_ns: int
    """The time that it took from every CPU, added up."""
    quota_us: int | None
    period_us: int = PERIOD_US

    def stopped(self, cpus: int) -> Stopped:
        """Return the time of one clock on a machine with so many CPUs."""
        if not self.periods or not self.lost_ns:
            return Stopped()
        whole_ns = self.periods * self.period_us * 1000
        ran_ns = self.periods * (self.quota_us or 0) * 1000
        most_ns = min(self.lost_ns, whole_ns)
        least_ns = min(self.lost_ns // cpus, most_ns)
        together_ns = self.lost_ns * whole_ns // (self.lost_ns + ran_ns)
        return Stopped(least_ns, min(max(together_ns, least_ns), most_ns), most_ns)


class QuotaGroups:
    """The groups of this node in which jobs can have a quota: their own one, or one of all jobs of
    a device that the power loop holds down on cgroup v1."""

    def __init__(self, jobs: Path | None, v1_groups: Path | None, cpus: int = 0) -> None:
        """`jobs`: the cgroup v2 of all jobs; `v1_groups`: this node's folder of the v1 cpu
        controller, None where that is not mounted."""
        self._jobs, self._v1 = jobs, v1_groups
        self._cpus = cpus or len(os.sched_getaffinity(0))

    def stopped(self, key: TaskKey, device: str) -> Stopped:
        """Return for how long the quotas of a start on this device have let nobody run so far."""
        found = [quota.stopped(self._cpus) for quota in self._quotas(key, device)]
        return Stopped(*(sum(each) for each in zip(*found, strict=True))) if found else Stopped()

    def _quotas(self, key: TaskKey, device: str) -> list[Quota]:
        if self._v1 is None:
            jobs = self._jobs
            found = read_v2(cgroup_folder(jobs, key)) if jobs is not None else None
        else:
            own = read_v1(self._v1 / cgroup_name(key))
            found = own if own is not None else read_v1(self._v1 / held_group(device))
        return [found] if found is not None else []


def v1_cpu(proc: Path = Path("/proc")) -> Path | Absent:
    """The mount point of the cgroup v1 cpu controller."""
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ")[:3]
        if kind == "cgroup" and "cpu" in options.split(","):
            return Path(fields.split(" ")[4])
    return Absent("the cpu controller of cgroup v1 is not mounted")


def v1_groups(instance: str) -> Path | None:
    """Return a node's folder of the cgroup v1 cpu controller; None where that is not mounted."""
    mount = v1_cpu()
    return None if isinstance(mount, Absent) else node_groups(mount, instance)


def node_groups(mount: Path, instance: str) -> Path:
    """Return a node's folder of the cgroup v1 cpu controller, as the spawner makes it."""
    return mount / f"stoker-{instance}"


def held_group(device: str) -> str:
    """Return the name of the v1 group of all jobs of a device that is held down."""
    return f"held-{device}"


def read_v1(group: Path) -> Quota | None:
    """Return the counters of a group of the v1 cpu controller; None if there is none."""
    stat = _numbers(group / "cpu.stat")
    if "throttled_time" not in stat:
        return None
    quota_us = _number(group / "cpu.cfs_quota_us", -1)
    period_us = _number(group / "cpu.cfs_period_us", PERIOD_US)
    known = quota_us if quota_us > 0 else None
    return Quota(stat.get("nr_throttled", 0), stat["throttled_time"], known, period_us)


def read_v2(group: Path) -> Quota | None:
    """Return the counters of a cgroup v2; None if the cpu controller is not on there."""
    stat = _numbers(group / "cpu.stat")
    if "throttled_usec" not in stat:
        return None
    quota, _, period = _text(group / "cpu.max").partition(" ")
    known = int(quota) if quota.isdigit() else None
    period_us = int(period) if period.strip().isdigit() else PERIOD_US
    return Quota(stat.get("nr_throttled", 0), stat["throttled_usec"] * 1000, known, period_us)


def _numbers(path: Path) -> Mapping[str, int]:
    rows = (line.partition(" ") for line in _text(path).splitlines())
    return {name: int(value) for name, _, value in rows if value.isdigit()}


def _number(path: Path, default: int) -> int:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdigit() else default


def _text(path: Path) -> str:
    try:
        with path.open() as file:
            return file.read(_BYTES_MAX)
    except OSError:  # the group is not there, or is gone with its job
        return ""
