# SPDX-License-Identifier: Apache-2.0
"""One Intel GPU through Level Zero Sysman: unchanging fields, and errors of those in its record.

native/devices/intel/intel.c fills the record; the binding gives the fields that do not change.
Units of Sysman are mW and MHz (zes_api.h).
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from stoker.agent.devices.card import DrivenCard, Points
from stoker.agent.devices.fields import answers
from stoker.agent.devices.host import topology
from stoker.agent.devices.host.processes import rows
from stoker.agent.devices.intel import zes
from stoker.agent.devices.intel.ports import Ports
from stoker.agent.devices.intel.power import ENERGY_STEP_J, Power
from stoker.agent.devices.intel.zes import filled, listed, made
from stoker.agent.devices.readings import Absent, Field, Fields, Reading
from stoker.agent.devices.record import Decoder, RecordCopy, links, processes

MHZ = 1_000_000
GPU, MEMORY = 0, 1
"""zes_freq_domain_t."""
SENSORS = {0: "hotspot", 1: "die", 2: "memory"}
"""zes_temp_sensors_t; the global sensor is the hottest of all."""
PROCESSES_MAX = 128


class IntelCard(DrivenCard):
    """A GPU by its Sysman handle."""

    unread = "no call of Level Zero Sysman that is made here tells it"
    table = "intel"

    def __init__(self, binding: Any, handle: Any, id: str, address: str, root: Path, *, sim: bool):
        super().__init__()
        self.id, self.sim, self.address = id, sim, address
        self._zes, self._handle, self._root = binding, handle, root
        self._decoder: Decoder | None = None
        self.ports = Ports(binding, handle)
        self._power = Power(binding, handle, self.calls)
        self._clocks: dict[int, Any] = {}
        self._heat: dict[str, Any] = {}
        self._memories: Any = Absent("not looked for yet")

    def address_of_handle(self) -> int:
        return int(getattr(self._handle, "value", self._handle) or 0)

    def binding(self) -> tuple[Any, Any]:
        """pyzes and the handle, for setters of limits, which call it in another thread."""
        return self._zes, self._handle

    def _listed(self, name: str, kind: str) -> Any:
        return listed(self._zes, name, self._handle, getattr(self._zes, kind), self.calls)

    def _filled(self, name: str, handle: Any, kind: str, stype: str = "") -> Any:
        if isinstance(handle, Absent):
            return handle
        structure = made(self._zes, kind, stype or 0)
        return filled(self._zes, name, handle, structure, self.calls)

    # --- once -------------------------------------------------------------------------------------

    def once(self) -> Fields:
        self._find()
        device = self._properties()
        pci = self._filled(
            "zesDevicePciGetProperties",
            self._handle,
            "zes_pci_properties_t",
            "ZES_STRUCTURE_TYPE_PCI_PROPERTIES",
        )
        numa = topology.numa_node(self.address, self._root)
        gone = isinstance(device, Absent)
        found: dict[str, Any] = {
            "power_average_w": Absent("Sysman has an energy counter alone: see `energy_power_w`"),
            "power_samples_w": Absent("Sysman keeps no samples of power"),
            "partitions": Absent("tiles are not listed as devices of their own here"),
            "model": device if gone else model_of(device),
            "uuid": device if gone else uuid_of(device),
            "serial": device if gone else _text(device.serialNumber, "serialNumber"),
            "bus_id": self.address,
            "driver": device if gone else _text(device.driverVersion, "driverVersion"),
            "numa": Absent("no numa_node in /sys") if numa is None else numa,
            "units": device if gone else device.core.numSlices * device.core.numSubslicesPerSlice,
            "memory_total_bytes": self._memory("size"),
            "pcie_gen_max": pci if isinstance(pci, Absent) else _known(pci.maxSpeed.gen, "gen"),
            "pcie_width_max": pci
            if isinstance(pci, Absent)
            else _known(pci.maxSpeed.width, "width"),
            **self._bounds(),
        }
        return answers(found, time.time_ns())

    def _properties(self) -> Any:
        kind, stype = "zes_device_properties_t", "ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES"
        return self._filled("zesDeviceGetProperties", self._handle, kind, stype)

    def _find(self) -> None:
        """Find the domains of the card, whose handles stay valid while it is there."""
        device = self._properties()
        self._power.find(0 if isinstance(device, Absent) else device.numSubdevices)
        self._clocks, self._heat = {}, {}
        clocks = self._listed("zesDeviceEnumFrequencyDomains", "zes_freq_handle_t")
        for handle in () if isinstance(clocks, Absent) else clocks:
            found = self._clock(handle)
            if not isinstance(found, Absent):
                self._clocks.setdefault(found.type, handle)
        sensors = self._listed("zesDeviceEnumTemperatureSensors", "zes_temp_handle_t")
        for handle in () if isinstance(sensors, Absent) else sensors:
            found = self._sensor(handle)
            if not isinstance(found, Absent) and found.type in SENSORS:
                self._heat.setdefault(SENSORS[found.type], handle)
        self._memories = self._listed("zesDeviceEnumMemoryModules", "zes_mem_handle_t")

    def _clock(self, handle: Any) -> Any:
        kind, stype = "zes_freq_properties_t", "ZES_STRUCTURE_TYPE_FREQ_PROPERTIES"
        return self._filled("zesFrequencyGetProperties", handle, kind, stype)

    def _sensor(self, handle: Any) -> Any:
        kind, stype = "zes_temp_properties_t", "ZES_STRUCTURE_TYPE_TEMP_PROPERTIES"
        return self._filled("zesTemperatureGetProperties", handle, kind, stype)

    def _bounds(self) -> dict[str, Any]:
        least, most, usual = self._power.bounds()

        def highest(domain: int) -> Any:
            found = self._clock(self._clocks.get(domain, Absent("no such frequency domain")))
            return found if isinstance(found, Absent) else found.max * MHZ

        def hottest(name: str) -> Any:
            found = self._sensor(self._heat.get(name, Absent(f"no {name} sensor")))
            return found if isinstance(found, Absent) else _known(found.maxTemperature, name)

        return {
            "power_limit_min_w": least,
            "power_limit_max_w": most,
            "power_limit_default_w": usual,
            "clock_max_hz": highest(GPU),
            "memory_clock_max_hz": highest(MEMORY),
            "temperature_slowdown_c": hottest("die"),
            "memory_temperature_max_c": hottest("memory"),
        }

    # --- fields of the record ---------------------------------------------------------------------

    def read(self, found: RecordCopy, points: Points) -> Fields:
        if self._decoder is None:
            self._decoder = Decoder(self.table, zes.words_of(self._zes))
        made = self._decoder.fields(found)
        step_j = max(1, len(self._power.handles)) * ENERGY_STEP_J
        made["energy_j"] = _energy(made["energy_j"], step_j)
        made["power_w"] = _watts(made["power_w"], step_j)
        if "links" not in made:
            peers = self.ports.peers
            ports = [each.row(peers.get(each.peer - 1, ""), "gpu") for each in links(found)]
            made["links"] = Reading(ports, "", found.slow_ns)
        if "processes" not in made:
            made["processes"] = self._processes(found)
        return made

    def _processes(self, found: RecordCopy) -> Field:
        running = list(processes(found))
        self.pids = tuple(each.pid for each in running)
        return Reading(rows(running, self._root / "proc"), "", found.slow_ns)

    def _memory(self, what: str) -> Any:
        """Sum of `size` or `free` bytes over all memory modules of the device."""
        if isinstance(self._memories, Absent):
            return self._memories
        total = 0
        for handle in self._memories:
            kind, stype = "zes_mem_state_t", "ZES_STRUCTURE_TYPE_MEM_STATE"
            found = self._filled("zesMemoryGetState", handle, kind, stype)
            if isinstance(found, Absent):
                return found
            total += getattr(found, what)
        return total if self._memories else Absent("zesDeviceEnumMemoryModules: none")

    def look(self) -> None:
        """List its processes and find its domains; called by a scan."""
        self._find()
        kind, name = self._zes.zes_process_state_t, "zesDeviceProcessesGetState"
        found = listed(self._zes, name, self._handle, kind, self.calls, most=PROCESSES_MAX)
        if not isinstance(found, Absent):
            self.pids = tuple(int(each.processId) for each in found)

    def memory_bytes(self) -> int | Absent:
        """Size of the device memory."""
        return self._memory("size")  # type: ignore[no-any-return]


def _energy(found: Field, step_j: float) -> Field:
    if isinstance(found, Absent):
        return found
    return Reading(found.value, "J", found.t_ns, 0, step_j)


def _watts(found: Field, step_j: float) -> Field:
    """Power by the energy counter; both ends of the window may be off by one step."""
    if isinstance(found, Absent):
        return found
    error = 2 * step_j / (found.window_ns * 1e-9)
    return Reading(found.value, "W", found.t_ns, found.window_ns, error, "by energy")


def uuid_of(device: Any) -> str:
    """UUID of the device as text."""
    return str(uuid.UUID(bytes=bytes(device.core.uuid.id)))


def model_of(device: Any) -> str:
    name: bytes = device.core.name or device.modelName
    return name.decode(errors="replace")


def driver_of(device: Any) -> str:
    """The version of the driver, empty where it does not tell it."""
    found = _text(device.driverVersion, "driverVersion")
    return "" if isinstance(found, Absent) else str(found)


def _text(value: bytes, name: str) -> Any:
    text = value.decode(errors="replace")
    return Absent(f"{name}: {text or 'empty'}") if text in ("", "unknown") else text


def _known(value: Any, name: str) -> Any:
    """A number; -1 means that the driver does not know it."""
    return Absent(f"{name}: not known to the driver") if value < 0 else value
