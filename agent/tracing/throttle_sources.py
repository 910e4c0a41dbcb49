# SPDX-License-Identifier: Apache-2.0
"""The sources of a device's throttling: its driver's counters, its present reasons, a quota.

A driver that counts is believed before one that only names its present reasons. A device that is
the CPU has no driver that slows it down: what holds it back is the CPU quota of the job.
Invariant: a device of which nothing is known has a reason and no numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from stoker.agent.devices.readings import Absent, CardReadings, Field, Reading
from stoker.agent.jobs.cpu_quota import QuotaGroups
from stoker.agent.tracing.throttled_time import ANY, ThrottleCount
from stoker.scheduler.nouns import TaskKey

COUNTERS = {
    "throttle_ns": ANY,
    "throttle_power_ns": "power",
    "throttle_thermal_ns": "thermal",
    "throttle_hard_thermal_ns": "hard thermal",
    "throttle_brake_ns": "power brake",
    "throttle_sync_ns": "sync boost",
    "throttle_board_ns": "board limit",
    "throttle_reliability_ns": "reliability",
}
"""Field of a device -> the cause whose time it counts."""
NO_THROTTLES = frozenset({"idle", "application clocks", "display clocks", "hardware range"})
"""Words of the field `throttle` that name a setting or rest, and no limit that was met."""
QUOTA = "CPU quota"


class ThrottleSources:
    """The sources of one node, for any thread."""

    def __init__(
        self,
        kind: Callable[[str], str | None],
        readings: Callable[[str], CardReadings | None],
        quotas: QuotaGroups,
    ) -> None:
        """`kind`: that of a device, None if there is no such device; `readings`: its newest."""
        self._kind, self._readings, self._quotas = kind, readings, quotas

    def read(self, key: TaskKey, device: str) -> ThrottleCount | Absent:
        """Return what is known now of the throttling of a start's device."""
        if self._kind(device) == "cpu":
            return self._quota(key, device)
        found = self._readings(device)
        if found is None:
            return Absent("no driver is read for it")
        if found.state not in ("ok", "starting"):
            return Absent(f"its driver does not answer: {found.why}")
        return counted(found.fields, time.time_ns() - time.monotonic_ns())

    def _quota(self, key: TaskKey, device: str) -> ThrottleCount:
        now_ns = time.monotonic_ns()
        least, likely, most = self._quotas.stopped(key, device)
        spread = max(most - likely, likely - least) / likely if likely else 0.0
        return ThrottleCount(now_ns, {QUOTA: likely}, "quota", spread)


def counted(fields: Mapping[str, Field], offset_ns: int) -> ThrottleCount | Absent:
    """Return the throttling that a card's readings tell. `offset_ns`: CLOCK_REALTIME minus
    CLOCK_MONOTONIC."""
    found = {name: field for name in COUNTERS if isinstance(field := fields.get(name), Reading)}
    if found:
        at_ns = max(field.t_ns for field in found.values()) - offset_ns
        return ThrottleCount(
            at_ns, {COUNTERS[name]: int(each.value) for name, each in found.items()}
        )
    words = fields.get("throttle")
    if isinstance(words, Reading):
        now = {word: 1 for word in words.value if word not in NO_THROTTLES}
        return ThrottleCount(words.t_ns - offset_ns, now, "sampled")
    why = fields.get("throttle_power_ns")
    return Absent(why.why if isinstance(why, Absent) else "its driver counts no throttling")
