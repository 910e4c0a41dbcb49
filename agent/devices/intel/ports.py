# SPDX-License-Identifier: Apache-2.0
"""Xe Link ports of one Intel GPU, and the GPUs at their other ends.

The binding has no functions for fabric ports, so they are called in the loader's library.
"""

from __future__ import annotations

from ctypes import c_void_p
from typing import Any

from stoker.agent.devices.card import Calls
from stoker.agent.devices.intel import zes
from stoker.agent.devices.intel.zes import filled, listed, made
from stoker.agent.devices.readings import Absent

UP = (1, 2)
"""zes_fabric_port_status_t: healthy, degraded."""


class Ports:
    """Fabric ports of one GPU."""

    def __init__(self, binding: Any, handle: Any) -> None:
        self._zes, self._handle = binding, handle
        self._ports: Any = None
        self.peers: dict[int, str] = {}
        """Fabric id -> PCI address of the other GPUs of the node; set by the vendor's scan."""
        self.fabric: int | None = None
        """Fabric id of this GPU; None if it has no port."""
        self._gbps: list[int] = []
        """GB/s of each port, both directions together; 0: not known."""

    def _find(self, calls: Calls | None) -> None:
        name = "zesDeviceEnumFabricPorts"
        self._ports = listed(self._zes, name, self._handle, c_void_p, calls)
        if isinstance(self._ports, Absent):
            return
        self._ports = [c_void_p(port) for port in self._ports]
        self._gbps = [0] * len(self._ports)
        for place, port in enumerate(self._ports):
            structure = made(self._zes, zes.PortProperties)
            found = filled(self._zes, "zesFabricPortGetProperties", port, structure, calls)
            if isinstance(found, Absent):
                continue
            self._gbps[place] = _gbps(found)
            if self.fabric is None:
                self.fabric = int(found.id.fabric)

    def linked(self, calls: Calls | None = None) -> list[tuple[int, int]]:
        """Fabric id at the other end of each port that is up, and the GB/s of the port in both
        directions together; 0: not known."""
        if self._ports is None:
            self._find(calls)
        if isinstance(self._ports, Absent):
            return []
        states = [self._state(port, calls) for port in self._ports]
        return [
            (int(state.remote.fabric), gbps)
            for state, gbps in zip(states, self._gbps, strict=True)
            if not isinstance(state, Absent) and state.status in UP
        ]

    def _state(self, port: Any, calls: Calls | None) -> Any:
        structure = made(self._zes, zes.PortState)
        return filled(self._zes, "zesFabricPortGetState", port, structure, calls)


def _gbps(found: Any) -> int:
    """Return the GB/s of both directions as the driver rates the port; 0 where it says -1."""
    ways = (found.max_rx, found.max_tx)
    if any(way.bits <= 0 or way.lanes <= 0 for way in ways):
        return 0
    return round(sum(int(way.bits) * int(way.lanes) for way in ways) / 8e9)
