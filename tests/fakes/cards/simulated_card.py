# SPDX-License-Identifier: Apache-2.0
"""Simulated cards for tests, with round figures that a test may change."""

from __future__ import annotations

import copy
from typing import Any

from stoker.native import _sim

MS, S = 10**6, 10**9

PLAIN: dict[str, Any] = {
    "vendor": 1,
    "name": "NVIDIA Plain",
    "uuid": "GPU-0",
    "bus_id": "00000000:01:00.0",
    "driver": "580.1.1",
    "pcie_gen": 5,
    "pcie_width": 16,
    "memory_bytes": 2**36,
    "bandwidth_gb_s": 1000,
    "units": 100,
    "clock_min_mhz": 300,
    "clock_max_mhz": 1800,
    "clock_step_mhz": 15,
    "memory_mhz": 2000,
    "limit_min_mw": 100_000,
    "limit_default_mw": 1_000_000,
    "limit_max_mw": 1_000_000,
    "target_c": 85,
    "slowdown_c": 92,
    "shutdown_c": 97,
    "memory_max_c": 95,
    "physics": {
        "idle_w": 60.0,
        "dynamic_w": 500.0,
        "exponent": 2.5,
        "leakage_w": 20.0,
        "leakage_per_c": 0.01,
        "thermal_c_per_w": 0.06,
        "capacity_j_per_c": 200.0,
        "ambient_c": 25.0,
        "fan_min": 1.0,
        "limiter_s": 0.05,
        "memory_w": 100.0,
    },
    "sensor": {
        "period_ns": 100 * MS,
        "window_ns": 1000 * MS,
        "sampled_ns": 25 * MS,
        "delay_ns": 0,
        "gain": 1.0,
        "offset_w": 0.0,
        "energy_period_ns": 100 * MS,
        "temperature_period_ns": 100 * MS,
    },
}


def card(physics: dict[str, float] | None = None, **changed: Any) -> dict[str, Any]:
    """Model of a plain card with some figures changed; `sensor` is a dictionary of changes too."""
    made = copy.deepcopy(PLAIN)
    made["physics"] |= physics or {}
    made["sensor"] |= changed.pop("sensor", {})
    return made | changed


def alone(model: dict[str, Any], seed: int = 0) -> _sim.Node:
    """Simulated node of one card, in virtual time."""
    return _sim.Node.create(None, [model], True, seed)
