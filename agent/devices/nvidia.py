# SPDX-License-Identifier: Apache-2.0
"""NVIDIA GPUs through NVML, as the nvidia-ml-py binding gives it (module `pynvml`).

Relied on by the registry. Every NVML call goes through `ask`, so one that a driver lacks or
refuses is an absence with NVML's own words, and an unusable driver is a sentence, not a crash.
Device numbers: NVIDIA's are major 195; those of nvidia-uvm are assigned at load (/proc/devices).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.devices import topology
from stoker.agent.devices.holders import Node, describe
from stoker.agent.devices.vendor import IsOurs, Scan, Vendor, register
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo, DeviceSample

MAJOR = 195
CONTROL_MINOR = 255
"""/dev/nvidiactl."""
UVM_MINORS = (0, 1)
"""/dev/nvidia-uvm and /dev/nvidia-uvm-tools."""
P2P_STATUS_OK = 0
"""nvmlGpuP2PStatus_t (nvml.h)."""
TOPOLOGY_MULTIPLE = 20
"""nvmlGpuTopologyLevel_t: several PCIe switches and no host bridge between the two (nvml.h)."""
VENDOR_ID = "0x10de"
PCI = Path("sys/bus/pci/devices")


@dataclass(frozen=True)
class Absent:
    """No value, and why."""

    why: str


def ask(nvml: Any, name: str, *arguments: Any) -> Any:
    """Call one NVML function; an Absent where the binding or the driver does not have it."""
    function = getattr(nvml, name, None)
    if function is None:
        return Absent(f"this pynvml has no {name}")
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        return Absent(f"{name}: {error}")


@register
class Nvidia(Vendor):
    """Every GPU NVML lists; `nvml` is the binding, given by tests."""

    name = "nvidia"

    def __init__(self, config: Mapping[str, Any], nvml: Any = None, root: Path = Path("/")) -> None:
        self._nvml = nvml
        self._root = root
        self._handles: dict[str, Any] = {}
        self._gone: set[int] = set()

    def scan(self) -> Scan:
        why = self._load()
        if why:
            return Scan(missing=(f"NVIDIA GPUs: {why}",) if self._has_hardware() else ())
        count = ask(self._nvml, "nvmlDeviceGetCount")
        if isinstance(count, Absent):
            return Scan(missing=(f"NVIDIA GPUs: {count.why}",))
        devices, missing = [], []
        for index in range(min(count, DEVICES_PER_NODE_MAX)):
            found = self._device(index)
            if isinstance(found, Absent):
                missing.append(f"NVIDIA GPU {index}: {found.why}")
            else:
                devices.append(found)
        return Scan(self._near(devices), tuple(missing))

    def sample(self) -> tuple[DeviceSample, ...]:
        return tuple(self._sample(id, handle) for id, handle in self._handles.items())

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        """By NVML's process list: a persistence daemon holds the nodes but no context."""
        held: dict[str, str] = {}
        gone: set[int] = set()
        for id, handle in self._handles.items():
            for pid in self._processes(handle):
                if is_ours(pid):
                    continue
                if not (self._root / "proc" / str(pid)).exists():
                    # NVML still lists a process that just ended; one that stays is elsewhere.
                    gone.add(pid)
                    if pid not in self._gone:
                        continue
                held.setdefault(id, describe(pid, self._root / "proc"))
        self._gone = gone
        return held

    def _load(self) -> str:
        """Make NVML usable; why not, or an empty string."""
        if self._nvml is None:
            try:
                self._nvml = importlib.import_module("pynvml")
            except ImportError:
                return "the nvidia-ml-py package is not installed (pip install 'stoker[nvidia]')"
        begun = ask(self._nvml, "nvmlInit")
        return begun.why if isinstance(begun, Absent) else ""

    def _has_hardware(self) -> bool:
        """Whether there is anything to miss: an NVIDIA PCI function, or the driver itself."""
        if (self._root / "proc/driver/nvidia").exists():
            return True
        for device in (self._root / PCI).glob("*"):
            try:
                is_display = (device / "class").read_text().startswith("0x03")
                if is_display and (device / "vendor").read_text().strip() == VENDOR_ID:
                    return True
            except OSError:
                continue
        return False

    def _device(self, index: int) -> DeviceInfo | Absent:
        handle = ask(self._nvml, "nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, Absent):
            return handle
        uuid = ask(self._nvml, "nvmlDeviceGetUUID", handle)
        minor = ask(self._nvml, "nvmlDeviceGetMinorNumber", handle)
        for needed in (uuid, minor):
            if isinstance(needed, Absent):
                return needed
        model = ask(self._nvml, "nvmlDeviceGetName", handle)
        memory = ask(self._nvml, "nvmlDeviceGetMemoryInfo", handle)
        id = _text(uuid)
        self._handles[id] = handle
        return DeviceInfo(
            id=id,
            vendor=self.name,
            model="NVIDIA GPU" if isinstance(model, Absent) else _text(model),
            memory_bytes=None if isinstance(memory, Absent) else int(memory.total),
            nodes=((MAJOR, int(minor)), *self._shared_nodes()),
            visible={"CUDA_VISIBLE_DEVICES": id},
            numa=self._numa(handle),
        )

    def _near(self, devices: list[DeviceInfo]) -> tuple[DeviceInfo, ...]:
        """The same with who shares NVLink, or a PCIe switch, with whom."""
        handles = [self._handles[device.id] for device in devices]
        links = topology.groups(handles, self._linked)
        buses = topology.groups(handles, self._same_switch)
        return tuple(
            msgspec.structs.replace(device, link=link, bus=bus)
            for device, link, bus in zip(devices, links, buses, strict=True)
        )

    def _linked(self, one: Any, other: Any) -> bool:
        index = getattr(self._nvml, "NVML_P2P_CAPS_INDEX_NVLINK", 2)
        found = ask(self._nvml, "nvmlDeviceGetP2PStatus", one, other, index)
        return not isinstance(found, Absent) and found == P2P_STATUS_OK

    def _same_switch(self, one: Any, other: Any) -> bool:
        level = ask(self._nvml, "nvmlDeviceGetTopologyCommonAncestor", one, other)
        return not isinstance(level, Absent) and level <= TOPOLOGY_MULTIPLE

    def _numa(self, handle: Any) -> int | None:
        pci = ask(self._nvml, "nvmlDeviceGetPciInfo", handle)
        if isinstance(pci, Absent):
            return None
        return topology.numa_node(_text(pci.busId), self._root)

    def _shared_nodes(self) -> tuple[Node, ...]:
        """Nodes every CUDA process needs, whichever GPU it was granted."""
        nodes: list[Node] = [(MAJOR, CONTROL_MINOR)]
        try:
            lines = (self._root / "proc/devices").read_text().splitlines()
        except OSError:
            lines = []
        for line in lines:
            number, _, name = line.strip().partition(" ")
            if name == "nvidia-uvm":
                nodes += [(int(number), minor) for minor in UVM_MINORS]
        return tuple(nodes)

    def _processes(self, handle: Any) -> list[int]:
        pids: list[int] = []
        for name in (
            "nvmlDeviceGetComputeRunningProcesses",
            "nvmlDeviceGetGraphicsRunningProcesses",
        ):
            listed = ask(self._nvml, name, handle)
            if isinstance(listed, Absent):  # a driver older than the binding's struct
                listed = ask(self._nvml, f"{name}_v2", handle)
            if not isinstance(listed, Absent):
                pids += [int(process.pid) for process in listed]
        return pids

    def _sample(self, id: str, handle: Any) -> DeviceSample:
        nvml = self._nvml
        sensor = getattr(nvml, "NVML_TEMPERATURE_GPU", 0)
        readings = {
            "power_w": ask(nvml, "nvmlDeviceGetPowerUsage", handle),  # milliwatts
            "temperature_c": ask(nvml, "nvmlDeviceGetTemperature", handle, sensor),
            "busy_ratio": ask(nvml, "nvmlDeviceGetUtilizationRates", handle),  # percent
        }
        absent = {name: got.why for name, got in readings.items() if isinstance(got, Absent)}
        return DeviceSample(
            id,
            busy_ratio=None if "busy_ratio" in absent else readings["busy_ratio"].gpu / 100,
            power_w=None if "power_w" in absent else readings["power_w"] / 1000,
            temperature_c=None if "temperature_c" in absent else float(readings["temperature_c"]),
            absent=absent,
        )


def _text(value: str | bytes) -> str:
    """Older bindings return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
