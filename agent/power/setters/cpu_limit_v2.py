# SPDX-License-Identifier: Apache-2.0
"""A device that runs on the host's CPUs, held on cgroup v2: `cpu.max` of each of its jobs' groups.

The jobs' groups are stoker's own, so no process is moved. The jobs of the device share its CPU time
evenly. A job with a CPU limit of its own keeps that limit, which counts as its share. Invariants:
the limit of a group is changed only after it was noted on the durable record; what is read back is
what the kernel's files say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from stoker.agent.devices.readings import Absent
from stoker.agent.jobs.attempt_folders import FENCED, FREE
from stoker.agent.power.plan.card import PowerRange
from stoker.agent.power.setters.record import RecordedSetting
from stoker.agent.power.setters.without_clocks import WithoutClocks
from stoker.native.errors import StokerError

LEAST: Final = 0.1
"""The least share of its power that the device keeps, so that jobs go on, however slowly."""
PERIOD_US: Final = 100_000
QUOTA_LEAST_US: Final = 1000
"""The kernel's smallest quota."""
JOBS_MAX: Final = 64
"""The most jobs of one device that are limited; each has an entry on record."""

Jobs = Callable[[], Sequence[tuple[str, Path]]]
"""(name, group) of each job on a device."""
Note = Callable[[Sequence[RecordedSetting]], None]


def enable(jobs: Path) -> Absent | None:
    """Enable the cpu controller in the groups of jobs, from the mount down, as the spawner does."""
    for group in (jobs.parent.parent, jobs.parent, jobs, jobs / FENCED, jobs / FREE):
        control = group / "cgroup.subtree_control"
        try:
            if "cpu" not in (group / "cgroup.controllers").read_text().split():
                return Absent(f"{group} has no cpu controller of cgroup v2")
            if "cpu" not in control.read_text().split():
                control.write_text("+cpu")
        except OSError as error:
            return Absent(f"{control}: {error.strerror}")
    return None


class CpuLimitV2(WithoutClocks):
    """The limit of one device."""

    def __init__(self, draws_w: float, cpus: int, jobs: Jobs) -> None:
        self._draws_w, self._cpus, self._jobs = draws_w, cpus, jobs
        self._limit_w = draws_w
        self._mine: set[Path] = set()
        """Entries on record."""
        self.note: Note = lambda found: None
        """Adds entries to the durable record, or raises; the owner of the record sets it."""

    @property
    def _whole_us(self) -> int:
        return self._cpus * PERIOD_US

    def limits(self) -> PowerRange | Absent:
        return PowerRange(LEAST * self._draws_w, self._draws_w, self._draws_w)

    def power_limit_w(self) -> float | Absent:
        """Includes jobs that were granted the device since the last call."""
        if self._limit_w > self._draws_w - 0.5:
            return self._draws_w
        refused = self._hold()
        if refused is not None:
            return refused
        try:
            used = sum(min(_quota_us(path), self._whole_us) for path in self._present())
        except OSError as error:
            return Absent(f"cpu.max: {error.strerror}")
        share = used / self._whole_us
        return max(self._limit_w, self._draws_w * min(1.0, share))

    def set_power_limit(self, watts: float) -> Absent | None:
        if not LEAST * self._draws_w - 0.5 <= watts <= self._draws_w + 0.5:
            return Absent(f"{watts:g} W: the device takes {self.limits()}")
        self._limit_w = watts
        return self._let_go() if watts > self._draws_w - 0.5 else self._hold()

    def found(self) -> list[RecordedSetting] | Absent:
        """Settings of the present jobs; those of later jobs are noted before they are changed."""
        try:
            self._mine = {path for path in self._present() if not self._own_limit(path)}
        except OSError as error:
            return Absent(f"cpu.max: {error.strerror}")
        return [_found(path) for path in sorted(self._mine)]

    def _present(self) -> list[Path]:
        return [path for _, job in self._jobs() if (path := job / "cpu.max").exists()]

    def _own_limit(self, path: Path) -> bool:
        return path not in self._mine and _quota_us(path) < self._whole_us

    def _hold(self) -> Absent | None:
        """Sets the share of every job of the device; one that has just ended is skipped."""
        try:
            present = self._present()
            if len(present) > JOBS_MAX:
                return Absent(f"counts whole: more than {JOBS_MAX} jobs on it cannot be held")
            own = [path for path in present if self._own_limit(path)]
            self._take_in([path for path in present if path not in own])
            left = self._limit_w / self._draws_w * self._whole_us - sum(map(_quota_us, own))
            left = max(left, LEAST * self._whole_us)
            held = [path for path in present if path in self._mine]
            for path in held:
                quota = max(round(left / len(held)), QUOTA_LEAST_US)
                if _quota_us(path) != quota:
                    path.write_text(f"{quota} {PERIOD_US}")
        except FileNotFoundError:
            return None
        except OSError as error:
            return Absent(f"cpu.max: {error.strerror}")
        except StokerError as error:
            return Absent(error.message)
        return None

    def _take_in(self, paths: Sequence[Path]) -> None:
        new = [path for path in paths if path not in self._mine]
        if new:
            self.note([_found(path) for path in new])
            self._mine = {path for path in self._mine if path.exists()} | set(new)

    def _let_go(self) -> Absent | None:
        for path in self._mine:
            try:
                if path.exists():
                    path.write_text(f"max {PERIOD_US}")
            except OSError as error:
                if path.exists():
                    return Absent(f"{path}: {error.strerror}")
        return None


def _found(path: Path) -> RecordedSetting:
    return RecordedSetting("file", str(path), "cpu_max", 0)


def _quota_us(path: Path) -> int:
    """Quota per PERIOD_US; without one, more than any machine has."""
    quota, period = path.read_text().split()
    return 1 << 40 if quota == "max" else round(int(quota) / int(period) * PERIOD_US)
