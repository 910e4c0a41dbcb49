# SPDX-License-Identifier: Apache-2.0
"""A lumped thermal model of devices, fitted to published telemetry.

Each device is one heat capacity behind one thermal resistance:

    T_end = inlet + R x P,    T(t + dt) = T_end + (T(t) - T_end) x exp(-dt / tau)

The fit: samples of power and temperature are split at the share of samples in which the device was
not in use. The colder part of the temperatures belongs to devices at rest, the warmer part to
devices at work, and likewise for power. R is the difference of the mean temperatures divided by the
difference of the mean powers. Devices differ in their temperature at rest, which is drawn from the
colder part and stands for their place in room and chassis. A device whose cooling is faulty has a
larger R. The telemetry lacks two values, which are named constants here: tau, and the heat from
neighbouring devices.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stoker.native.errors import BadRequest
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.telemetry import Distribution

Numbers = NDArray[np.float64]

TAU_S: Final = 120.0
"""The time in which a device comes within 37 % of its end temperature; assumed, about that of a
heat sink of 3 kJ/K behind the fitted resistance.
"""
FAULTY_FACTOR: Final = 1.5
"""Resistance of a device whose cooling is faulty, over that of others; an assumption."""
THROTTLED: Final = 0.5
"""Speed of a device that is too hot. NVIDIA's hardware slow-down cuts clocks by 2 or more."""
HYSTERESIS_C: Final = 3.0
"""The hysteresis: a device that was too hot is slow until it is this far below the limit."""


class Fit(NamedTuple):
    """The thermal model of one device, fitted to its telemetry."""

    resting: float
    """The share of samples without use, in per cent."""
    idle_w: float
    kelvin_per_w: float
    power: Distribution
    temperature: Distribution

    def busy_w(self, part: float) -> float:
        """Return the power at work, from the least (`part` 0) to the most demanding (1)."""
        return self.power.at(self.resting + part * (100 - self.resting))

    def resting_c(self, part: float) -> float:
        """Return the temperature at rest, from the coolest place (`part` 0) to the warmest (1)."""
        return self.temperature.at(part * self.resting)


def fit(telemetry: dict[str, Distribution], cluster: str) -> Fit:
    """Fit one cluster's devices; BadRequest if the table lacks them or cannot be split."""
    names = [f"gpu_{what}_{cluster}" for what in ("power_w", "temp_c", "util_pct")]
    missing = [name for name in names if name not in telemetry]
    if missing:
        raise BadRequest(f"the telemetry has no {missing[0]}")
    power, temperature, use = (telemetry[name] for name in names)
    resting = max((p for p, v in zip(*use, strict=True) if v <= 1.0), default=0.0)
    if not 0 < resting < 100:
        raise BadRequest(f"the devices of {cluster} never rest or never work: no model fits")
    idle_w, busy_w = power.mean(0, resting), power.mean(resting, 100)
    warmer = temperature.mean(resting, 100) - temperature.mean(0, resting)
    if busy_w - idle_w < 1 or warmer <= 0:
        raise BadRequest(f"the devices of {cluster} are no warmer at work: no model fits")
    return Fit(resting, idle_w, warmer / (busy_w - idle_w), power, temperature)


class DeviceTemperatures:
    """The temperatures of all devices, node by node; arrays have one entry for each."""

    def __init__(
        self, known: Fit, nodes: int, node_gpus: int, chance: Chance, *, warmer_c: float,
        faulty: float, neighbours: float,
    ) -> None:  # fmt: skip
        count = nodes * node_gpus
        resting = np.array([known.resting_c(chance.unit()) for _ in range(count)]) + warmer_c
        self.faulty = np.array([chance.unit() < faulty for _ in range(count)])
        self.shape = (nodes, node_gpus)
        self.idle_w = known.idle_w
        self.neighbours = neighbours
        """Kelvin by which the inlet rises for each watt that the node's other devices add."""
        self.kelvin_per_w = np.where(self.faulty, FAULTY_FACTOR, 1.0) * known.kelvin_per_w
        self.inlet_c = resting - known.kelvin_per_w * known.idle_w
        self.celsius: Numbers = self.inlet_c + self.kelvin_per_w * known.idle_w
        self.speed: Numbers = np.ones(count)

    def step(self, watts: Numbers, seconds: float, limit_c: float) -> None:
        """Advance time with each device at `watts` when at full speed; slow down hot devices."""
        added = self.added_w(watts)
        nodes = added.reshape(self.shape)
        others = (nodes.sum(axis=1, keepdims=True) - nodes).reshape(-1)
        end = self.inlet_c + self.neighbours * others + self.kelvin_per_w * (self.idle_w + added)
        self.celsius = end + (self.celsius - end) * math.exp(-seconds / TAU_S)
        slow = (self.celsius >= limit_c) | (
            (self.speed < 1) & (self.celsius >= limit_c - HYSTERESIS_C)
        )
        self.speed = np.where(slow, THROTTLED, 1.0)

    def added_w(self, watts: Numbers) -> Numbers:
        """Return the power above that at rest, at the present speed."""
        return (watts - self.idle_w) * self.speed
