# SPDX-License-Identifier: Apache-2.0
"""One AMD GPU through AMD SMI: the metrics table ten times a second, the rest once.

Relied on by the vendor class in `amd.py`. Units are those of amdsmi.h: the table has W, C, MHz and
percent; caps are in microwatts; residencies count the firmware's ticks, of a millisecond.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

from stoker.agent.devices import amd_smi
from stoker.agent.devices.amd_metrics import RESIDENCIES, TICK_NS
from stoker.agent.devices.amd_plan import AmdPlan
from stoker.agent.devices.amd_smi import Metrics, Tables, known, part
from stoker.agent.devices.card import Calls, Card
from stoker.agent.devices.fields import reading
from stoker.agent.devices.plan import Plan, Snapshot
from stoker.agent.devices.readings import Absent, Field, Fields, Reading

MHZ = 1_000_000
TICKS = "counted in ticks of the firmware, a millisecond each"
KB = 1024
ENERGY_COUNT_J = 15.259e-6
"""One count of the energy accumulator, where the library does not say (amdsmi.h)."""
SENSOR_ERROR = 0.05
WATTS = "whole watts, sensor 5 %; the firmware does not tell its window"
ENERGY_PERIOD_S = 0.001
NONE: Fields = {
    "pcie_tx_bytes": Absent("the driver counts for a second while it is asked (pcie_bw)"),
    "pcie_rx_bytes": Absent("the driver counts for a second while it is asked (pcie_bw)"),
    "partitions": Absent("each partition is listed as a GPU of its own"),
    "power_samples_w": Absent("AMD SMI keeps no samples of power"),
}
LINK_UP = 1
"""amdsmi_xgmi_link_status_type_t; 0 is down, 2 disabled."""
MODE_BYTES = 80
PROCESSES_MAX = 1024
"""Room for a word, and for processes, as the binding's own wrappers have it."""
EDGE, JUNCTION, VRAM = "EDGE", "JUNCTION", "VRAM"


