# SPDX-License-Identifier: Apache-2.0
"""Limits on the jobs of a device whose driver takes no power limit.

A device that runs on the host's CPUs is limited by the CPU time of its jobs, any other by their
launches. The decision rests on the device's kind alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from stoker.agent.devices.readings import Absent, CardReadings
from stoker.agent.jobs.attempt_folders import cgroup_folder, cgroup_name
from stoker.agent.jobs.start_records import StartRecords
from stoker.agent.power.setters.card_setters import CardSetter
from stoker.agent.power.setters.cpu_limit_v1 import cpu_hold
from stoker.agent.power.setters.launch_limit import LaunchLimit, on_device
from stoker.agent.tracing.launch_throttle import LaunchThrottle


class JobLimits(msgspec.Struct, frozen=True):
    """Limits of one node's jobs; the survey calls `of` for each device with a declared draw."""

    instance: str
    jobs_cgroup: Callable[[], Path | None]
    kind: Callable[[str], str | None]
    """The kind of a device, or None if the node has no such device."""
    starts: StartRecords
    throttle: LaunchThrottle
    readings: Callable[[], Mapping[str, CardReadings]]

    def of(self, device: str, draws_w: float) -> CardSetter | Absent:
        """The limit of one device that draws `draws_w` watts at most, or why it has none."""
        kind = self.kind(device)
        if kind is None:
            return Absent("it is not there")
        cpu = self._cpu_time(device, draws_w) if kind == "cpu" else Absent("")
        if not isinstance(cpu, Absent):
            return cpu
        starts, readings = self.starts, self.readings
        return LaunchLimit(
            device,
            draws_w,
            self.throttle,
            jobs=lambda: [on_device(starts.get(key)) for key in starts.on(device)],
            power_w=lambda: found.number("power_w") if (found := readings().get(device)) else None,
        )

    def _cpu_time(self, device: str, draws_w: float) -> CardSetter | Absent:
        folder = self.jobs_cgroup()
        if folder is None:
            return Absent("jobs have no cgroups here")

        def jobs() -> list[tuple[str, Path]]:
            keys = self.starts.on(device)
            return [(cgroup_name(key), cgroup_folder(folder, key)) for key in keys]

        return cpu_hold(device, self.instance, draws_w, jobs, folder)
