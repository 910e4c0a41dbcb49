# SPDX-License-Identifier: Apache-2.0
"""One Intel GPU through Level Zero Sysman: domains found once, then asked one by one.

Relied on by the vendor class in `intel.py`. Sysman has no power sensor: power is the difference of
the energy counter between two rounds, and says over how long. Units are zes_api.h's: uJ, us, mW,
MHz.
"""

from __future__ import annotations

import ctypes
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoker.agent.devices import topology, zes
from stoker.agent.devices.card import Calls, Card, Points
from stoker.agent.devices.fields import reading
from stoker.agent.devices.intel_parts import Errors, Ports
from stoker.agent.devices.intel_plan import IntelPlan
from stoker.agent.devices.intel_power import FIRST, Power
from stoker.agent.devices.nvidia_processes import name_of
from stoker.agent.devices.plan import Plan, Step
from stoker.agent.devices.readings import Absent, Field, Fields, Reading
from stoker.agent.devices.zes import filled, listed, made
from stoker.native import _devices

MHZ = 1_000_000
GPU, MEMORY = 0, 1
"""zes_freq_domain_t."""
SENSORS = {0: "hotspot", 1: "die", 2: "memory"}
"""zes_temp_sensors_t: global is the hottest of all."""
ENGINES = (0, 1, 4)
"""zes_engine_group_t: all, all compute, a single compute one; the first that there is."""
REASONS = (
    (0x1 | 0x2 | 0x200, "power limit"),
    (0x4, "current limit"),
    (0x8 | 0x100, "thermal"),
    (0x10, "power brake"),
    (0x20, "application clocks"),
    (0x40, "hardware range"),
    (0x80, "voltage"),
)
BRAKE = 0x10
"""Of the reasons above, the one that tells of a fault."""
MICRO = 1e-6
PROCESSES_MAX = 128


