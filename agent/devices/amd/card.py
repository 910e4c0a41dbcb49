# SPDX-License-Identifier: Apache-2.0
"""One AMD GPU through AMD SMI: its unchanging fields, and the errors of the fields in its record.

native/devices/amd/amd.c fills the record; the binding gives the fields that seldom change.
Units of AMD SMI are MHz and microwatts (amdsmi.h).
"""

from __future__ import annotations

import time
from typing import Any

from stoker.agent.devices.amd import amd_smi
from stoker.agent.devices.amd.amd_smi import part
from stoker.agent.devices.amd.metrics import (
    ENERGY_COUNT_J,
    RESIDENCIES,
    SENSOR_ERROR,
    TICK_NS,
)
from stoker.agent.devices.card import DrivenCard, Points
from stoker.agent.devices.fields import answers, scaled
from stoker.agent.devices.readings import Absent, Field, Fields, Reading
from stoker.agent.devices.record import Decoder, RecordCopy, links, processes

MHZ = 1_000_000
TICKS = "counted in ticks of the firmware, a millisecond each"
WATTS = "whole watts, sensor 5 %; the firmware does not tell its window"
ENERGY_PERIOD_S = 0.001
NONE: Fields = {
    "pcie_tx_bytes": Absent("the driver counts for a second while it is asked (pcie_bw)"),
    "pcie_rx_bytes": Absent("the driver counts for a second while it is asked (pcie_bw)"),
    "partitions": Absent("each partition is listed as a GPU of its own"),
    "power_samples_w": Absent("AMD SMI keeps no samples of power"),
}
EDGE, JUNCTION, VRAM = "EDGE", "JUNCTION", "VRAM"


