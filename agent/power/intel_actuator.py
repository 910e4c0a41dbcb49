# SPDX-License-Identifier: Apache-2.0
"""What can be set of an Intel card: its sustained power limit and its frequency range, by Sysman.

Relied on by `actuators.py`. Domains are looked for once, when they are first needed. Units are
zes_api.h's: mW and MHz. Letting clocks go gives the range back that was found, which need not be
the card's own.
"""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any, Final

from stoker.agent.devices import zes
from stoker.agent.devices.readings import Absent
from stoker.agent.power.card import ClockRange, PowerRange
from stoker.agent.power.record import Found

GPU: Final = 0
"""zes_freq_domain_t."""
SUSTAINED: Final = 1
"""zes_power_level_t."""


class IntelActuator:
    """Through pyzes; `address` is the card's PCI address."""

    def __init__(self, binding: Any, handle: Any, address: str) -> None:
        self._zes, self._handle, self._address = binding, handle, address
        self._power: Any = None
        self._clock: Any = None
        self._range = (-1.0, -1.0)
        """As found; negative is the card's own (zesFrequencySetRange)."""

    # --- power ------------------------------------------------------------------------------------

    def _power_domain(self) -> Any:
        if self._power is None:
            kind = self._zes.zes_pwr_handle_t
            found = zes.listed(self._zes, "zesDeviceEnumPowerDomains", self._handle, kind)
            if isinstance(found, Absent):
                return found
            self._power = found[0] if found else Absent("it has no power domain")
        return self._power

    def limits(self) -> PowerRange | Absent:
        domain = self._power_domain()
        if isinstance(domain, Absent):
            return domain
        structure = zes.made(
            self._zes, "zes_power_properties_t", "ZES_STRUCTURE_TYPE_POWER_PROPERTIES"
        )
        found = zes.filled(self._zes, "zesPowerGetProperties", domain, structure)
        if isinstance(found, Absent):
            return found
        values = (found.minLimit, found.defaultLimit, found.maxLimit)
        if min(values) <= 0:  # -1 where the driver does not say
            return Absent("zesPowerGetProperties: the range of its limit is not known")
        return PowerRange(*(value * 1e-3 for value in values))

    def _sustained(self) -> Any:
        domain = self._power_domain()
        if isinstance(domain, Absent):
            return domain
        kind = self._zes.zes_power_limit_ext_desc_t
        limits = zes.listed(self._zes, "zesPowerGetLimitsExt", domain, kind)
        if isinstance(limits, Absent):
            return limits
        found = [each for each in limits if each.level == SUSTAINED]
        return found[0] if found else Absent("zesPowerGetLimitsExt: none is sustained")

    def power_limit_w(self) -> float | Absent:
        found = self._sustained()
        return found if isinstance(found, Absent) else float(found.limit * 1e-3)

    def set_power_limit(self, watts: float) -> Absent | None:
        range_, limit = self.limits(), self._sustained()
        for found in (range_, limit):
            if isinstance(found, Absent):
                return found
        assert isinstance(range_, PowerRange)
        if not range_.min_w - 0.5 <= watts <= range_.max_w + 0.5:
            return Absent(f"{watts:g} W: the device takes {range_}")
        limit.limit = round(min(max(watts, range_.min_w), range_.max_w) * 1e3)
        array, count = (type(limit) * 1)(limit), ctypes.c_uint32(1)
        return zes.ask(self._zes, "zesPowerSetLimitsExt", self._power, ctypes.byref(count), array)

    # --- clocks -----------------------------------------------------------------------------------

    def _clock_domain(self) -> Any:
        """The GPU's own, not its memory's."""
        if self._clock is None:
            kind = self._zes.zes_freq_handle_t
            found = zes.listed(self._zes, "zesDeviceEnumFrequencyDomains", self._handle, kind)
            if isinstance(found, Absent):
                return found
            mine = [each for each in found if getattr(self._properties(each), "type", -1) == GPU]
            self._clock = mine[0] if mine else Absent("it has no frequency domain of the GPU")
        return self._clock

    def _properties(self, domain: Any) -> Any:
        structure = zes.made(
            self._zes, "zes_freq_properties_t", "ZES_STRUCTURE_TYPE_FREQ_PROPERTIES"
        )
        return zes.filled(self._zes, "zesFrequencyGetProperties", domain, structure)

    def clock_range(self) -> ClockRange | Absent:
        domain = self._clock_domain()
        found = domain if isinstance(domain, Absent) else self._properties(domain)
        if isinstance(found, Absent):
            return found
        if not found.canControl:
            return Absent("zesFrequencyGetProperties: its clocks cannot be controlled")
        clocks = zes.listed(self._zes, "zesFrequencyGetAvailableClocks", domain, ctypes.c_double)
        if isinstance(clocks, Absent) or len(clocks) < 2:
            return ClockRange(found.min, found.max, 50.0)
        numbers = sorted(float(getattr(each, "value", each)) for each in clocks)
        return ClockRange(found.min, found.max, min(b - a for a, b in pairwise(numbers) if b > a))

    def set_clock_range(self, low_mhz: float, high_mhz: float) -> Absent | None:
        domain = self._clock_domain()
        if isinstance(domain, Absent):
            return domain
        span = self._zes.zes_freq_range_t()
        span.min, span.max = low_mhz, high_mhz
        return zes.ask(self._zes, "zesFrequencySetRange", domain, ctypes.byref(span))

    def reset_clocks(self) -> Absent | None:
        return self.set_clock_range(*self._range)

    def found(self) -> list[Found] | Absent:
        limit = self._sustained()
        if isinstance(limit, Absent):
            return limit
        made = [Found("intel", self._address, "limit_mw", limit.limit)]
        span = self._span()
        if not isinstance(span, Absent):
            self._range = low, high = float(span.min), float(span.max)
            ends = (("clock_max_mhz", high), ("clock_min_mhz", low))
            made += [Found("intel", self._address, name, round(mhz)) for name, mhz in ends]
        return made

    def _span(self) -> Any:
        """The range in force; an end without a limit is the card's own."""
        domain = self._clock_domain()
        own = domain if isinstance(domain, Absent) else self._properties(domain)
        if isinstance(own, Absent) or not own.canControl:
            return own if isinstance(own, Absent) else Absent("its clocks cannot be controlled")
        structure = zes.made(self._zes, "zes_freq_range_t")
        span = zes.filled(self._zes, "zesFrequencyGetRange", domain, structure)
        if not isinstance(span, Absent):
            span.min = own.min if span.min < 0 else span.min
            span.max = own.max if span.max < 0 else span.max
        return span
