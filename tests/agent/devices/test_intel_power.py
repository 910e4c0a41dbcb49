# SPDX-License-Identifier: Apache-2.0
"""Power of an Intel card by the domains of its tiles: all of them, or none and its reason."""

from __future__ import annotations

import ctypes
from typing import Any

from stoker.agent.devices import zes
from stoker.agent.devices.card import Calls
from stoker.agent.devices.intel_power import Power
from stoker.agent.devices.readings import Absent, Reading


class Sysman:
    """Power domains by number: (on a tile, which), the energy, and who fails."""

    class zes_pwr_handle_t(ctypes.c_void_p):
        pass

    class zes_power_properties_t(ctypes.Structure):
        _fields_ = (
            ("stype", ctypes.c_int32),
            ("onSubdevice", ctypes.c_uint8),
            ("subdeviceId", ctypes.c_uint32),
            ("minLimit", ctypes.c_int32),
            ("maxLimit", ctypes.c_int32),
            ("defaultLimit", ctypes.c_int32),
        )

    class zes_power_energy_counter_t(ctypes.Structure):
        _fields_ = (("energy", ctypes.c_uint64), ("timestamp", ctypes.c_uint64))

    def __init__(self, *domains: tuple[int, int]) -> None:
        self.domains = domains
        self.energy = [(0, 0)] * len(domains)
        self.fails: set[int] = set()
        self.limits = (100_000, 300_000, 250_000)

    def zesDeviceEnumPowerDomains(self, handle: Any, count: Any, ret: Any) -> int:
        count._obj.value = len(self.domains)
        for place in range(len(self.domains) if ret is not None else 0):
            ret[place] = self.zes_pwr_handle_t(place + 1)
        return 0

    def zesPowerGetProperties(self, domain: Any, ret: Any) -> int:
        found = ret._obj
        found.onSubdevice, found.subdeviceId = self.domains[domain.value - 1]
        found.minLimit, found.maxLimit, found.defaultLimit = self.limits
        return 0

    def zesPowerGetEnergyCounter(self, domain: Any, ret: Any) -> int:
        if domain.value - 1 in self.fails:
            return zes.UNSUPPORTED
        ret._obj.energy, ret._obj.timestamp = self.energy[domain.value - 1]
        return 0


def power(sysman: Sysman, tiles: int) -> Power:
    made = Power(sysman, 0, Calls())
    made.find(tiles)
    return made


def test_two_tiles_add_up_each_by_its_own_clock() -> None:
    sysman = Sysman((1, 0), (1, 1), (1, 1))  # a second one of a tile is a part of the first
    found = power(sysman, 2)
    assert len(found.handles) == 2 and found.bounds() == (200.0, 600.0, 500.0)
    sysman.energy = [(1_000_000, 100_000), (9_000_000, 150_000), (0, 0)]
    first, _ = found.read(None)
    assert isinstance(first["power_w"], Absent)
    sysman.energy = [(21_000_000, 200_000), (24_000_000, 300_000), (0, 0)]
    newest, _ = found.read(None)
    watts, joules = newest["power_w"], newest["energy_j"]
    assert isinstance(watts, Reading) and isinstance(joules, Reading)
    assert (watts.value, watts.window_ns) == (200 + 100, 150_000_000)
    assert joules.value == 45.0
    assert watts.error == 2e-3 / 0.1 + 2e-3 / 0.15


def test_the_domain_of_the_whole_card_is_taken_alone() -> None:
    sysman = Sysman((1, 0), (0, 0), (1, 1))
    sysman.energy = [(1, 1), (5_000_000, 1), (1, 1)]
    found = power(sysman, 2)
    assert [each.value for each in found.handles] == [2] and found.bounds() == (100.0, 300.0, 250.0)
    joules = found.read(None)[0]["energy_j"]
    assert isinstance(joules, Reading) and joules.value == 5.0


def test_what_a_tile_does_not_tell_is_absent_of_the_card() -> None:
    sysman = Sysman((1, 0), (1, 1))
    found = power(sysman, 2)
    sysman.fails = {1}
    told, _ = found.read(None)
    for name in ("power_w", "energy_j"):
        absent = told[name]
        assert isinstance(absent, Absent) and "zesPowerGetEnergyCounter" in absent.why
    sysman.limits = (-1, 300_000, 250_000)
    assert isinstance(found.bounds()[0], Absent) and found.bounds()[1] == 600.0


def test_a_tile_without_a_domain_leaves_the_card_without_power() -> None:
    told, _ = power(Sysman((1, 0)), 2).read(None)
    assert told["power_w"] == Absent("power domains of 1 of its 2 tiles alone")
    told, _ = power(Sysman(), 0).read(None)
    assert told["power_w"] == Absent("no power domain")