class AmdCard(DrivenCard):
    """A GPU by its processor handle."""

    unread = "no call of AMD SMI that is made here tells it"
    table = "amd"

    def __init__(self, smi: Any, handle: Any, id: str, address: str, *, sim: bool) -> None:
        super().__init__()
        self.id, self.sim, self.address = id, sim, address
        self._smi, self._handle = smi, handle
        self._decoder: Decoder | None = None
        self._count_j: float = ENERGY_COUNT_J

    def address_of_handle(self) -> int:
        return int(getattr(self._handle, "value", self._handle) or 0)

    def call(self, name: str, *arguments: Any) -> Any:
        """One call of the binding about this card."""
        return amd_smi.call(self._smi, name, self._handle, *arguments, calls=self.calls)

    def binding(self) -> tuple[Any, Any]:
        """AMD SMI and the handle, for setters of limits, which call it in another thread."""
        return self._smi, self._handle

    def _kind(self, enum: str, name: str) -> Any:
        return getattr(getattr(self._smi, enum, None), name, None)

    # --- once -------------------------------------------------------------------------------------

    def once(self) -> Fields:
        asic = self.call("amdsmi_get_gpu_asic_info")
        board = self.call("amdsmi_get_gpu_board_info")
        pcie = self.call("amdsmi_get_pcie_info")
        self._count_j = ENERGY_COUNT_J
        resolution = part(self.call("amdsmi_get_energy_count"), "counter_resolution")
        if not isinstance(resolution, Absent) and resolution > 0:
            self._count_j = resolution * 1e-6
        serial = part(board, "product_serial")
        found: dict[str, Any] = {
            "model": part(asic, "market_name"),
            "architecture": part(asic, "target_graphics_version"),
            "uuid": self.call("amdsmi_get_gpu_device_uuid"),
            "serial": serial if serial else part(asic, "asic_serial"),
            "bus_id": self.address,
            "driver": part(self.call("amdsmi_get_gpu_driver_info"), "driver_version"),
            "firmware": part(self.call("amdsmi_get_gpu_vbios_info"), "version"),
            "minor": part(self.call("amdsmi_get_gpu_enumeration_info"), "drm_render"),
            "numa": self.call("amdsmi_get_gpu_topo_numa_affinity"),
            "units": part(asic, "num_compute_units"),
            "memory_total_bytes": self._memory("amdsmi_get_gpu_memory_total"),
            "pcie_gen_max": part(pcie, "pcie_static", "pcie_interface_version"),
            "pcie_width_max": part(pcie, "pcie_static", "max_pcie_width"),
            **self._clocks(),
            **self._bounds(),
        }
        return {**NONE, **answers(found, time.time_ns())}

    def _memory(self, name: str) -> Any:
        return self.call(name, self._kind("AmdSmiMemoryType", "VRAM"))

    def _clocks(self) -> dict[str, Any]:
        def highest(name: str) -> Any:
            clock = self.call("amdsmi_get_clock_info", self._kind("AmdSmiClkType", name))
            return scaled(part(clock, "max_clk"), MHZ)

        return {"clock_max_hz": highest("GFX"), "memory_clock_max_hz": highest("MEM")}

    def _bounds(self) -> dict[str, Any]:
        cap = self.call("amdsmi_get_power_cap_info")
        # Limits must be those of the sensor behind `temperature_c`, since junctions are hotter.
        table = self.call("amdsmi_get_gpu_metrics_info")
        die = JUNCTION if absent(part(table, "temperature_edge")) else EDGE
        return {
            "power_limit_min_w": scaled(part(cap, "min_power_cap"), 1e-6),
            "power_limit_max_w": scaled(part(cap, "max_power_cap"), 1e-6),
            "power_limit_default_w": scaled(part(cap, "default_power_cap"), 1e-6),
            "temperature_slowdown_c": self._degrees(die, "CRITICAL"),
            "temperature_shutdown_c": self._degrees(die, "EMERGENCY"),
            "memory_temperature_max_c": self._degrees(VRAM, "CRITICAL"),
        }

    def _degrees(self, sensor: str, metric: str) -> Any:
        return self.call(
            "amdsmi_get_temp_metric",
            self._kind("AmdSmiTemperatureType", sensor),
            self._kind("AmdSmiTemperatureMetric", metric),
        )

    # --- fields of the record ---------------------------------------------------------------------

    def rest(self) -> Fields:
        """Compute and memory partition modes, in the driver's words."""
        names = ("amdsmi_get_gpu_compute_partition", "amdsmi_get_gpu_memory_partition")
        found = [self.call(name) for name in names]
        modes = [mode for mode in found if not absent(mode) and mode]
        mode = "/".join(modes) if modes else found[0]
        return answers({"partition_mode": mode}, time.time_ns())

    def read(self, found: RecordCopy, points: Points) -> Fields:
        if self._decoder is None:
            self._decoder = Decoder(self.table, amd_smi.words_of(self._smi))
        made = self._decoder.fields(found)
        for name in ("power_w", "power_average_w"):
            made[name] = _watts(made[name])
        made["energy_j"] = self._energy(made["energy_j"], made["power_w"])
        for name, _, _ in RESIDENCIES:
            made[name] = _ticks(made[name])
        if "links" not in made:
            rows = [each.row(_spelt(each.peer), "gpu") for each in links(found)]
            made["links"] = Reading(rows, "", found.slow_ns)
        if "processes" not in made:
            rows = [each._asdict() for each in processes(found)]
            self.pids = tuple(row["pid"] for row in rows)
            made["processes"] = Reading(rows, "", found.slow_ns)
        return made

    def _energy(self, found: Field, power: Field) -> Field:
        if isinstance(found, Absent):
            return found
        watts = power.value if isinstance(power, Reading) else 0.0
        error = self._count_j + watts * ENERGY_PERIOD_S
        return Reading(found.value, "J", found.t_ns, 0, error)

    def look(self) -> None:
        """List its processes; called by a scan."""
        listed = self.call("amdsmi_get_gpu_process_list")
        if not absent(listed):
            self.pids = tuple(pid for each in listed if not absent(pid := part(each, "pid")))


def _spelt(bdf: int) -> str:
    """PCI address of an amdsmi_bdf_t: function 3 bits, device 5, bus 8, domain 48."""
    return f"{bdf >> 16:04x}:{bdf >> 8 & 0xFF:02x}:{bdf >> 3 & 0x1F:02x}.{bdf & 7:x}"


def absent(value: Any) -> bool:
    return isinstance(value, Absent)


def _watts(found: Field) -> Field:
    if isinstance(found, Absent):
        return found
    error = max(1.0, SENSOR_ERROR * found.value)
    return Reading(found.value, "W", found.t_ns, 0, error, WATTS)


def _ticks(found: Field) -> Field:
    if isinstance(found, Absent):
        return found
    return Reading(found.value, "ns", found.t_ns, 0, TICK_NS, TICKS)
