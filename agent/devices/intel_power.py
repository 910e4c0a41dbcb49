# SPDX-License-Identifier: Apache-2.0
"""Power domains of one Intel GPU: the whole card's, or those of its tiles, which add up to it.

Relied on by `intel_card.py`. Owns that what is told as the card's is all of it: where a tile's
counter or limit cannot be read there is none, and its reason. Units are zes_api.h's: uJ, us, mW.
"""

from __future__ import annotations

from typing import Any

from stoker.agent.devices.card import Calls, Points
from stoker.agent.devices.fields import FAST_HZ
from stoker.agent.devices.plan import PERIOD_NS
from stoker.agent.devices.readings import Absent, Fields, Reading
from stoker.agent.devices.zes import filled, listed, made

SUSTAINED = 1
"""zes_power_level_t."""
ENERGY_STEP_J = 1e-3
FIRST = Absent("it is the difference of two rounds")
BOUNDS = ("minLimit", "maxLimit", "defaultLimit")
Counter = tuple[int, int]
"""uJ, and at how many us."""


class Power:
    """Of the device `handle`; nothing is asked before `find`."""

    def __init__(self, binding: Any, handle: Any, calls: Calls) -> None:
        self._zes, self._handle, self._calls = binding, handle, calls
        self.domains: list[Any] | Absent = Absent("not looked for yet")
        """Those that add up to the card."""
        self._before: list[Counter] = []

    @property
    def handles(self) -> list[Any]:
        """The domains, none where they are absent."""
        return [] if isinstance(self.domains, Absent) else self.domains

    def find(self, tiles: int) -> None:
        """Look for the domains of a device of so many tiles; 0: it has no parts."""
        kind = self._zes.zes_pwr_handle_t
        name = "zesDeviceEnumPowerDomains"
        found = listed(self._zes, name, self._handle, kind, self._calls)
        self.domains = found if isinstance(found, Absent) else self._whole(found, tiles)
        self._before = []

    def _whole(self, found: list[Any], tiles: int) -> list[Any] | Absent:
        """The first that is of the whole device, else the first of each tile."""
        if not found:
            return Absent("no power domain")
        parts: dict[int, Any] = {}
        unknown = None
        for domain in found:
            own = self._properties(domain)
            if isinstance(own, Absent):
                unknown = own
            elif not own.onSubdevice:
                return [domain]
            else:
                parts.setdefault(own.subdeviceId, domain)
        if unknown is not None:
            return found if len(found) == 1 else unknown
        if len(parts) < tiles:
            return Absent(f"power domains of {len(parts)} of its {tiles} tiles alone")
        return list(parts.values())

    def _properties(self, domain: Any) -> Any:
        stype = "ZES_STRUCTURE_TYPE_POWER_PROPERTIES"
        structure = made(self._zes, "zes_power_properties_t", stype)
        return filled(self._zes, "zesPowerGetProperties", domain, structure, self._calls)

    def bounds(self) -> tuple[float | Absent, ...]:
        """The lowest, the highest and the default limit in W."""
        return tuple(self._bound(name) for name in BOUNDS)

    def _bound(self, name: str) -> float | Absent:
        if isinstance(self.domains, Absent):
            return self.domains
        total = 0.0
        for domain in self.domains:
            found = self._properties(domain)
            if isinstance(found, Absent):
                return found
            if getattr(found, name) < 0:  # -1 where the driver does not know
                return Absent(f"{name}: not known to the driver")
            total += getattr(found, name) * 1e-3
        return total

    def sustained(self) -> float | Absent:
        """The limit in force, W."""
        if isinstance(self.domains, Absent):
            return self.domains
        total = 0.0
        for domain in self.domains:
            kind = self._zes.zes_power_limit_ext_desc_t
            limits = listed(self._zes, "zesPowerGetLimitsExt", domain, kind, self._calls)
            if isinstance(limits, Absent):
                return limits
            found = [each for each in limits if each.level == SUSTAINED]
            if not found:
                return Absent("zesPowerGetLimitsExt: none is sustained")
            total += found[0].limit * 1e-3
        return total

    def read(self, points: Points | None) -> tuple[Fields, int]:
        """`energy_j` and `power_w`, and when; `points`: what a plan keeps of the last rounds."""
        found = self._counters()
        now = self._calls.now()
        if isinstance(found, Absent):
            return {"energy_j": found, "power_w": found}, now
        joules, step = sum(energy for energy, _ in found) * 1e-6, len(found) * ENERGY_STEP_J
        before, self._before = self._before, found
        power = _grown(before, found, now) if points is None else _kept(points)
        return {"energy_j": Reading(joules, "J", now, 0, step), "power_w": power}, now

    def _counters(self) -> list[Counter] | Absent:
        if isinstance(self.domains, Absent):
            return self.domains
        found: list[Counter] = []
        for domain in self.domains:
            structure = made(self._zes, "zes_power_energy_counter_t")
            each = filled(self._zes, "zesPowerGetEnergyCounter", domain, structure, self._calls)
            if isinstance(each, Absent):
                return each
            found.append((each.energy, each.timestamp))
        return found


def _grown(before: list[Counter], newest: list[Counter], now: int) -> Reading | Absent:
    """By two rounds; each counter tells of a time of its own."""
    watts, longest_us, error = 0.0, 0, 0.0
    if len(before) != len(newest):
        return FIRST
    for (energy, at), (later, later_at) in zip(before, newest, strict=True):
        if later_at <= at or later < energy:
            return FIRST
        watts += (later - energy) / (later_at - at)
        error += 2 * ENERGY_STEP_J / ((later_at - at) * 1e-6)
        longest_us = max(longest_us, later_at - at)
    return Reading(watts, "W", now, longest_us * 1000, error, "by energy")


def _kept(points: Points) -> Reading | Absent:
    """By what a plan keeps of the last two rounds of one counter."""
    newest = points("power_w", 1)
    if not newest:
        return FIRST
    return Reading(
        newest[0][1], "W", newest[0][0], PERIOD_NS, 2 * ENERGY_STEP_J * FAST_HZ, "by energy"
    )