class IntelCard(Card):
    """A GPU by its Sysman handle."""

    lacks = "no call of Level Zero Sysman that is made here tells it"

    def __init__(self, binding: Any, handle: Any, id: str, address: str, root: Path, *, sim: bool):
        super().__init__()
        self.id, self.sim, self.address = id, sim, address
        self.pids: tuple[int, ...] = ()
        """Processes on it, as last listed."""
        self._zes, self._handle, self._root = binding, handle, root
        self.ports = Ports(binding, handle)
        self._errors = Errors(binding, handle)
        self._power = Power(binding, handle, self.calls)
        self._engine: Any = Absent("not looked for yet")
        self._clocks: dict[int, Any] = {}
        self._heat: dict[str, Any] = {}
        self._memories: Any = self._engine
        self._active: tuple[int, int] | None = None
        self._moved: tuple[int, int] | None = None
        self._planned: IntelPlan | None = None
        self._points: Points | None = None
        self.tell: Callable[[tuple[int, ...]], None] = self._tell
        """Told which processes there are."""

    def binding(self) -> tuple[Any, Any]:
        """pyzes and the handle, for whoever sets limits of it in a thread of its own."""
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
        now = time.time_ns()
        return {name: field(name, value, now) for name, value in found.items()}

    def _properties(self) -> Any:
        kind, stype = "zes_device_properties_t", "ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES"
        return self._filled("zesDeviceGetProperties", self._handle, kind, stype)

    def _find(self) -> None:
        """Domains of the card; their handles are valid as long as it is there."""
        device = self._properties()
        self._power.find(0 if isinstance(device, Absent) else device.numSubdevices)
        engines = self._listed("zesDeviceEnumEngineGroups", "zes_engine_handle_t")
        self._engine = self._best_engine(engines)
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

    def _best_engine(self, engines: Any) -> Any:
        if isinstance(engines, Absent):
            return engines
        kind, stype = "zes_engine_properties_t", "ZES_STRUCTURE_TYPE_ENGINE_PROPERTIES"
        by_type: dict[int, Any] = {}
        for handle in engines:
            found = self._filled("zesEngineGetProperties", handle, kind, stype)
            if not isinstance(found, Absent):
                by_type.setdefault(found.type, handle)
        chosen = [by_type[each] for each in ENGINES if each in by_type]
        return chosen[0] if chosen else Absent("zesDeviceEnumEngineGroups: no compute engine")

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

    # --- the plan ---------------------------------------------------------------------------------

    def plan(self) -> Plan | None:
        """Made of the calls themselves, with the domains that there are, once more when a call is
        wanted that it lacks."""
        # The counters of several tiles are added up here: a reader in C keeps one.
        if not hasattr(self._zes, "getFunctionPointerList") or len(self._power.handles) > 1:
            return None
        made = self._planned
        if made is None or made.recorded.lacks or made.domains != self._domains():
            made = self._planned = IntelPlan(self._zes, self.twin(), self._domains())
            made.begin()
        return made.recorded.plan if made.whole else None

    @property
    def whole(self) -> bool:
        return self._planned is not None and self._planned.whole

    @property
    def all_calls(self) -> tuple[Calls, ...]:
        planned = self._planned
        return (self.calls,) if planned is None else (self.calls, planned.card.calls)

    def twin(self) -> IntelCard:
        """Another one for the same GPU, whose calls are its own."""
        made = IntelCard(self._zes, self._handle, self.id, self.address, self._root, sim=self.sim)
        made.ports, made.tell = self.ports, self._tell
        made._power.domains = self._power.domains
        made._engine, made._memories = self._engine, self._memories
        made._clocks, made._heat = dict(self._clocks), dict(self._heat)
        return made

    def _tell(self, pids: tuple[int, ...]) -> None:
        self.pids = pids

    def _domains(self) -> tuple[Any, ...]:
        """All handles that it has."""
        several = self._memories if isinstance(self._memories, list) else []
        found = [
            *self._power.handles,
            self._engine,
            *several,
            *self._clocks.values(),
            *self._heat.values(),
        ]
        return tuple(getattr(each, "value", None) for each in found)

    def tapped(self, plan: Plan) -> None:
        """What of a plan's answers has a history, and which bits are news."""

        def step(name: str, handle: Any) -> Step | None:
            return plan.answers.get((name, getattr(handle, "value", 0), ""))

        power = next(iter(self._power.handles), None)
        energy = step("zesPowerGetEnergyCounter", power) if power is not None else None
        plan.tap("energy_j", energy, _devices.U64, scale=MICRO)
        plan.tap("energy_at_s", energy, _devices.U64, at=8, scale=MICRO)
        plan.rate("power_w", "energy_j", by="energy_at_s", lag=1)
        plan.rate("energy_power_w", "energy_j", by="energy_at_s")
        active = step("zesEngineGetActivity", self._engine)
        plan.tap("busy_s", active, _devices.U64, scale=MICRO)
        plan.tap("busy_at_s", active, _devices.U64, at=8, scale=MICRO)
        plan.rate("busy_ratio", "busy_s", by="busy_at_s", lag=1)
        for name, sensor in (("temperature_c", "die"), ("memory_temperature_c", "memory")):
            if sensor in self._heat:
                heat = step("zesTemperatureGetState", self._heat[sensor])
                plan.tap(name, heat, _devices.F64)
        state = self._zes.zes_freq_state_t
        for name, domain in (("clock_hz", GPU), ("memory_clock_hz", MEMORY)):
            if domain in self._clocks:
                clock = step("zesFrequencyGetState", self._clocks[domain])
                plan.tap(name, clock, _devices.F64, at=state.actual.offset, scale=MHZ)
                if domain == GPU:
                    plan.news(clock, BRAKE, at=state.throttleReasons.offset)

    def seen(self, points: Points) -> None:
        self._points = points

    def ready(self) -> None:
        """Find what does not change and is no part of a plan."""
        self._errors.find(self.calls)

    def answer(self, replay: Any, t_ns: int) -> None:
        """From now on calls are answered by this."""
        self.calls.replay, self.calls.t_ns = replay, t_ns

    # --- ten times a second -----------------------------------------------------------------------

    def fast(self) -> Fields:
        energy, now = self._power.read(self._points)
        clock = self._state(GPU)
        found = {
            "temperature_c": self._degrees("die"),
            "memory_temperature_c": self._degrees("memory"),
            "busy_ratio": self._busy(),
            "clock_hz": _frequency(clock),
            "memory_clock_hz": _frequency(self._state(MEMORY)),
            "throttle": clock
            if isinstance(clock, Absent)
            else [word for bits, word in REASONS if clock.throttleReasons & bits],
        }
        return {**{name: field(name, value, now) for name, value in found.items()}, **energy}

    def _busy(self) -> Any:
        found = self._filled("zesEngineGetActivity", self._engine, "zes_engine_stats_t")
        if isinstance(found, Absent):
            return found
        if self._points is not None:
            newest = self._points("busy_ratio", 1)
            return min(newest[0][1], 1.0) if newest else FIRST
        before, self._active = self._active, (found.activeTime, found.timestamp)
        if before is None or self._active[1] <= before[1]:
            return FIRST
        share = (self._active[0] - before[0]) / (self._active[1] - before[1])
        return min(max(share, 0.0), 1.0)

    def _degrees(self, name: str) -> Any:
        handle = self._heat.get(name)
        if handle is None:
            return Absent(f"zesDeviceEnumTemperatureSensors: no {name} sensor")
        value = ctypes.c_double()
        failed = zes.ask(
            self._zes, "zesTemperatureGetState", handle, ctypes.byref(value), calls=self.calls
        )
        return value.value if failed is None else failed

    def _state(self, domain: int) -> Any:
        handle = self._clocks.get(domain)
        if handle is None:
            return Absent("zesDeviceEnumFrequencyDomains: no such domain")
        kind, stype = "zes_freq_state_t", "ZES_STRUCTURE_TYPE_FREQ_STATE"
        return self._filled("zesFrequencyGetState", handle, kind, stype)

    # --- once a second ----------------------------------------------------------------------------

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        return (
            self._used,
            self._limits,
            self._bus,
            self._bandwidth,
            lambda: self._errors.read(self.calls),
            lambda: {"links": self.ports.read(self.calls)},
            self._processes,
        )

    def _memory(self, what: str) -> Any:
        """Size or free bytes of all modules of the device."""
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

    def _used(self) -> Fields:
        size, free, now = self._memory("size"), self._memory("free"), self.calls.now()
        missing = [each for each in (size, free) if isinstance(each, Absent)]
        return {
            "memory_free_bytes": field("memory_free_bytes", free, now),
            "memory_used_bytes": missing[0]
            if missing
            else reading("memory_used_bytes", size - free, now),
            "hotspot_temperature_c": field("hotspot_temperature_c", self._degrees("hotspot"), now),
        }

    def _limits(self) -> Fields:
        now = self.calls.now()
        clock = self._clocks.get(GPU, Absent("no frequency domain"))
        span = self._filled("zesFrequencyGetRange", clock, "zes_freq_range_t")
        time_us = self._filled("zesFrequencyGetThrottleTime", clock, "zes_freq_throttle_time_t")
        gone = isinstance(time_us, Absent)
        found = {
            "power_limit_w": self._power.sustained(),
            "clock_limit_hz": span if isinstance(span, Absent) else span.max * MHZ,
            "throttle_ns": time_us if gone else time_us.throttleTime * 1000,
        }
        return {name: field(name, value, now) for name, value in found.items()}

    def _bus(self) -> Fields:
        state = self._filled(
            "zesDevicePciGetState",
            self._handle,
            "zes_pci_state_t",
            "ZES_STRUCTURE_TYPE_PCI_STATE",
        )
        stats = self._filled("zesDevicePciGetStats", self._handle, "zes_pci_stats_t")
        now = self.calls.now()
        found = {
            "pcie_gen": state if isinstance(state, Absent) else _known(state.speed.gen, "gen"),
            "pcie_width": state
            if isinstance(state, Absent)
            else _known(state.speed.width, "width"),
            "pcie_tx_bytes": stats if isinstance(stats, Absent) else stats.txCounter,
            "pcie_rx_bytes": stats if isinstance(stats, Absent) else stats.rxCounter,
            "pcie_replays": stats if isinstance(stats, Absent) else stats.replayCounter,
        }
        return {name: field(name, value, now) for name, value in found.items()}

    def _bandwidth(self) -> Fields:
        name = "memory_bandwidth_ratio"
        if isinstance(self._memories, Absent) or not self._memories:
            return {name: Absent("zesDeviceEnumMemoryModules: none")}
        moved = stamp = most = 0
        for handle in self._memories:
            found = self._filled("zesMemoryGetBandwidth", handle, "zes_mem_bandwidth_t")
            if isinstance(found, Absent):
                return {name: found}
            moved += found.readCounter + found.writeCounter
            most += found.maxBandwidth
            stamp = found.timestamp
        before, self._moved = self._moved, (moved, stamp)
        if before is None or stamp <= before[1] or not most:
            return {name: FIRST}
        passed_us = stamp - before[1]
        share = (moved - before[0]) / (most * passed_us * 1e-6)
        return {name: Reading(share, "1", self.calls.now(), passed_us * 1000)}

    def _processes(self) -> Fields:
        kind = self._zes.zes_process_state_t
        name = "zesDeviceProcessesGetState"
        found = listed(self._zes, name, self._handle, kind, self.calls, most=PROCESSES_MAX)
        if isinstance(found, Absent):
            return {"processes": found}
        rows = [
            {
                "pid": int(each.processId),
                "kind": "compute",
                "name": name_of(int(each.processId), self._root / "proc"),
                "memory_bytes": int(each.memSize),
                "busy_ratio": None,
            }
            for each in found
        ]
        self.tell(tuple(int(each.processId) for each in found))
        return {"processes": Reading(rows, "", self.calls.now())}

    def look(self) -> None:
        """List its processes and find its domains, while it is looked for."""
        self._find()
        self._processes()

    def memory_bytes(self) -> int | Absent:
        """Size of its memory."""
        return self._memory("size")  # type: ignore[no-any-return]


def field(name: str, value: Any, now: int) -> Field:
    """A reading of a field of the table, or the absence that it is."""
    return value if isinstance(value, Absent) else reading(name, value, now)


def uuid_of(device: Any) -> str:
    """The device's UUID, as text."""
    return str(uuid.UUID(bytes=bytes(device.core.uuid.id)))


def model_of(device: Any) -> str:
    name: bytes = device.core.name or device.modelName
    return name.decode(errors="replace")


def _text(value: bytes, name: str) -> Any:
    text = value.decode(errors="replace")
    return Absent(f"{name}: {text or 'empty'}") if text in ("", "unknown") else text


def _known(value: Any, name: str, factor: float = 1) -> Any:
    """-1 means that the driver does not know."""
    return Absent(f"{name}: not known to the driver") if value < 0 else value * factor


def _frequency(state: Any) -> Any:
    return state if isinstance(state, Absent) else _known(state.actual, "actual", MHZ)
