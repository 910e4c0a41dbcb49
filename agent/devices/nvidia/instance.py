# SPDX-License-Identifier: Apache-2.0
"""One MIG instance of an NVIDIA GPU as a device of its own.

NVML reads sensors of the whole GPU alone, so an instance has no thread and no readings but who it
is. Its device files are those of its GPU and its two capabilities (/dev/nvidia-caps), whose minor
numbers the driver lists in /proc/driver/nvidia-caps/mig-minors. Invariant: an instance of which
that is not known is left out with a sentence, because a job could not open it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.devices.card import PolledCard
from stoker.agent.devices.fields import answers
from stoker.agent.devices.host.device_files import Node, majors
from stoker.agent.devices.nvidia.mig import INSTANCES_MAX
from stoker.agent.devices.nvidia.nvml import call, text
from stoker.agent.devices.readings import Absent, Fields
from stoker.scheduler.nouns import DeviceInfo

CUT = "it is in MIG mode: jobs get its instances, which are devices of their own"
UNCUT = "it is in MIG mode and has no instance that a job could get"
_MINORS = Path("proc/driver/nvidia-caps/mig-minors")


class NvidiaInstance(PolledCard):
    """An instance by its handle; its sensors are those of its GPU."""

    def __init__(self, nvml: Any, handle: Any, info: DeviceInfo, parent: str) -> None:
        super().__init__()
        self.id, self.sim, self.info = info.id, info.sim, info
        self.silent = f"sensors are of a whole GPU: see {parent}"
        self._nvml, self._handle = nvml, handle

    def binding(self) -> tuple[Any, Any]:
        """NVML and the handle, for the list of processes on it."""
        return self._nvml, self._handle

    def once(self) -> Fields:
        units = call(self._nvml, "nvmlDeviceGetAttributes_v2", self._handle)
        found: dict[str, Any] = {
            "model": self.info.model,
            "uuid": self.id,
            "units": units if isinstance(units, Absent) else int(units.multiprocessorCount),
            "memory_total_bytes": self.info.memory_bytes or Absent("NVML does not tell it"),
            "partition_mode": f"MIG instance {self.info.profile}",
        }
        return answers(found, time.time_ns())

    def fast(self) -> Fields:
        return {}


def in_mig_mode(nvml: Any, handle: Any) -> bool:
    """True if a GPU can be used by its instances alone."""
    mode = call(nvml, "nvmlDeviceGetMigMode", handle)
    return not isinstance(mode, Absent) and bool(mode[0])


def instances(
    nvml: Any, handle: Any, index: int, whole: DeviceInfo, root: Path
) -> Iterator[NvidiaInstance | str]:
    """Yield each instance of GPU `index`, or a sentence why one is left out."""
    most = call(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle)
    for place in range(0 if isinstance(most, Absent) else min(int(most), INSTANCES_MAX)):
        found = call(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
        if isinstance(found, Absent):
            continue  # the places of a GPU need not be filled
        made = _device(nvml, found, index, whole, root)
        if isinstance(made, Absent):
            yield f"MIG instance {place} of {whole.id}: {made.why}"
        else:
            yield NvidiaInstance(nvml, found, made, whole.id)


def _device(
    nvml: Any, handle: Any, index: int, whole: DeviceInfo, root: Path
) -> DeviceInfo | Absent:
    uuid = call(nvml, "nvmlDeviceGetUUID", handle)
    name = call(nvml, "nvmlDeviceGetName", handle)
    for needed in (uuid, name):
        if isinstance(needed, Absent):
            return needed
    nodes = () if whole.sim else _capabilities(nvml, handle, index, root)
    if isinstance(nodes, Absent):
        return nodes
    memory = call(nvml, "nvmlDeviceGetMemoryInfo", handle)
    model = text(name)
    return msgspec.structs.replace(
        whole,
        id=text(uuid),
        model=model,
        memory_bytes=None if isinstance(memory, Absent) else int(memory.total),
        nodes=(*whole.nodes, *nodes),
        visible={"CUDA_VISIBLE_DEVICES": text(uuid)},
        profile=model.partition(" MIG ")[2] or model,
        link=0,
        link_gbps=0,
        unavailable="",
    )


def _capabilities(nvml: Any, handle: Any, index: int, root: Path) -> tuple[Node, ...] | Absent:
    """The device files with which the driver lets a process use one instance."""
    gpu = call(nvml, "nvmlDeviceGetGpuInstanceId", handle)
    compute = call(nvml, "nvmlDeviceGetComputeInstanceId", handle)
    for needed in (gpu, compute):
        if isinstance(needed, Absent):
            return needed
    wanted = (f"gpu{index}/gi{gpu}/access", f"gpu{index}/gi{gpu}/ci{compute}/access")
    try:
        lines = (root / _MINORS).read_text().splitlines()
    except OSError as error:
        return Absent(f"/{_MINORS}: {error.strerror}")
    minors = dict(line.rsplit(" ", 1) for line in lines if " " in line)
    found = [int(minors[name]) for name in wanted if minors.get(name, "").isdigit()]
    major = next(iter(majors("nvidia-caps", root)), None)
    if major is None or len(found) < len(wanted):
        return Absent(f"its capabilities {' and '.join(wanted)} are not in /{_MINORS}")
    return tuple((major, minor) for minor in found)
