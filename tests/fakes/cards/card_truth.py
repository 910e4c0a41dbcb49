# SPDX-License-Identifier: Apache-2.0
"""True value of each field of a simulated card, from the simulation itself.

Invariant: a field of the table is in `expected`, in `BY_DIFFERENCE` (time must pass) or in `ROWS`
(lists); every other field of a reader must be an absence with a reason.
"""

from __future__ import annotations

from typing import Any

import pytest

from stoker.agent.devices.fields import TABLE
from stoker.probes.simdriver import profiles

NVIDIA, AMD, INTEL = profiles.NVIDIA, profiles.AMD, profiles.INTEL
MHZ = 1_000_000
WHY = ("idle", "power limit", "thermal", "hard thermal", "power brake", "locked")
"""Words of enum sk_sim_why (native/sim/card/card.h), in its order."""
ROWS = ("links", "partitions", "processes", "power_samples_w")
BY_DIFFERENCE = {
    NVIDIA: ("energy_power_w", "memory_bandwidth_ratio", "sm_ratio", "tensor_ratio"),
    AMD: ("energy_power_w", "throttle", "throttle_thermal_ns", "throttle_brake_ns"),
    INTEL: ("energy_power_w", "power_w", "busy_ratio", "memory_bandwidth_ratio", "throttle_ns"),
}
"""Fields derived from two rounds, which have no value for a card whose clock stands still."""
NO_TRUTH = ("numa", "minor")
"""Fields that come from the host where the driver does not have them."""
Fields = dict[str, Any]


def expected(truth: Fields, sensor: Fields) -> Fields:
    """Field -> true value, for a card whose clock stands still."""
    model = truth["model"]
    of = {NVIDIA: _nvidia, AMD: _amd, INTEL: _intel}[model["vendor"]]
    return {**_identity(model), **_moving(truth, sensor), **of(truth, sensor)}


def unexplained(vendor: int, wanted: Fields, fields: Fields) -> list[str]:
    """Fields that are not in `wanted`, not absent and not covered by other tests."""
    elsewhere = {*wanted, *ROWS, *BY_DIFFERENCE[vendor], *NO_TRUTH}
    unknown = [spec.name for spec in TABLE if spec.name not in fields]
    return unknown + [
        name for name, field in fields.items() if name not in elsewhere and "absent" not in field
    ]


def malformed(fields: Fields) -> list[str]:
    """Fields that are neither a value with the table's unit nor an absence with a reason."""
    units = {spec.name: spec.unit for spec in TABLE}
    return [
        name
        for name, field in fields.items()
        if ("value" in field) == bool(field.get("absent"))
        or ("value" in field and (field["value"] is None or field.get("unit", "") != units[name]))
    ]


def _identity(model: Fields) -> Fields:
    """Fields of a card's identity and limits, which every vendor has."""
    return {
        "model": model["name"],
        "serial": model["serial"],
        "uuid": model["uuid"],
        "bus_id": model["bus_id"][-12:].lower(),
        "driver": model["driver"],
        "units": model["units"],
        "clock_max_hz": model["clock_max_mhz"] * MHZ,
        "memory_clock_max_hz": model["memory_mhz"] * MHZ,
        "power_limit_min_w": model["limit_min_mw"] / 1000,
        "power_limit_max_w": model["limit_max_mw"] / 1000,
        "power_limit_default_w": model["limit_default_mw"] / 1000,
        "temperature_slowdown_c": model["slowdown_c"],
        "memory_temperature_max_c": model["memory_max_c"],
        "pcie_gen_max": model["pcie_gen"],
        "pcie_width_max": model["pcie_width"],
    }


def _moving(truth: Fields, sensor: Fields) -> Fields:
    """Fields that change, which every vendor has."""
    return {
        "clock_hz": sensor["clock_mhz"] * MHZ,
        "memory_clock_hz": sensor["memory_clock_mhz"] * MHZ,
        "power_limit_w": sensor["limit_mw"] / 1000,
        "memory_used_bytes": truth["now"]["memory_used"],
        "memory_free_bytes": truth["model"]["memory_bytes"] - truth["now"]["memory_used"],
        "pcie_gen": truth["model"]["pcie_gen"],
        "pcie_width": truth["model"]["pcie_width"],
        "pcie_replays": truth["now"]["pcie_replays"],
        "ecc_enabled": True,
        "ecc_corrected": truth["now"]["ecc_corrected"],
        "ecc_uncorrected": truth["now"]["ecc_uncorrected"],
    }


