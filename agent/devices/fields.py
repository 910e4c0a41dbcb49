# SPDX-License-Identifier: Apache-2.0
"""Table of all fields of a card: name, unit, how often the field is read, and its meaning.

Invariant: a vendor class gives each field of the table a reading or an absence, and has no others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from stoker.agent.devices.readings import Absent, Fields, Reading

Rate = Literal["once", "fast", "slow"]
FAST_HZ = 10
PERIOD_NS = 1_000_000_000 // FAST_HZ


class FieldSpec(NamedTuple):
    """One row of the table."""

    name: str
    unit: str
    rate: Rate
    text: str


TABLE: tuple[FieldSpec, ...] = (
    FieldSpec("model", "", "once", "the vendor's name for it"),
    FieldSpec("architecture", "", "once", "generation of the chip"),
    FieldSpec("uuid", "", "once", "as the vendor prints it"),
    FieldSpec("serial", "", "once", "serial number of the board"),
    FieldSpec("bus_id", "", "once", "PCI address, domain:bus:device.function"),
    FieldSpec("driver", "", "once", "version of the kernel driver"),
    FieldSpec("firmware", "", "once", "VBIOS or firmware version"),
    FieldSpec("minor", "", "once", "minor number of its device file"),
    FieldSpec("numa", "", "once", "NUMA node it is attached to"),
    FieldSpec("units", "1", "once", "SMs, CUs or Xe cores"),
    FieldSpec("memory_total_bytes", "B", "once", "device memory"),
    FieldSpec("clock_max_hz", "Hz", "once", "highest clock of the SMs, CUs or Xe cores"),
    FieldSpec("memory_clock_max_hz", "Hz", "once", "highest clock of the memory"),
    FieldSpec("power_limit_min_w", "W", "once", "lowest limit the card takes"),
    FieldSpec("power_limit_max_w", "W", "once", "highest limit the card takes"),
    FieldSpec("power_limit_default_w", "W", "once", "limit after a reset"),
    FieldSpec("temperature_slowdown_c", "C", "once", "die temperature at which it slows down"),
    FieldSpec("temperature_shutdown_c", "C", "once", "die temperature at which it turns off"),
    FieldSpec("memory_temperature_max_c", "C", "once", "highest allowed memory temperature"),
    FieldSpec("pcie_gen_max", "1", "once", "PCIe generation it could use here"),
    FieldSpec("pcie_width_max", "1", "once", "PCIe lanes it could use here"),
    FieldSpec("power_w", "W", "fast", "newest value of the power sensor"),
    FieldSpec("power_average_w", "W", "fast", "power averaged by the driver over `window_ns`"),
    FieldSpec("energy_j", "J", "fast", "counter since the driver was loaded"),
    FieldSpec("energy_power_w", "W", "fast", "from the energy counter over at least a second"),
    FieldSpec("temperature_c", "C", "fast", "die"),
    FieldSpec("memory_temperature_c", "C", "fast", "memory"),
    FieldSpec("busy_ratio", "1", "fast", "share of time in which any kernel ran"),
    FieldSpec(
        "memory_busy_ratio", "1", "fast", "share of time in which memory was read or written"
    ),
    FieldSpec("clock_hz", "Hz", "fast", "SMs, CUs or Xe cores"),
    FieldSpec("memory_clock_hz", "Hz", "fast", "memory"),
    FieldSpec("throttle", "", "fast", "why the clock is below the highest, as words"),
    FieldSpec("hotspot_temperature_c", "C", "slow", "hottest sensor of the die"),
    FieldSpec("memory_used_bytes", "B", "slow", "device memory in use"),
    FieldSpec("memory_free_bytes", "B", "slow", "device memory not in use"),
    FieldSpec("memory_bandwidth_ratio", "1", "slow", "share of the memory bandwidth in use"),
    FieldSpec("sm_ratio", "1", "slow", "share of SM time with a warp resident"),
    FieldSpec("tensor_ratio", "1", "slow", "share of time in which tensor cores worked"),
    FieldSpec("power_limit_w", "W", "slow", "limit in force"),
    FieldSpec("clock_limit_hz", "Hz", "slow", "highest clock allowed at present, by locks"),
    FieldSpec("fan_ratio", "1", "slow", "fan speed as a share of its highest"),
    FieldSpec("fan_rpm", "1", "slow", "fan speed in revolutions per minute"),
    FieldSpec("throttle_ns", "ns", "slow", "time throttled for any reason"),
    FieldSpec("throttle_power_ns", "ns", "slow", "time throttled by the power limit"),
    FieldSpec("throttle_thermal_ns", "ns", "slow", "time throttled by heat"),
    FieldSpec(
        "throttle_hard_thermal_ns", "ns", "slow", "time slowed down by the slowdown temperature"
    ),
    FieldSpec("throttle_brake_ns", "ns", "slow", "time slowed down by an external power brake"),
    FieldSpec("throttle_sync_ns", "ns", "slow", "time held back by another card's clock"),
    FieldSpec("throttle_board_ns", "ns", "slow", "time throttled by the board's own limit"),
    FieldSpec("throttle_reliability_ns", "ns", "slow", "time throttled for the chip's lifetime"),
    FieldSpec("ecc_enabled", "", "slow", "whether memory errors are corrected"),
    FieldSpec("ecc_corrected", "1", "slow", "corrected memory errors since the driver was loaded"),
    FieldSpec("ecc_uncorrected", "1", "slow", "uncorrected ones"),
    FieldSpec("ecc_corrected_total", "1", "slow", "corrected ones in the card's life"),
    FieldSpec("ecc_uncorrected_total", "1", "slow", "uncorrected ones in the card's life"),
    FieldSpec("retired_pages", "1", "slow", "memory pages taken out of use"),
    FieldSpec("retired_pending", "1", "slow", "pages that will be after a reboot"),
    FieldSpec("remapped_rows", "1", "slow", "memory rows replaced by spare ones"),
    FieldSpec("remap_pending", "1", "slow", "whether rows will be after a reset"),
    FieldSpec("remap_failed", "1", "slow", "whether a row could not be replaced"),
    FieldSpec(
        "recovery_action", "", "slow", "what the driver asks for: none, reset, reboot, drain ..."
    ),
    FieldSpec("pcie_gen", "1", "slow", "PCIe generation in use; cards lower it at rest"),
    FieldSpec("pcie_width", "1", "slow", "PCIe lanes in use"),
    FieldSpec("pcie_tx_bytes", "B", "slow", "sent over PCIe, counter"),
    FieldSpec("pcie_rx_bytes", "B", "slow", "received over PCIe, counter"),
    FieldSpec("pcie_replays", "1", "slow", "PCIe packets sent again, counter"),
    FieldSpec("links", "", "slow", "per port: up, peer, tx_bytes, rx_bytes, errors"),
    FieldSpec(
        "power_samples_w", "W", "slow", "the driver's own newest samples of power: t_ns, value"
    ),
    FieldSpec("partition_mode", "", "slow", "MIG, compute or memory partition mode"),
    FieldSpec("partitions", "", "slow", "instances: profile, uuid, units, memory_bytes"),
    FieldSpec("processes", "", "slow", "pid, name, memory_bytes, busy_ratio"),
)
SPECS: dict[str, FieldSpec] = {spec.name: spec for spec in TABLE}
UNITS: dict[str, str] = {spec.name: spec.unit for spec in TABLE}
FAST = tuple(spec.name for spec in TABLE if spec.rate == "fast")
NEWEST = (
    "busy_ratio",
    "power_w",
    "power_average_w",
    "energy_power_w",
    "temperature_c",
    "temperature_slowdown_c",
    "power_limit_w",
    "clock_hz",
    "clock_limit_hz",
    "clock_max_hz",
    "memory_free_bytes",
    "throttle",
)
"""Fields that observations and looks at a card's health take without its other readings."""
REASONS = (
    "idle",
    "application clocks",
    "power limit",
    "hardware slowdown",
    "sync boost",
    "thermal",
    "hard thermal",
    "power brake",
    "display clocks",
    "current limit",
    "hardware range",
    "voltage",
)
"""Words of `throttle`, in the order of enum sk_device_reason (native/devices/record.h)."""
TELLING = (
    "ecc_corrected",
    "ecc_uncorrected",
    "retired_pages",
    "retired_pending",
    "remapped_rows",
    "remap_pending",
    "remap_failed",
    "recovery_action",
    "pcie_replays",
)
"""Fields read once a second whose every change wakes the listener."""
SLOWED = frozenset({"hard thermal", "hardware slowdown", "power brake"})
"""Words of `throttle` that mean a fault rather than a card at its limits."""
KEPT = (*(name for name in FAST if name != "throttle"), "power_samples_w")
"""Fields with a history. `power_samples_w` are the driver's own samples, with the driver's
stamps."""


def complete(fields: Fields, why: str) -> Fields:
    """All fields in the table's order; a missing one is absent for the reason `why`."""
    nothing = Absent(why)
    return {spec.name: fields.get(spec.name, nothing) for spec in TABLE}


def reading(name: str, value: object, t_ns: int) -> Reading:
    """A plain reading of a field of the table."""
    return Reading(value, UNITS[name], t_ns)


def answers(found: Mapping[str, Any], t_ns: int) -> Fields:
    """Fields of the table from values and absences, all read at the same time."""
    return {
        name: value if isinstance(value, Absent) else reading(name, value, t_ns)
        for name, value in found.items()
    }


def scaled(value: Any, factor: float) -> Any:
    """A number in another unit; an absence unchanged."""
    return value if isinstance(value, Absent) else value * factor
