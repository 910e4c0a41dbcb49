# SPDX-License-Identifier: Apache-2.0
"""Power domains of one Intel GPU: one of the whole card, or one of each tile.

Invariant: a value of the card covers all tiles; if one tile has no value, the card has none, for
the tile's reason. native/devices/intel/intel.c reads the counters of these domains. Units of Sysman
are mW (zes_api.h).
"""

from __future__ import annotations

from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.intel.zes import filled, listed, made
from stoker.agent.devices.readings import Absent

ENERGY_STEP_J = 1e-3
"""One step of a domain's energy counter."""
BOUNDS = ("minLimit", "maxLimit", "defaultLimit")


class Power:
    """Power domains of the device `handle`; `find` makes the first call."""

    def __init__(self, binding: Any, handle: Any, calls: Calls) -> None:
        self._zes, self._handle, self._calls = binding, handle, calls
        self.domains: list[Any] | Absent = Absent("not looked for yet")
        """Domains that add up to the card, or the reason why there are none."""

    @property
    def handles(self) -> list[Any]:
        """The domains; empty where they are absent."""
        return [] if isinstance(self.domains, Absent) else self.domains

    def find(self, tiles: int) -> None:
        """Find the domains of a device with this number of tiles; 0 for one without parts."""
        kind = self._zes.zes_pwr_handle_t
        name = "zesDeviceEnumPowerDomains"
        found = listed(self._zes, name, self._handle, kind, self._calls)
        self.domains = found if isinstance(found, Absent) else self._whole(found, tiles)

    def _whole(self, found: list[Any], tiles: int) -> list[Any] | Absent:
        """The first domain of the whole device, or else the first of each tile."""
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
