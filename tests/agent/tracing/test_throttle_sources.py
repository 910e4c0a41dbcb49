# SPDX-License-Identifier: Apache-2.0
"""Counters before reasons before an absence, and a quota for a device that is the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stoker.agent.devices.fields import SPECS
from stoker.agent.devices.readings import Absent, CardReadings, Field, Reading
from stoker.agent.jobs.cpu_quota import QuotaGroups
from stoker.agent.tracing.throttle_sources import (
    COUNTERS,
    NO_THROTTLES,
    QUOTA,
    ThrottleSources,
    counted,
)
from stoker.agent.tracing.throttled_time import ThrottleCount
from stoker.scheduler.nouns import TaskKey

KEY = TaskKey(1, 1, 0)
NONE = Absent("nvmlDeviceGetFieldValues 74: Not Supported")


def sources(fields: Mapping[str, Field], state: str = "ok", why: str = "") -> ThrottleSources:
    readings = CardReadings("g", 5, fields, state, why)  # type: ignore[arg-type]
    kinds = {"g": "gpu", "pocl-0": "cpu", "fpga": "gpu"}
    return ThrottleSources(
        kinds.get, lambda id: readings if id == "g" else None, QuotaGroups(None, Path("/none"), 1)
    )


def test_every_counter_is_a_field_of_devices() -> None:
    assert all(SPECS[name].unit == "ns" for name in COUNTERS)
    assert not NO_THROTTLES & set(COUNTERS.values())


def test_a_drivers_counters_are_believed_first() -> None:
    fields: dict[str, Field] = {
        "throttle_power_ns": Reading(7.0, "ns", 1000),
        "throttle_thermal_ns": Reading(0.0, "ns", 1000),
        "throttle_board_ns": NONE,
        "throttle": Reading(["thermal"], "", 1000),
    }
    assert counted(fields, 400) == ThrottleCount(600, {"power": 7, "thermal": 0}, "counter")


def test_reasons_are_sampled_where_nothing_counts() -> None:
    fields: dict[str, Field] = {
        "throttle_power_ns": NONE,
        "throttle": Reading(["idle", "power limit", "application clocks"], "", 1000),
    }
    assert counted(fields, 0) == ThrottleCount(1000, {"power limit": 1}, "sampled")


def test_a_driver_that_says_nothing_has_a_reason() -> None:
    assert counted({"throttle_power_ns": NONE, "throttle": NONE}, 0) == Absent(NONE.why)
    assert counted({}, 0) == Absent("its driver counts no throttling")
    found = sources({}, "hung", "nvmlDeviceGetPowerUsage has not returned").read(KEY, "g")
    assert isinstance(found, Absent) and "has not returned" in found.why
    assert sources({}).read(KEY, "fpga") == Absent("no driver is read for it")


def test_a_device_that_is_the_cpu_has_a_quota_or_none() -> None:
    found = sources({}).read(KEY, "pocl-0")
    assert isinstance(found, ThrottleCount)
    assert (found.ns, found.source, found.spread) == ({QUOTA: 0}, "quota", 0.0)
