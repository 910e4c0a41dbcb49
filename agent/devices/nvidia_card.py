# SPDX-License-Identifier: Apache-2.0
"""One NVIDIA GPU: each field from the cheapest NVML call that has it.

Relied on by the vendor class in `nvidia.py`. Numbers of fields and reasons are nvml.h's (13.0).

Power: of GA100 and GH100 chips (A100, A30, H100, H200) the sensor looks at 25 ms of each 100 ms
(arXiv 2312.02741), so the other 75 % of the time may have been anything that was seen within the
last second; NVIDIA states 5 % for the sensor itself. Both are in the error of a reading.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stoker.agent.devices import topology
from stoker.agent.devices.card import Calls, Card, Points
from stoker.agent.devices.fields import UNITS, reading
from stoker.agent.devices.nvidia_gpm import Gpm
from stoker.agent.devices.nvidia_links import Links
from stoker.agent.devices.nvidia_mig import Instances
from stoker.agent.devices.nvidia_plan import REASON_CALLS, NvidiaPlan
from stoker.agent.devices.nvidia_processes import Processes
from stoker.agent.devices.nvidia_slow import SAMPLES_SHOWN, Sample
from stoker.agent.devices.nvml import Batch, Wanted, ask, first, text
from stoker.agent.devices.plan import Plan, Snapshot
from stoker.agent.devices.readings import Absent, Field, Fields, Reading

POWER_AVERAGE, POWER_INSTANT, ENERGY, MEMORY_TEMPERATURE = 185, 186, 83, 82
SENSOR_ERROR = 0.05
PARTLY_SAMPLED = ((8, 0), (9, 0))
"""CUDA compute capabilities of GA100 and GH100."""
SAMPLED_NS, SAMPLE_PERIOD_NS = 25_000_000, 100_000_000
AVERAGE_NS = 1_000_000_000
ENERGY_PERIOD_NS = 100_000_000
"""The energy counter moves about so often (ml.energy); a reading is behind by at most that."""
SM, MEMORY = 1, 2
"""nvmlClockType_t."""
MHZ = 1_000_000
TOTAL_POWER_SAMPLES = 0
REASONS = (
    (0x1, "idle"),
    (0x2, "application clocks"),
    (0x4, "power limit"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "thermal"),
    (0x40, "hard thermal"),
    (0x80, "power brake"),
    (0x100, "display clocks"),
)
RECOVERY = (
    "none",
    "reset",
    "reboot node",
    "drain peers",
    "drain and reset",
    "recover imex domain",
    "reset bus",
    "reboot system",
)
FLAGS = ("ecc_enabled", "retired_pending", "remap_pending", "remap_failed")
_COUNTERS: tuple[tuple[str, Wanted, Wanted | None], ...] = (
    ("throttle_power_ns", (74, 0), None),
    ("throttle_thermal_ns", (269, 0), (75, 0)),
    ("throttle_hard_thermal_ns", (270, 0), None),
    ("throttle_brake_ns", (271, 0), None),
    ("throttle_sync_ns", (76, 0), None),
    ("throttle_board_ns", (77, 0), None),
    ("throttle_reliability_ns", (79, 0), None),
    ("ecc_enabled", (1, 0), None),
    ("ecc_corrected", (3, 0), None),
    ("ecc_uncorrected", (4, 0), None),
    ("ecc_corrected_total", (5, 0), None),
    ("ecc_uncorrected_total", (6, 0), None),
    ("retired_pending", (31, 0), None),
    ("remap_pending", (144, 0), None),
    ("remap_failed", (145, 0), None),
    ("pcie_replays", (94, 0), None),
    ("pcie_tx_bytes", (197, 0), None),
    ("pcie_rx_bytes", (198, 0), None),
)
"""Field -> NVML field, and the one that an older driver has instead."""
COUNTERS = tuple((name, UNITS[name], name in FLAGS, new, old) for name, new, old in _COUNTERS)
"""The same with units, and whether it is a flag."""
SUMS = (("retired_pages", (29, 0), (30, 0)), ("remapped_rows", (142, 0), (143, 0)))
INSTANCES_TURNS = 5
LIMIT, RECOVERY_ACTION = (190, 0), (230, 0)
SLOW_WANTED = (
    *(where for _, new, old in _COUNTERS for where in (new, old) if where is not None),
    *(where for _, *both in SUMS for where in both),
    LIMIT,
    RECOVERY_ACTION,
)


class NvidiaCard(Card):
    """A GPU by its handle; `root` is where /proc and /sys are."""

    lacks = "no call of NVML that is made here tells it"

    def __init__(self, nvml: Any, handle: Any, id: str, root: Path, *, sim: bool) -> None:
        super().__init__()
        self.id, self.sim = id, sim
        self.pids: tuple[int, ...] = ()
        """Processes with a context on it, as last listed."""
        self._nvml, self._handle, self._root = nvml, handle, root
        self._fast = Batch(
            nvml,
            handle,
            [(POWER_INSTANT, 0), (POWER_AVERAGE, 0), (ENERGY, 0), (MEMORY_TEMPERATURE, 0)],
        )
        self._slow = Batch(nvml, handle, SLOW_WANTED)
        self._links = Links(nvml, handle)
        self._gpm = Gpm(nvml, handle)
        self._processes = Processes(nvml, handle, root)
        self._instances = Instances(nvml, handle)
        self._recent: deque[float] = deque(maxlen=10)
        self.fast_calls = Calls()
        self._planned = NvidiaPlan.of(nvml, handle, self._fast)
        self._slow_planned = False
        if self._planned is not None:
            self.slow_calls = Calls()
        self._partly = False
        self._averages = True
        self._samples_us = 0
        self._turn = 0
        self._parts: Fields = {}

    def ask(self, name: str, *arguments: Any) -> Any:
        """One NVML call about this card."""
        return ask(self._nvml, name, self._handle, *arguments, calls=self.calls)

    def binding(self) -> tuple[Any, Any]:
        """NVML and the handle, for whoever sets limits of it in a thread of its own."""
        return self._nvml, self._handle

    # --- once -------------------------------------------------------------------------------------

    def once(self) -> Fields:
        capability = self.ask("nvmlDeviceGetCudaComputeCapability")
        self._partly = capability in PARTLY_SAMPLED
        self._averages = not isinstance(capability, Absent) and tuple(capability) > (8, 0)
        pci = self.ask("nvmlDeviceGetPciInfo")
        bus = pci if isinstance(pci, Absent) else topology.pci_address(text(pci.busId))
        driver = ask(self._nvml, "nvmlSystemGetDriverVersion", calls=self.calls)
        memory = self.ask("nvmlDeviceGetMemoryInfo")
        found: dict[str, Any] = {
            "model": self.ask("nvmlDeviceGetName"),
            "architecture": self._architecture(),
            "uuid": self.ask("nvmlDeviceGetUUID"),
            "serial": self.ask("nvmlDeviceGetSerial"),
            "bus_id": bus,
            "driver": driver,
            "firmware": self.ask("nvmlDeviceGetVbiosVersion"),
            "minor": self.ask("nvmlDeviceGetMinorNumber"),
            "numa": self._numa(bus),
            "units": self._units(),
            "memory_total_bytes": memory if isinstance(memory, Absent) else int(memory.total),
            "clock_max_hz": scaled(self.ask("nvmlDeviceGetMaxClockInfo", SM), MHZ),
            "memory_clock_max_hz": scaled(self.ask("nvmlDeviceGetMaxClockInfo", MEMORY), MHZ),
            "pcie_gen_max": self.ask("nvmlDeviceGetMaxPcieLinkGeneration"),
            "pcie_width_max": self.ask("nvmlDeviceGetMaxPcieLinkWidth"),
        }
        now = time.time_ns()
        made: Fields = {name: field(name, value, now) for name, value in found.items()}
        return {**made, **self._bounds(now)}

    def _bounds(self, now: int) -> Fields:
        """Limits of power and temperature."""
        limits = self.ask("nvmlDeviceGetPowerManagementLimitConstraints")
        low, high = (limits, limits) if isinstance(limits, Absent) else limits
        found = {
            "power_limit_min_w": scaled(low, 1e-3),
            "power_limit_max_w": scaled(high, 1e-3),
            "power_limit_default_w": scaled(
                self.ask("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3
            ),
            "temperature_shutdown_c": self.ask("nvmlDeviceGetTemperatureThreshold", 0),
            "temperature_slowdown_c": self.ask("nvmlDeviceGetTemperatureThreshold", 1),
            "memory_temperature_max_c": self.ask("nvmlDeviceGetTemperatureThreshold", 2),
        }
        return {name: field(name, value, now) for name, value in found.items()}

    def _architecture(self) -> str | Absent:
        number = self.ask("nvmlDeviceGetArchitecture")
        if isinstance(number, Absent):
            return number
        prefix = "NVML_DEVICE_ARCH_"
        names = [n for n in dir(self._nvml) if n.startswith(prefix)]
        found = [n for n in names if getattr(self._nvml, n) == number]
        return found[0].removeprefix(prefix).capitalize() if found else f"number {number}"

    def _units(self) -> int | Absent:
        """SMs: of the attributes of a card with MIG, else by cores of an SM of this generation."""
        attributes = self.ask("nvmlDeviceGetAttributes_v2")
        if not isinstance(attributes, Absent):
            return int(attributes.multiprocessorCount)
        cores = self.ask("nvmlDeviceGetNumGpuCores")
        if isinstance(cores, Absent):
            return cores
        capability = self.ask("nvmlDeviceGetCudaComputeCapability")
        each = 64 if capability in ((7, 0), (7, 5), (8, 0)) else 128
        return int(cores) // each

    def _numa(self, bus: str | Absent) -> int | Absent:
        node = None if isinstance(bus, Absent) else topology.numa_node(bus, self._root)
        if node is not None:
            return node
        asked = self.ask("nvmlDeviceGetNumaNodeId")
        if isinstance(asked, Absent):
            return Absent(f"no numa_node in /sys; {asked.why}")
        return int(asked)

    # --- ten times a second -----------------------------------------------------------------------

    def plan(self) -> Plan | None:
        if self._planned is None:
            return None
        if not self._slow_planned:
            self._slow_planned = True
            self._links.read(self.calls)
            samples = self._gpm.prepare(self.calls)
            gpm = None if samples is None else (samples, self._gpm.asked)
            self._planned.slow(self._slow, self._links.batch, self._links.ports, gpm)
        return self._planned.plan

    def decode(self, found: Snapshot) -> Fields:
        assert self._planned is not None
        self.fast_calls.replay = self._planned.answers(found)
        return self.fast(found.t_ns)

    def decode_slow(self, found: Snapshot) -> Fields:
        assert self._planned is not None
        self.slow_calls.replay = self._planned.answers(found)
        self.slow_calls.t_ns = found.slow_ns
        made: Fields = {}
        for step in self.steps():
            made.update(step())
        return made

    def rest(self) -> Fields:
        self._links.meet(self.calls)
        return self._instances.read(self.calls)

    @property
    def whole(self) -> bool:
        return self._planned is not None

    def seen(self, points: Points) -> None:
        recent = points("power_w", self._recent.maxlen or 0)
        self._recent = deque((watts for _, watts in recent), maxlen=self._recent.maxlen)

    @property
    def all_calls(self) -> tuple[Calls, ...]:
        return (self.calls, self.fast_calls, self.slow_calls)

    def _ask_fast(self, name: str, *arguments: Any) -> Any:
        return ask(self._nvml, name, self._handle, *arguments, calls=self.fast_calls)

    def fast(self, t_ns: int = 0) -> Fields:
        values = self._fast.read(self.fast_calls)
        now = t_ns or time.time_ns()
        rates = self._ask_fast("nvmlDeviceGetUtilizationRates")
        gone = isinstance(rates, Absent)
        heat = self._ask_fast("nvmlDeviceGetTemperature", 0)
        clock = scaled(self._ask_fast("nvmlDeviceGetClockInfo", SM), MHZ)
        memory_clock = scaled(self._ask_fast("nvmlDeviceGetClockInfo", MEMORY), MHZ)
        return {
            **self._power(values, now),
            "energy_j": self._energy(values[ENERGY, 0]),
            "temperature_c": field("temperature_c", heat, now),
            "memory_temperature_c": of_batch("memory_temperature_c", values[MEMORY_TEMPERATURE, 0]),
            "busy_ratio": rates if gone else Reading(rates.gpu / 100, "1", now),
            "memory_busy_ratio": rates if gone else Reading(rates.memory / 100, "1", now),
            "clock_hz": field("clock_hz", clock, now),
            "memory_clock_hz": field("memory_clock_hz", memory_clock, now),
            "throttle": self._throttle(now),
        }

    def _power(self, values: dict[Wanted, Any], now: int) -> Fields:
        newest, average = values[POWER_INSTANT, 0], values[POWER_AVERAGE, 0]
        if isinstance(newest, Absent) or isinstance(average, Absent):
            asked = self._ask_fast("nvmlDeviceGetPowerUsage")
            whole = asked if isinstance(asked, Absent) else (float(asked), now)
            if self._averages and isinstance(average, Absent):
                average = whole
            if isinstance(newest, Absent):
                newest = whole
                if not isinstance(whole, Absent) and self._averages:
                    return {
                        "power_w": self._watts(whole, AVERAGE_NS),
                        "power_average_w": self._watts(average, AVERAGE_NS),
                    }
        window = SAMPLED_NS if self._partly else 0
        made: Fields = {"power_w": self._watts(newest, window, seen=True)}
        made["power_average_w"] = self._watts(average, AVERAGE_NS)
        return made

    def _watts(self, value: Any, window_ns: int, *, seen: bool = False) -> Field:
        if isinstance(value, Absent):
            return value
        watts = value[0] / 1000
        if seen and self.fast_calls.replay is None:
            self._recent.append(watts)
        error, note = SENSOR_ERROR * watts, "sensor 5 %"
        if self._partly and self._recent:
            unseen = 1 - SAMPLED_NS / SAMPLE_PERIOD_NS
            error += unseen * (max(self._recent) - min(self._recent)) / 2
            note = "sensor 5 %; it looks at 25 % of the time"
        return Reading(watts, "W", value[1], window_ns, error, note)

    def _energy(self, value: Any) -> Field:
        if isinstance(value, Absent):
            asked = self._ask_fast("nvmlDeviceGetTotalEnergyConsumption")
            if isinstance(asked, Absent):
                return asked
            value = (float(asked), time.time_ns())
        newest = self._recent[-1] if self._recent else 0.0
        error = newest * ENERGY_PERIOD_NS / 1e9
        return Reading(value[0] / 1000, "J", value[1], 0, error, "steps of about 100 ms")

    def _throttle(self, now: int) -> Field:
        bits = first(self._nvml, self.fast_calls, REASON_CALLS, self._handle)
        if isinstance(bits, Absent):
            return bits
        return Reading([word for bit, word in REASONS if bits & bit], "", now)

    # --- once a second ----------------------------------------------------------------------------

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        return (
            self._memory,
            self._counters,
            self._clocks,
            lambda: {"links": self._links.read(self.slow_calls)},
            self._listed,
            self._sampled,
            lambda: self._gpm.read(self.slow_calls),
            *(() if self.whole else (self._partitions,)),
        )

    def _partitions(self) -> Fields:
        """Instances change rarely."""
        if self._turn % INSTANCES_TURNS == 0:
            self._parts = self._instances.read(self.calls)
        self._turn += 1
        return self._parts

    def _ask_slow(self, name: str, *arguments: Any) -> Any:
        return ask(self._nvml, name, self._handle, *arguments, calls=self.slow_calls)

    def _memory(self) -> Fields:
        memory = self._ask_slow("nvmlDeviceGetMemoryInfo")
        fan = self._ask_slow("nvmlDeviceGetFanSpeed")
        rpm = self._ask_slow("nvmlDeviceGetFanSpeedRPM")
        now = self.slow_calls.now()
        gone = isinstance(memory, Absent)
        return {
            "memory_used_bytes": field("memory_used_bytes", memory if gone else memory.used, now),
            "memory_free_bytes": field("memory_free_bytes", memory if gone else memory.free, now),
            "fan_ratio": field("fan_ratio", scaled(fan, 0.01), now),
            "fan_rpm": field("fan_rpm", rpm, now),
        }

    def _counters(self) -> Fields:
        values = self._slow.read(self.slow_calls)
        made: Fields = {}
        for name, unit, flag, new, old in COUNTERS:
            value = values[new]
            if isinstance(value, Absent):
                value = value if old is None else values[old]
                if isinstance(value, Absent):
                    made[name] = value
                    continue
            number, t_ns = value
            made[name] = Reading(bool(number) if flag else number, unit, t_ns)
        for name, one, other in SUMS:
            made[name] = _sum(name, values[one], values[other])
        made["power_limit_w"] = self._limit(values[LIMIT])
        made["recovery_action"] = _recovery(values[RECOVERY_ACTION])
        return made

    def _limit(self, value: Any) -> Field:
        if not isinstance(value, Absent):
            return Reading(value[0] / 1000, "W", value[1])
        names = ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")
        asked = scaled(first(self._nvml, self.slow_calls, names, self._handle), 1e-3)
        return field("power_limit_w", asked, self.slow_calls.now())

    def _clocks(self) -> Fields:
        now = self.slow_calls.now()
        found = {
            "clock_limit_hz": Absent("NVML does not tell which clocks are locked"),
            "pcie_gen": self._ask_slow("nvmlDeviceGetCurrPcieLinkGeneration"),
            "pcie_width": self._ask_slow("nvmlDeviceGetCurrPcieLinkWidth"),
        }
        return {name: field(name, value, now) for name, value in found.items()}

    def _listed(self) -> Fields:
        made, self.pids = self._processes.read(self.slow_calls)
        return {"processes": made}

    def _sampled(self) -> Fields:
        """The newest of the samples that the driver keeps itself."""
        name = "power_samples_w"
        asked = self._ask_slow("nvmlDeviceGetSamples", TOTAL_POWER_SAMPLES, 0)
        if isinstance(asked, Absent):
            return {name: asked}
        kind, samples = asked
        rows = [
            {"t_ns": each.timeStamp * 1000, "value": _sample(kind, each) / 1000}
            for each in samples[-SAMPLES_SHOWN:]
        ]
        return {name: Reading(rows, "W", self.slow_calls.now())}

    def drain(self) -> Iterable[tuple[int, float]]:
        if self.whole:  # the plan keeps them
            return
        asked = self.ask("nvmlDeviceGetSamples", TOTAL_POWER_SAMPLES, self._samples_us)
        if isinstance(asked, Absent):
            return
        kind, samples = asked
        for each in samples:
            if each.timeStamp > self._samples_us:
                self._samples_us = each.timeStamp
                yield each.timeStamp * 1000, _sample(kind, each) / 1000


def _sample(kind: int, each: Any) -> int:
    """A sample's value by nvmlValueType_t."""
    if isinstance(each, Sample):
        return each.raw if kind in (2, 3) else each.raw & 0xFFFFFFFF
    value = each.sampleValue
    return int(value.ullVal if kind in (2, 3) else value.uiVal)


def scaled(value: Any, factor: float) -> Any:
    """A number in another unit; an absence as it is."""
    return value if isinstance(value, Absent) else value * factor


def field(name: str, value: Any, now: int) -> Field:
    """A reading of a field of the table, or the absence that it is."""
    if isinstance(value, Absent):
        return value
    return reading(name, text(value) if isinstance(value, bytes) else value, now)


def of_batch(name: str, value: tuple[float, int] | Absent) -> Field:
    """The same of a value of a batch."""
    return value if isinstance(value, Absent) else Reading(value[0], UNITS[name], value[1])


def _sum(name: str, one: Any, other: Any) -> Field:
    for each in (one, other):
        if isinstance(each, Absent):
            return each
    return Reading(one[0] + other[0], UNITS[name], one[1])


def _recovery(value: Any) -> Field:
    if isinstance(value, Absent):
        return value
    number = int(value[0])
    known = RECOVERY[number] if number < len(RECOVERY) else f"action {number}"
    return Reading(known, "", value[1])
