# SPDX-License-Identifier: Apache-2.0
"""One NVIDIA GPU through NVML: unchanging fields, and the errors of the fields in its record.

native/devices/nvidia/nvidia.c fills the record; the binding gives the fields that seldom change.

The power sensor of GA100 and GH100 chips (A100, A30, H100, H200) samples 25 ms of each 100 ms
(arXiv 2312.02741). In the other 75 ms power may have had any value of the last second. NVIDIA
states an error of 5 % for the sensor itself. The error of a reading contains both.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from stoker.agent.devices.card import DrivenCard, Points
from stoker.agent.devices.fields import answers, scaled
from stoker.agent.devices.host import topology
from stoker.agent.devices.host.processes import rows
from stoker.agent.devices.nvidia.links import Peers
from stoker.agent.devices.nvidia.mig import Instances
from stoker.agent.devices.nvidia.nvml import address_of, call, text, words_of
from stoker.agent.devices.nvidia.traits import architecture
from stoker.agent.devices.readings import Absent, Field, Fields, Reading
from stoker.agent.devices.record import Decoder, RecordCopy, links, processes

SENSOR_ERROR = 0.05
PARTLY_SAMPLED = ((8, 0), (9, 0))
"""CUDA compute capabilities of GA100 and GH100."""
SAMPLED_NS, SAMPLE_PERIOD_NS = 25_000_000, 100_000_000
ENERGY_PERIOD_NS = 100_000_000
"""Period of the energy counter (ml.energy); a reading is late by at most one period."""
RECENT, SAMPLES_SHOWN = 10, 10
"""Points of power from which its error is derived; driver samples that a reading shows."""
SM, MEMORY = 1, 2
"""nvmlClockType_t."""
MHZ = 1_000_000
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


class NvidiaCard(DrivenCard):
    """A GPU by its handle; `root` is the folder of /proc and /sys."""

    unread = "no call of NVML that is made here tells it"
    table = "nvidia"

    def __init__(self, nvml: Any, handle: Any, id: str, root: Path, *, sim: bool) -> None:
        super().__init__()
        self.id, self.sim = id, sim
        self._nvml, self._handle, self._root = nvml, handle, root
        self._decoder = Decoder(self.table, words_of(nvml))
        self._peers = Peers(nvml, handle)
        self._instances = Instances(nvml, handle)
        self._partly = False
        self.parts: tuple[str, ...] | None = None
        """The ids of its MIG instances, as last listed; None while they were not listed."""

    def call(self, name: str, *arguments: Any) -> Any:
        """One NVML call about this card."""
        return call(self._nvml, name, self._handle, *arguments, calls=self.calls)

    def address_of_handle(self) -> int:
        return address_of(self._handle)

    def binding(self) -> tuple[Any, Any]:
        """NVML and the handle, for setters of limits, which call it in another thread."""
        return self._nvml, self._handle

    # --- once -------------------------------------------------------------------------------------

    def once(self) -> Fields:
        self._partly = self.call("nvmlDeviceGetCudaComputeCapability") in PARTLY_SAMPLED
        pci = self.call("nvmlDeviceGetPciInfo")
        bus = pci if isinstance(pci, Absent) else topology.pci_address(text(pci.busId))
        driver = call(self._nvml, "nvmlSystemGetDriverVersion", calls=self.calls)
        memory = self.call("nvmlDeviceGetMemoryInfo")
        found: dict[str, Any] = {
            "model": self.call("nvmlDeviceGetName"),
            "architecture": architecture(self._nvml, self._handle, self.calls),
            "uuid": self.call("nvmlDeviceGetUUID"),
            "serial": self.call("nvmlDeviceGetSerial"),
            "bus_id": bus,
            "driver": driver,
            "firmware": self.call("nvmlDeviceGetVbiosVersion"),
            "minor": self.call("nvmlDeviceGetMinorNumber"),
            "numa": self._numa(bus),
            "units": self._units(),
            "memory_total_bytes": memory if isinstance(memory, Absent) else int(memory.total),
            "clock_max_hz": scaled(self.call("nvmlDeviceGetMaxClockInfo", SM), MHZ),
            "memory_clock_max_hz": scaled(self.call("nvmlDeviceGetMaxClockInfo", MEMORY), MHZ),
            "pcie_gen_max": self.call("nvmlDeviceGetMaxPcieLinkGeneration"),
            "pcie_width_max": self.call("nvmlDeviceGetMaxPcieLinkWidth"),
        }
        now = time.time_ns()
        made = answers({name: text(value) for name, value in found.items()}, now)
        made["clock_limit_hz"] = Absent("NVML does not tell which clocks are locked")
        return {**made, **self._bounds(now)}

    def _bounds(self, now: int) -> Fields:
        """Limits of power and temperature."""
        limits = self.call("nvmlDeviceGetPowerManagementLimitConstraints")
        low, high = (limits, limits) if isinstance(limits, Absent) else limits
        found = {
            "power_limit_min_w": scaled(low, 1e-3),
            "power_limit_max_w": scaled(high, 1e-3),
            "power_limit_default_w": scaled(
                self.call("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3
            ),
            "temperature_shutdown_c": self.call("nvmlDeviceGetTemperatureThreshold", 0),
            "temperature_slowdown_c": self.call("nvmlDeviceGetTemperatureThreshold", 1),
            "memory_temperature_max_c": self.call("nvmlDeviceGetTemperatureThreshold", 2),
        }
        return answers(found, now)

    def _units(self) -> int | Absent:
        """Number of SMs: an attribute with MIG, otherwise cores divided by those of one SM."""
        attributes = self.call("nvmlDeviceGetAttributes_v2")
        if not isinstance(attributes, Absent):
            return int(attributes.multiprocessorCount)
        cores = self.call("nvmlDeviceGetNumGpuCores")
        if isinstance(cores, Absent):
            return cores
        capability = self.call("nvmlDeviceGetCudaComputeCapability")
        each = 64 if capability in ((7, 0), (7, 5), (8, 0)) else 128
        return int(cores) // each

    def _numa(self, bus: str | Absent) -> int | Absent:
        node = None if isinstance(bus, Absent) else topology.numa_node(bus, self._root)
        if node is not None:
            return node
        asked = self.call("nvmlDeviceGetNumaNodeId")
        if isinstance(asked, Absent):
            return Absent(f"no numa_node in /sys; {asked.why}")
        return int(asked)

    # --- fields of the record ---------------------------------------------------------------------

    def rest(self) -> Fields:
        self._peers.meet(self.calls)
        found = self._instances.read(self.calls)
        listed = found["partitions"]
        if isinstance(listed, Reading):
            self.parts = tuple(part["uuid"] for part in listed.value if part["uuid"])
        return found

    def read(self, found: RecordCopy, points: Points) -> Fields:
        made = self._decoder.fields(found)
        recent = [watts for _, watts in points("power_w", RECENT)]
        for name in ("power_w", "power_average_w"):
            made[name] = self._watts(made[name], recent)
        made["energy_j"] = _energy(made["energy_j"], recent)
        made["recovery_action"] = _recovery(made["recovery_action"])
        if "links" not in made:
            ports = [each.row(*self._peers.of(each)) for each in links(found)]
            made["links"] = Reading(ports, "", found.slow_ns)
        if "processes" not in made:
            made["processes"] = self._processes(found)
        if "power_samples_w" not in made:
            newest = points("power_samples_w", SAMPLES_SHOWN)
            samples = [{"t_ns": t_ns, "value": watts} for t_ns, watts in newest]
            made["power_samples_w"] = Reading(samples, "W", found.slow_ns)
        return made

    def _watts(self, found: Field, recent: list[float]) -> Field:
        if isinstance(found, Absent):
            return found
        error, note = SENSOR_ERROR * found.value, "sensor 5 %"
        if self._partly and recent:
            unseen = 1 - SAMPLED_NS / SAMPLE_PERIOD_NS
            error += unseen * (max(recent) - min(recent)) / 2
            note = "sensor 5 %; it looks at 25 % of the time"
        return Reading(found.value, "W", found.t_ns, found.window_ns, error, note)

    def _processes(self, found: RecordCopy) -> Field:
        listed = list(processes(found))
        self.pids = tuple(dict.fromkeys(each.pid for each in listed))
        return Reading(rows(listed, self._root / "proc"), "", found.slow_ns)


def _energy(found: Field, recent: list[float]) -> Field:
    if isinstance(found, Absent):
        return found
    error = (recent[-1] if recent else 0.0) * ENERGY_PERIOD_NS / 1e9
    return Reading(found.value, "J", found.t_ns, 0, error, "steps of about 100 ms")


def _recovery(found: Field) -> Field:
    if isinstance(found, Absent):
        return found
    number = int(found.value)
    known = RECOVERY[number] if number < len(RECOVERY) else f"action {number}"
    return Reading(known, "", found.t_ns)