def _nvidia(truth: Fields, sensor: Fields) -> Fields:
    model, now = truth["model"], truth["now"]
    return {
        "architecture": model["architecture"].title(),
        "firmware": model["firmware"],
        "minor": model["minor"],
        "numa": model["numa"],
        "memory_total_bytes": model["memory_bytes"],
        "temperature_shutdown_c": model["shutdown_c"],
        "power_w": sensor["power_instant_mw"] / 1000,
        "power_average_w": sensor["power_mw"] / 1000,
        "energy_j": sensor["energy_mj"] / 1000,
        "temperature_c": pytest.approx(sensor["temperature_mc"] / 1000, abs=0.51),
        **_nvidia_memory_heat(model, sensor),
        **_nvidia_busy(truth, sensor),
        "throttle": [word for bit, word in enumerate(WHY) if sensor["why"] >> bit & 1],
        "throttle_power_ns": now["why_ns"][1],
        "throttle_thermal_ns": now["why_ns"][2],
        "throttle_hard_thermal_ns": now["why_ns"][3],
        "throttle_brake_ns": now["why_ns"][4],
        "throttle_sync_ns": 0,
        "throttle_board_ns": 0,
        "throttle_reliability_ns": 0,
        "ecc_corrected_total": now["ecc_corrected_total"],
        "ecc_uncorrected_total": now["ecc_uncorrected_total"],
        "retired_pages": now["retired_pages"],
        "retired_pending": bool(now["retired_pending"]),
        "remapped_rows": now["remapped_rows"],
        "remap_pending": bool(now["remap_pending"]),
        "remap_failed": bool(now["remap_failed"]),
        "recovery_action": "none",
        "pcie_tx_bytes": sensor["pcie_tx_bytes"],
        "pcie_rx_bytes": sensor["pcie_rx_bytes"],
        "partition_mode": _mig(truth),
    }


def _mig(truth: Fields) -> Any:
    if not truth["model"]["flags"] & profiles.FEATURES["partitions"]:
        return {"absent": "nvmlDeviceGetMigMode: Not Supported"}
    return "MIG" if truth["partitioned"] else "MIG off"


def _nvidia_memory_heat(model: Fields, sensor: Fields) -> Fields:
    if not model["flags"] & profiles.FEATURES["memory_temperature"]:
        return {"memory_temperature_c": {"absent": "NVML field 82: Not Supported"}}
    heat = pytest.approx(sensor["memory_temperature_mc"] / 1000, abs=0.51)
    return {"memory_temperature_c": heat}


def _nvidia_busy(truth: Fields, sensor: Fields) -> Fields:
    """NVML has no utilisation of a card with MIG instances (nvml.h)."""
    if truth["partitioned"]:
        absent = {"absent": "nvmlDeviceGetUtilizationRates: Not Supported"}
        return {"busy_ratio": absent, "memory_busy_ratio": absent}
    return {
        "busy_ratio": sensor["busy_percent"] / 100,
        "memory_busy_ratio": sensor["memory_busy_percent"] / 100,
    }


def _amd(truth: Fields, sensor: Fields) -> Fields:
    model = truth["model"]
    memory, used = model["memory_bytes"], truth["now"]["memory_used"]
    heat = pytest.approx(sensor["temperature_mc"] / 1000, abs=1.0)
    return {
        "architecture": model["architecture"],
        "firmware": model["firmware"],
        "temperature_shutdown_c": model["shutdown_c"],
        "busy_ratio": sensor["busy_percent"] / 100,
        "memory_busy_ratio": sensor["memory_busy_percent"] / 100,
        "energy_j": pytest.approx(sensor["energy_mj"] / 1000, abs=1e-3),
        "power_w": pytest.approx(sensor["power_mw"] / 1000, abs=1.0),
        "temperature_c": heat,
        "hotspot_temperature_c": heat,
        "memory_temperature_c": pytest.approx(sensor["memory_temperature_mc"] / 1000, abs=1.0),
        "throttle_power_ns": pytest.approx(truth["now"]["why_ns"][1], abs=1e6),
        "memory_total_bytes": pytest.approx(memory, abs=1 << 20),
        "memory_used_bytes": pytest.approx(used, abs=1 << 20),
        "memory_free_bytes": pytest.approx(memory - used, abs=2 << 20),
        "clock_limit_hz": model["clock_max_mhz"] * MHZ,
        "retired_pages": truth["now"]["retired_pages"],
        "partition_mode": "SPX/NPS1",
    }


def _intel(truth: Fields, sensor: Fields) -> Fields:
    model = truth["model"]
    die, memory = sensor["temperature_mc"] / 1000, sensor["memory_temperature_mc"] / 1000
    return {
        "memory_total_bytes": model["memory_bytes"],
        "energy_j": pytest.approx(sensor["energy_mj"] / 1000, abs=1e-3),
        "temperature_c": pytest.approx(die, abs=1.0),
        "hotspot_temperature_c": pytest.approx(max(die, memory), abs=1.0),
        "memory_temperature_c": pytest.approx(memory, abs=1.0),
        "throttle": [WHY[1]] if sensor["why"] >> 1 & 1 else [],
        "pcie_tx_bytes": sensor["pcie_tx_bytes"],
        "pcie_rx_bytes": sensor["pcie_rx_bytes"],
        "clock_limit_hz": model["clock_max_mhz"] * MHZ,
    }
