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

    def _find(self, calls: Calls | None) -> None:
        name = "zesDeviceEnumFabricPorts"
        self._ports = listed(self._zes, name, self._handle, c_void_p, calls)
        if isinstance(self._ports, Absent):
            return
        self._ports = [c_void_p(port) for port in self._ports]
        for port in self._ports[:1]:
            structure = made(self._zes, zes.PortProperties)
            found = filled(self._zes, "zesFabricPortGetProperties", port, structure, calls)
            if not isinstance(found, Absent):
                self.fabric = int(found.id.fabric)

    def linked(self, calls: Calls | None = None) -> list[int]:
        """Fabric id at the other end of each port that is up."""
        if self._ports is None:
            self._find(calls)
        if isinstance(self._ports, Absent):
            return []
        states = [self._state(port, calls) for port in self._ports]
        return [
            int(state.remote.fabric)
            for state in states
            if not isinstance(state, Absent) and state.status in UP
        ]

    def _state(self, port: Any, calls: Calls | None) -> Any:
        structure = made(self._zes, zes.PortState)
        return filled(self._zes, "zesFabricPortGetState", port, structure, calls)
