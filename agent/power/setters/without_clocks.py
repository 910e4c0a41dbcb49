# SPDX-License-Identifier: Apache-2.0
"""The clocks of a device whose setter holds no clocks: they have no range and are never changed."""

from __future__ import annotations

from stoker.agent.devices.readings import Absent
from stoker.agent.power.plan.card import ClockRange

NO_CLOCKS = "the clocks of this device are not held down"


class WithoutClocks:
    """The base of setters that set a power limit alone."""

    def clock_range(self) -> ClockRange | Absent:
        return Absent(NO_CLOCKS)

    def set_clock_range(self, low_mhz: float, high_mhz: float) -> Absent | None:
        return Absent(NO_CLOCKS)

    def reset_clocks(self) -> Absent | None:
        return None
