# SPDX-License-Identifier: Apache-2.0
"""Limits of an Intel card by the domains of its tiles: the sum of all, or an absence."""

from __future__ import annotations

import ctypes
from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.intel.power import Power
from stoker.agent.devices.readings import Absent


class Sysman:
    """A Sysman with power domains: each is on a tile or not, has the tile's number, and limits."""

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

    def __init__(self, *domains: tuple[int, int]) -> None:
        self.domains = domains
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


def power(sysman: Sysman, tiles: int) -> Power:
    made = Power(sysman, 0, Calls())
    made.find(tiles)
    return made


def test_limits_of_two_tiles_add_up() -> None:
    sysman = Sysman((1, 0), (1, 1), (1, 1))  # a second one of a tile is a part of the first
    found = power(sysman, 2)
    assert len(found.handles) == 2 and found.bounds() == (200.0, 600.0, 500.0)


def test_the_domain_of_the_whole_card_is_taken_alone() -> None:
    found = power(Sysman((1, 0), (0, 0), (1, 1)), 2)
    assert [each.value for each in found.handles] == [2] and found.bounds() == (100.0, 300.0, 250.0)


def test_what_a_tile_does_not_tell_is_absent_of_the_card() -> None:
    sysman = Sysman((1, 0), (1, 1))
    found = power(sysman, 2)
    sysman.limits = (-1, 300_000, 250_000)
    assert isinstance(found.bounds()[0], Absent) and found.bounds()[1] == 600.0


def test_a_tile_without_a_domain_leaves_the_card_without_limits() -> None:
    absent = Absent("power domains of 1 of its 2 tiles alone")
    assert power(Sysman((1, 0)), 2).bounds() == (absent, absent, absent)
    absent = Absent("no power domain")
    assert power(Sysman(), 0).bounds() == (absent, absent, absent)