class AmdCard(Card):
    """A GPU by its processor handle."""

    lacks = "no call of AMD SMI that is made here tells it"

    def __init__(self, smi: Any, handle: Any, id: str, address: str, *, sim: bool) -> None:
        super().__init__()
        self.id, self.sim, self.address = id, sim, address
        self.pids: tuple[int, ...] = ()
        """Processes on it, as last listed."""
        self._smi, self._handle = smi, handle
        self._metrics = Metrics(smi, handle)
        """Of `fast`: whoever decodes a plan's answers fills its table."""
        self._asked = Metrics(smi, handle)
        """Of what the card's own thread asks besides, whoever decodes meanwhile."""
        self.fast_calls = Calls()
        self._tables = Tables(smi, handle)
        """Of what is asked once a second."""
        self._count = ctypes.c_uint32()
        """Of processes: room before a call, how many there are behind it."""
        self._spelt: dict[int, str] = {}
        """Addresses of linked cards."""
        self._planned: AmdPlan | None = None
        self._count_j: float = ENERGY_COUNT_J
        self._table: Absent | None = Absent("not read yet")
        self._units = 0
        self._total: Any = Absent("not asked for yet")
        self._residencies: dict[str, int] = {}

    def ask(self, name: str, *arguments: Any) -> Any:
        """One call of the binding about this card."""
        return amd_smi.ask(self._smi, name, self._handle, *arguments, calls=self.calls)

    def binding(self) -> tuple[Any, Any]:
        """AMD SMI and the handle, for whoever sets limits of it in a thread of its own."""
        return self._smi, self._handle

    def _kind(self, enum: str, name: str) -> Any:
        return getattr(getattr(self._smi, enum, None), name, None)

    # --- once -------------------------------------------------------------------------------------

    def once(self) -> Fields:
        asic = self.ask("amdsmi_get_gpu_asic_info")
        board = self.ask("amdsmi_get_gpu_board_info")
        pcie = self.ask("amdsmi_get_pcie_info")
        self._count_j = ENERGY_COUNT_J
        resolution = part(self.ask("amdsmi_get_energy_count"), "counter_resolution")
        if not isinstance(resolution, Absent) and resolution > 0:
            self._count_j = resolution * 1e-6
        units = part(asic, "num_compute_units")
        self._units = 0 if absent(units) else int(units)
        serial = part(board, "product_serial")
        self._total = self._memory("amdsmi_get_gpu_memory_total")
        found: dict[str, Any] = {
            "model": part(asic, "market_name"),
            "architecture": part(asic, "target_graphics_version"),
            "uuid": self.ask("amdsmi_get_gpu_device_uuid"),
            "serial": serial if serial else part(asic, "asic_serial"),
            "bus_id": self.address,
            "driver": part(self.ask("amdsmi_get_gpu_driver_info"), "driver_version"),
            "firmware": part(self.ask("amdsmi_get_gpu_vbios_info"), "version"),
            "minor": part(self.ask("amdsmi_get_gpu_enumeration_info"), "drm_render"),
            "numa": self.ask("amdsmi_get_gpu_topo_numa_affinity"),
            "units": units,
            "memory_total_bytes": self._total,
            "pcie_gen_max": part(pcie, "pcie_static", "pcie_interface_version"),
            "pcie_width_max": part(pcie, "pcie_static", "max_pcie_width"),
            **self._clocks(),
            **self._bounds(),
        }
        now = time.time_ns()
        return {**NONE, **{name: field(name, value, now) for name, value in found.items()}}

    def _memory(self, name: str) -> Any:
        return self.ask(name, self._kind("AmdSmiMemoryType", "VRAM"))

    def _clocks(self) -> dict[str, Any]:
        def highest(name: str) -> Any:
            clock = self.ask("amdsmi_get_clock_info", self._kind("AmdSmiClkType", name))
            return scaled(part(clock, "max_clk"), MHZ)

        return {"clock_max_hz": highest("GFX"), "memory_clock_max_hz": highest("MEM")}

    def _bounds(self) -> dict[str, Any]:
        cap = self.ask("amdsmi_get_power_cap_info")
        table = self._asked.read(self.calls)
        # Of the sensor that `temperature_c` is read from: junctions are hotter than edges.
        die = EDGE if table is None and self._asked.has("temperature_edge") else JUNCTION
        return {
            "power_limit_min_w": scaled(part(cap, "min_power_cap"), 1e-6),
            "power_limit_max_w": scaled(part(cap, "max_power_cap"), 1e-6),
            "power_limit_default_w": scaled(part(cap, "default_power_cap"), 1e-6),
            "temperature_slowdown_c": self._degrees(die, "CRITICAL"),
            "temperature_shutdown_c": self._degrees(die, "EMERGENCY"),
            "memory_temperature_max_c": self._degrees(VRAM, "CRITICAL"),
        }

    def _degrees(self, sensor: str, metric: str) -> Any:
        return self.ask(
            "amdsmi_get_temp_metric",
            self._kind("AmdSmiTemperatureType", sensor),
            self._kind("AmdSmiTemperatureMetric", metric),
        )

    # --- ten times a second -----------------------------------------------------------------------

    def plan(self) -> Plan | None:
        """Once the table could be read: which entries a card has decides what is kept of it."""
        if self._planned is None and self._asked.read(self.calls) is None:
            self._planned = AmdPlan(self._handle, self._asked, self._metrics, self._count_j)
        return self._planned.plan if self._planned is not None else None

    def decode(self, found: Snapshot) -> Fields:
        assert self._planned is not None
        self.fast_calls.replay = self._planned.answers(found)
        return self.fast(found.t_ns)

    @property
    def all_calls(self) -> tuple[Calls, ...]:
        return (self.calls, self.fast_calls)

    def fast(self, t_ns: int = 0) -> Fields:
        self._table = self._metrics.read(self.fast_calls)
        now = t_ns or time.time_ns()
        edge = self._entry("temperature_edge")
        found = {
            "temperature_c": self._entry("temperature_hotspot") if absent(edge) else edge,
            "memory_temperature_c": self._entry("temperature_mem"),
            "busy_ratio": scaled(self._entry("average_gfx_activity"), 0.01),
            "memory_busy_ratio": scaled(self._entry("average_umc_activity"), 0.01),
            "clock_hz": scaled(self._either("current_gfxclk", "current_gfxclks"), MHZ),
            "memory_clock_hz": scaled(self._entry("current_uclk"), MHZ),
            "hotspot_temperature_c": self._entry("temperature_hotspot"),
        }
        made: Fields = {name: field(name, value, now) for name, value in found.items()}
        return {
            **made,
            **self._power(now),
            **self._counters(now),
            "throttle": self._throttle(now),
        }

    def _entry(self, name: str, place: int | None = None) -> Any:
        return self._table if self._table is not None else self._metrics.number(name, place)

    def _either(self, name: str, several: str) -> Any:
        """An entry, or the first of the list that replaces it on cards of several dies."""
        value = self._entry(name)
        return self._entry(several, 0) if absent(value) and self._table is None else value

    def _power(self, now: int) -> Fields:
        newest, average = self._entry("current_socket_power"), self._entry("average_socket_power")
        if absent(newest):
            newest = average
        energy = scaled(self._entry("energy_accumulator"), self._count_j)
        watts = newest if not absent(newest) else 0
        return {
            "power_w": _watts(newest, now),
            "power_average_w": _watts(average, now),
            "energy_j": energy
            if absent(energy)
            else Reading(energy, "J", now, 0, self._count_j + watts * ENERGY_PERIOD_S),
        }

    def _throttle(self, now: int) -> Field:
        """Words from the residencies: what grew since the last round held the clock back then."""
        before, grown, missing = self._residencies, {}, None
        for name, entry, word in RESIDENCIES:
            count = self._entry(entry)
            if absent(count):
                missing = count
                continue
            grown[word] = count > before.get(name, count)
            before[name] = count
        if not grown:
            return missing or Absent("gpu_metrics has no residencies")
        return Reading([word for word, grew in grown.items() if grew], "", now)

    def _counters(self, now: int) -> Fields:
        """Of the same table: no call more."""
        made: Fields = {}
        for name, entry, _ in RESIDENCIES:
            ticks = self._entry(entry)
            made[name] = (
                ticks if absent(ticks) else Reading(ticks * TICK_NS, "ns", now, 0, TICK_NS, TICKS)
            )
        return made

    # --- once a second ----------------------------------------------------------------------------

    def steps(self) -> tuple[Callable[[], Fields], ...]:
        return (self._used, self._errors, self._bus, self._links, self._listed)

    def _told(self, name: str, kind: Any, *before: Any, after: tuple[Any, ...] = ()) -> Any:
        """What a function of the library fills, without the binding's wrapper."""
        return self._tables.ask(self.calls, name, kind, *before, after=after)

    def _used(self) -> Fields:
        vram, gfx = self._kind("AmdSmiMemoryType", "VRAM"), self._kind("AmdSmiClkType", "GFX")
        used = number(self._told("amdsmi_get_gpu_memory_usage", ctypes.c_uint64, vram))
        total = self._total
        cap = self._told("amdsmi_get_power_cap_info", "amdsmi_power_cap_info_t", 0)
        clock = self._told("amdsmi_get_clock_info", "amdsmi_clk_info_t", gfx)
        fan = number(self._told("amdsmi_get_gpu_fan_speed", ctypes.c_int64, 0))
        now = time.time_ns()
        free = used if absent(used) else total if absent(total) else total - used
        found = {
            "memory_used_bytes": used,
            "memory_free_bytes": free,
            "power_limit_w": cap if absent(cap) else cap.power_cap * 1e-6,
            "clock_limit_hz": scaled(known(clock, "max_clk"), MHZ),
            "fan_ratio": scaled(fan, 1 / 255),
            "fan_rpm": number(self._told("amdsmi_get_gpu_fan_rpms", ctypes.c_int64, 0)),
        }
        return {name: field(name, value, now) for name, value in found.items()}

    def _errors(self) -> Fields:
        ecc = self._told("amdsmi_get_gpu_total_ecc_count", "amdsmi_error_count_t")
        enabled = number(self._told("amdsmi_get_gpu_ecc_enabled", ctypes.c_uint64))
        # A list that is not asked for says how many there would be.
        pages = self._told("amdsmi_get_gpu_bad_page_info", ctypes.c_uint32, after=(None,))
        now = time.time_ns()
        compute = self._mode("amdsmi_get_gpu_compute_partition")
        memory = self._mode("amdsmi_get_gpu_memory_partition")
        modes = [mode for mode in (compute, memory) if not absent(mode) and mode]
        found = {
            "ecc_enabled": enabled if absent(enabled) else bool(enabled),
            "ecc_corrected": ecc if absent(ecc) else ecc.correctable_count,
            "ecc_uncorrected": ecc if absent(ecc) else ecc.uncorrectable_count,
            "retired_pages": number(pages),
            "partition_mode": "/".join(modes) if modes else compute,
        }
        return {name: field(name, value, now) for name, value in found.items()}

    def _mode(self, name: str) -> Any:
        """A mode of partitioning, in the driver's word."""
        found = self._told(name, ctypes.c_char * MODE_BYTES, after=(MODE_BYTES,))
        if absent(found):
            return found
        word = found.value.decode(errors="replace")
        return (
            Absent(f"{name}: {amd_smi.NOT_APPLICABLE}") if word == amd_smi.NOT_APPLICABLE else word
        )

    def _bus(self) -> Fields:
        pcie = self._told("amdsmi_get_pcie_info", "amdsmi_pcie_info_t")
        now = time.time_ns()
        found = {
            "pcie_width": known(pcie, "pcie_metric", "pcie_width"),
            "pcie_gen": _generation(known(pcie, "pcie_metric", "pcie_speed")),
            "pcie_replays": known(pcie, "pcie_metric", "pcie_replay_count"),
        }
        return {name: field(name, value, now) for name, value in found.items()}

    def _links(self) -> Fields:
        found = self._told("amdsmi_get_link_metrics", "amdsmi_link_metrics_t")
        if absent(found):
            return {"links": found}
        states = self._told("amdsmi_get_gpu_xgmi_link_status", "amdsmi_xgmi_link_status_t")
        count = min(found.num_links, len(found.links))
        up = [LINK_UP] * count if absent(states) else states.status[: states.total_links]
        ports = [
            {
                "port": port,
                "up": port < len(up) and up[port] == LINK_UP,
                "peer": self._address(link.bdf),
                "peer_kind": "gpu",
                "tx_bytes": link.write * KB,
                "rx_bytes": link.read * KB,
                "errors": None,
            }
            for port, link in enumerate(found.links[:count])
        ]
        return {"links": Reading(ports, "", time.time_ns())}

    def _address(self, bdf: Any) -> str:
        """Of amdsmi_bdf_t, spelt once."""
        found = self._spelt.get(bdf.as_uint)
        if found is None:
            found = self._spelt[bdf.as_uint] = _address(bdf)
        return found

    def _listed(self) -> Fields:
        self._count.value = PROCESSES_MAX
        rows_of = self._tables.room("amdsmi_proc_info_t", PROCESSES_MAX)
        found = self._told("amdsmi_get_gpu_process_list", rows_of, ctypes.byref(self._count))
        if absent(found):
            return {"processes": found}
        count = min(self._count.value, PROCESSES_MAX)
        rows = [_process(each, self._units) for each in found[:count]]
        self.pids = tuple(row["pid"] for row in rows)
        return {"processes": Reading(rows, "", time.time_ns())}

    def look(self) -> None:
        """List its processes, while it is looked for."""
        self._listed()


