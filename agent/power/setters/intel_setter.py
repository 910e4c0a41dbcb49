# SPDX-License-Identifier: Apache-2.0
"""Setter of an Intel card: its sustained power limit and its frequency range, by Sysman.

Domains are looked for once, when they are first needed. The power limit is that of the whole card
if there is one; otherwise the limits of all tiles are set, and their sum is the card's. Clocks are
set for every tile. Units are those of zes_api.h: mW and MHz. Releasing the clocks restores the
ranges that were found, which may be narrower than the card's own.
"""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any, Final, NamedTuple

from stoker.agent.devices.intel import zes
from stoker.agent.devices.readings import Absent
from stoker.agent.power.plan.card import ClockRange, PowerRange
from stoker.agent.power.setters.driver_write import written
from stoker.agent.power.setters.record import RecordedSetting

GPU: Final = 0
"""zes_freq_domain_t."""
SUSTAINED: Final = 1
"""zes_power_level_t."""
LIMIT: Final = "limit_mw"
OWN: Final = (1 << 64) - 1
"""Stands for the card's own end of its clock range."""
WHOLE: Final = -1
"""Stands for the whole card instead of a tile."""


class _Limit(NamedTuple):
    """A power domain whose limit can be set."""

    what: str
    """Name of its setting on record."""
    domain: Any
    range: PowerRange


class _Clock(NamedTuple):
    """A frequency domain of the GPU: a tile."""

    number: int
    """Index in Sysman's list."""
    domain: Any
    range: ClockRange


