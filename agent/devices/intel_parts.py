# SPDX-License-Identifier: Apache-2.0
"""Xe Link ports and error counters of one Intel GPU, which the binding has no functions for.

Relied on by `intel_card.py` and, for who is linked to whom, by `intel.py`.
"""

from __future__ import annotations

import ctypes
from ctypes import c_uint8, c_void_p
from typing import Any

from stoker.agent.devices import zes
from stoker.agent.devices.card import Calls
from stoker.agent.devices.readings import Absent, Field, Fields, Reading
from stoker.agent.devices.zes import filled, listed, made

UP = (1, 2)
"""zes_fabric_port_status_t: healthy, degraded."""
CORRECTABLE = 0
"""zes_ras_error_type_t; 1 is uncorrectable."""
HARDWARE = (3, 4, 5)
"""zes_ras_error_cat_t: compute, fixed function and caches. Resets, what programs do wrong (any job
can make such errors), the driver's own and the display's are no errors of the card's memory."""


class Ports:
    """Fabric ports of one GPU; `peers` is filled by who knows all of them: fabric id -> device."""

    def __init__(self, binding: Any, handle: Any) -> None:
        self._zes, self._handle = binding, handle
        self._ports: Any = None
        self.peers: dict[int, str] = {}
        self.fabric: int | None = None
        """Its own number in the fabric."""

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
        """Fabric numbers at the other ends of ports that are up, one for each port."""
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

    def read(self, calls: Calls) -> Field:
        """A list of ports, each {port, up, peer, peer_kind, tx_bytes, rx_bytes, errors}."""
        if self._ports is None:
            self._find(calls)
        if isinstance(self._ports, Absent):
            found, self._ports = self._ports, None
            return found
        if not self._ports:
            return Absent("zesDeviceEnumFabricPorts: none")
        rows = []
        for number, port in enumerate(self._ports):
            state = self._state(port, calls)
            if isinstance(state, Absent):
                return state
            moved = filled(
                self._zes, "zesFabricPortGetThroughput", port, zes.PortThroughput(), calls
            )
            gone = isinstance(moved, Absent)
            rows.append(
                {
                    "port": number,
                    "up": state.status in UP,
                    "peer": self.peers.get(int(state.remote.fabric), ""),
                    "peer_kind": "gpu",
                    "tx_bytes": None if gone else int(moved.tx),
                    "rx_bytes": None if gone else int(moved.rx),
                    "errors": None,
                }
            )
        return Reading(rows, "", calls.now())

    def _state(self, port: Any, calls: Calls | None) -> Any:
        structure = made(self._zes, zes.PortState)
        return filled(self._zes, "zesFabricPortGetState", port, structure, calls)


class Errors:
    """RAS counters of one GPU: sums over their categories."""

    def __init__(self, binding: Any, handle: Any) -> None:
        self._zes, self._handle = binding, handle
        self._sets: list[tuple[Any, str]] = []

    def read(self, calls: Calls) -> Fields:
        """`ecc_enabled`, `ecc_corrected` and `ecc_uncorrected`."""
        structure = made(
            self._zes,
            "zes_device_ecc_properties_t",
            "ZES_STRUCTURE_TYPE_DEVICE_ECC_PROPERTIES",
        )
        state = filled(self._zes, "zesDeviceGetEccState", self._handle, structure, calls)
        now = calls.now()
        enabled: Field = (
            state if isinstance(state, Absent) else Reading(state.currentState == 1, "", now)
        )
        return {"ecc_enabled": enabled, **self._counts(calls)}

    def _counts(self, calls: Calls) -> Fields:
        names = ("ecc_corrected", "ecc_uncorrected")
        if not self._sets:
            failed = self.find(calls)
            if failed is not None:
                return dict.fromkeys(names, failed)
        found: Fields = dict.fromkeys(names, Absent("zesDeviceEnumRasErrorSets: none"))
        for handle, name in self._sets:
            count = self._count(handle, calls)
            before = found[name]
            if isinstance(before, Reading) and isinstance(count, Reading):  # a set of each tile
                count = Reading(before.value + count.value, "1", count.t_ns)
            found[name] = count
        return found

    def find(self, calls: Calls) -> Absent | None:
        """Which sets there are, and of what; they do not change."""
        sets = listed(self._zes, "zesDeviceEnumRasErrorSets", self._handle, c_void_p, calls)
        if isinstance(sets, Absent):
            return sets
        for handle in map(c_void_p, sets):
            structure = made(self._zes, zes.RasProperties)
            kind = filled(self._zes, "zesRasGetProperties", handle, structure, calls)
            if not isinstance(kind, Absent):
                name = "ecc_corrected" if kind.type == CORRECTABLE else "ecc_uncorrected"
                self._sets.append((handle, name))
        return None

    def _count(self, handle: Any, calls: Calls) -> Field:
        structure = made(self._zes, zes.RasState)
        # Called with what is not to be cleared: zesRasGetState(handle, clear, state).
        failed = zes.ask(
            self._zes, "zesRasGetState", handle, c_uint8(0), ctypes.byref(structure), calls=calls
        )
        if failed is not None:
            return failed
        return Reading(sum(structure.category[each] for each in HARDWARE), "1", calls.now())