def _address(bdf: Any) -> str:
    """Of amdsmi_bdf_t, as sysfs spells it."""
    at = bdf.struct_amdsmi_bdf_t if hasattr(bdf, "struct_amdsmi_bdf_t") else bdf
    return (
        f"{at.domain_number:04x}:{at.bus_number:02x}:{at.device_number:02x}.{at.function_number:x}"
    )


def number(found: Any) -> Any:
    """The value of a plain number, or its absence."""
    return found if isinstance(found, Absent) else found.value


def absent(value: Any) -> bool:
    return isinstance(value, Absent)


def scaled(value: Any, factor: float) -> Any:
    """A number in another unit; an absence as it is."""
    return value if isinstance(value, Absent) else value * factor


def field(name: str, value: Any, now: int) -> Field:
    """A reading of a field of the table, or the absence that it is."""
    return value if isinstance(value, Absent) else reading(name, value, now)


def _watts(value: Any, now: int) -> Field:
    if isinstance(value, Absent):
        return value
    return Reading(value, "W", now, 0, max(1.0, SENSOR_ERROR * value), WATTS)


def _generation(megatransfers: Any) -> Any:
    """PCIe generation by its speed: 2500 MT/s is the first, each next one about twice as fast."""
    if isinstance(megatransfers, Absent):
        return megatransfers
    speeds = (2500, 5000, 8000, 16000, 32000, 64000)
    return 1 + sum(megatransfers >= speed for speed in speeds[1:])


def _process(each: Any, units: int) -> dict[str, Any]:
    occupied = known(each, "cu_occupancy")
    return {
        "pid": int(each.pid),
        "kind": "compute",
        "name": each.name.decode(errors="replace").strip() or None,
        "memory_bytes": each.memory_usage.vram_mem or each.mem,
        "busy_ratio": occupied / units if not absent(occupied) and units > 0 else None,
    }