class IntelSetter:
    """One card, set through pyzes; `address` is its PCI address."""

    def __init__(self, binding: Any, handle: Any, address: str) -> None:
        self._zes, self._handle, self._address = binding, handle, address
        self._limits: list[_Limit] | Absent | None = None
        self._clocks: list[_Clock] | Absent | None = None
        self._ranges: dict[int, tuple[float, float]] = {}
        """The ranges as found; a domain without one gets the card's own (zesFrequencySetRange)."""

    # --- power ------------------------------------------------------------------------------------

    def _power(self) -> list[_Limit] | Absent:
        """The card's own limit, or that of every tile. A driver that did not answer is asked
        again."""
        if self._limits is None:
            found = self._of_card() or self._of_domains()
            if isinstance(found, Absent):
                return found
            self._limits = found
        return self._limits

    def _of_card(self) -> list[_Limit] | None:
        domain = self._zes.zes_pwr_handle_t()
        failed = zes.filled(self._zes, "zesDeviceGetCardPowerDomain", self._handle, domain)
        range = None if isinstance(failed, Absent) or not domain else self._range_of(domain)
        return [_Limit(LIMIT, domain, range)] if isinstance(range, PowerRange) else None

    def _of_domains(self) -> list[_Limit] | Absent:
        """The first domain of the whole device, else the first of each tile."""
        kind = self._zes.zes_pwr_handle_t
        domains = zes.listed(self._zes, "zesDeviceEnumPowerDomains", self._handle, kind)
        if isinstance(domains, Absent):
            return domains
        why = Absent("it has no power domain")
        parts: dict[int, _Limit] = {}
        for number, domain in enumerate(domains):
            own, range = self._power_properties(domain), self._range_of(domain)
            if isinstance(range, Absent) or isinstance(own, Absent):
                why = range if isinstance(range, Absent) else own
                continue
            part = own.subdeviceId if own.onSubdevice else WHOLE
            parts.setdefault(part, _Limit(f"{LIMIT}/{number}", domain, range))
        found = [parts[WHOLE]] if WHOLE in parts else list(parts.values())
        return found or why

    def _power_properties(self, domain: Any) -> Any:
        structure = zes.made(
            self._zes, "zes_power_properties_t", "ZES_STRUCTURE_TYPE_POWER_PROPERTIES"
        )
        return zes.filled(self._zes, "zesPowerGetProperties", domain, structure)

    def _range_of(self, domain: Any) -> PowerRange | Absent:
        """Range of one domain that has a sustained limit."""
        found, limit = self._power_properties(domain), self._sustained(domain)
        for each in (found, limit):
            if isinstance(each, Absent):
                return each
        values = (found.minLimit, found.defaultLimit, found.maxLimit)
        if min(values) <= 0:  # -1 where the driver does not say
            return Absent("zesPowerGetProperties: the range of its limit is not known")
        return PowerRange(*(value * 1e-3 for value in values))

    def limits(self) -> PowerRange | Absent:
        """Sum over all tiles."""
        found = self._power()
        if isinstance(found, Absent):
            return found
        ends = zip(*(each.range for each in found), strict=True)
        return PowerRange(*(sum(each) for each in ends))

    def _sustained(self, domain: Any) -> Any:
        kind = self._zes.zes_power_limit_ext_desc_t
        limits = zes.listed(self._zes, "zesPowerGetLimitsExt", domain, kind)
        if isinstance(limits, Absent):
            return limits
        found = [each for each in limits if each.level == SUSTAINED]
        return found[0] if found else Absent("zesPowerGetLimitsExt: none is sustained")

    def _in_force(self) -> list[tuple[_Limit, Any]] | Absent:
        """Limits of every domain."""
        domains = self._power()
        if isinstance(domains, Absent):
            return domains
        found = [(each, self._sustained(each.domain)) for each in domains]
        absent = next((limit for _, limit in found if isinstance(limit, Absent)), None)
        return absent or found

    def power_limit_w(self) -> float | Absent:
        found = self._in_force()
        return found if isinstance(found, Absent) else sum(e.limit for _, e in found) * 1e-3

    def set_power_limit(self, watts: float) -> Absent | None:
        """Sets each tile to an equal part of its range."""
        whole, found = self.limits(), self._in_force()
        if isinstance(whole, Absent):
            return whole
        if isinstance(found, Absent):
            return found
        if not whole.min_w - 0.5 <= watts <= whole.max_w + 0.5:
            return Absent(f"{watts:g} W: the device takes {whole}")
        span = whole.max_w - whole.min_w
        part = min(max((watts - whole.min_w) / span, 0.0), 1.0) if span else 0.0
        wrong = [self._write(each, part) for each, _ in found]
        return next((each for each in wrong if each is not None), None)

    def _write(self, of: _Limit, part: float) -> Absent | None:
        low, _, high = of.range
        return self._set(of.what, round((low + part * (high - low)) * 1e3))

    def _set(self, what: str, value: int) -> Absent | None:
        return written("intel", int(getattr(self._handle, "value", 0) or 0), what, value)

    # --- clocks -----------------------------------------------------------------------------------

    def _tiles(self) -> list[_Clock] | Absent:
        """The GPU's own domains, not its memory's."""
        if self._clocks is None:
            kind = self._zes.zes_freq_handle_t
            found = zes.listed(self._zes, "zesDeviceEnumFrequencyDomains", self._handle, kind)
            if isinstance(found, Absent):
                return found
            made = [self._tile(number, domain) for number, domain in enumerate(found)]
            tiles = [each for each in made if each is not None]
            self._clocks = tiles or Absent("no clocks of its GPU can be controlled")
        return self._clocks

    def _tile(self, number: int, domain: Any) -> _Clock | None:
        structure = zes.made(
            self._zes, "zes_freq_properties_t", "ZES_STRUCTURE_TYPE_FREQ_PROPERTIES"
        )
        found = zes.filled(self._zes, "zesFrequencyGetProperties", domain, structure)
        if isinstance(found, Absent) or found.type != GPU or not found.canControl:
            return None
        clocks = zes.listed(self._zes, "zesFrequencyGetAvailableClocks", domain, ctypes.c_double)
        step = 50.0
        if not isinstance(clocks, Absent) and len(clocks) > 1:
            numbers = sorted(float(getattr(each, "value", each)) for each in clocks)
            step = min((b - a for a, b in pairwise(numbers) if b > a), default=step)
        return _Clock(number, domain, ClockRange(found.min, found.max, step))

    def clock_range(self) -> ClockRange | Absent:
        """The range that all tiles take."""
        found = self._tiles()
        if isinstance(found, Absent):
            return found
        lows, highs, steps = zip(*(each.range for each in found), strict=True)
        return ClockRange(max(lows), min(highs), max(steps))

    def set_clock_range(self, low_mhz: float, high_mhz: float) -> Absent | None:
        found = self._tiles()
        if isinstance(found, Absent):
            return found
        wrong = [self._hold(each, low_mhz, high_mhz) for each in found]
        return next((each for each in wrong if each is not None), None)

    def _hold(self, of: _Clock, low_mhz: float, high_mhz: float) -> Absent | None:
        """Sets the upper end first; an end below 0 is the card's own."""
        for name, mhz in (("clock_max_mhz", high_mhz), ("clock_min_mhz", low_mhz)):
            wrong = self._set(f"{name}/{of.number}", OWN if mhz < 0 else round(mhz))
            if wrong is not None:
                return wrong
        return None

    def reset_clocks(self) -> Absent | None:
        found = self._tiles()
        if isinstance(found, Absent):
            return found
        own = (-1.0, -1.0)
        wrong = [self._hold(each, *self._ranges.get(each.number, own)) for each in found]
        return next((each for each in wrong if each is not None), None)

    # --- what was found ---------------------------------------------------------------------------

    def found(self) -> list[RecordedSetting] | Absent:
        limits, tiles = self._in_force(), self._tiles()
        if isinstance(limits, Absent):
            return limits
        made = [
            RecordedSetting("intel", self._address, each.what, limit.limit)
            for each, limit in limits
        ]
        for tile in () if isinstance(tiles, Absent) else tiles:
            span = self._span(tile)
            if not isinstance(span, Absent):
                self._ranges[tile.number] = low, high = float(span.min), float(span.max)
                ends = (("clock_max_mhz", high), ("clock_min_mhz", low))
                made += [
                    RecordedSetting("intel", self._address, f"{name}/{tile.number}", round(mhz))
                    for name, mhz in ends
                ]
        return made

    def _span(self, of: _Clock) -> Any:
        """The range in force; an end without a limit is the card's own."""
        structure = zes.made(self._zes, "zes_freq_range_t")
        span = zes.filled(self._zes, "zesFrequencyGetRange", of.domain, structure)
        if not isinstance(span, Absent):
            span.min = of.range.min_mhz if span.min < 0 else span.min
            span.max = of.range.max_mhz if span.max < 0 else span.max
        return span
