# SPDX-License-Identifier: Apache-2.0
"""NVIDIA GPUs through NVML, as the nvidia-ml-py binding gives it (module `pynvml`).

Invariant: every NVML call goes through `nvml.call`. So a call that a driver lacks or refuses is an
absence with NVML's own words, and an unusable driver is a sentence and no exception. Device files
of NVIDIA have major 195; the major of nvidia-uvm is assigned at load (/proc/devices).
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.devices.host import topology
from stoker.agent.devices.host.device_files import Node, majors
from stoker.agent.devices.host.processes import IsOurs, describe
from stoker.agent.devices.host.topology import Bond, Pair
from stoker.agent.devices.nvidia.card import NvidiaCard
from stoker.agent.devices.nvidia.instance import (
    CUT,
    UNCUT,
    NvidiaInstance,
    in_mig_mode,
    instances,
)
from stoker.agent.devices.nvidia.links import Peers
from stoker.agent.devices.nvidia.nvml import call, impostor, is_sim, same_handle, text
from stoker.agent.devices.nvidia.processes import pids_on
from stoker.agent.devices.nvidia.traits import traits
from stoker.agent.devices.readings import Absent
from stoker.agent.devices.vendor import Scan, Vendor, answered, neighbours, register
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo

MAJOR = 195
CONTROL_MINOR = 255
"""/dev/nvidiactl."""
UVM_MINORS = (0, 1)
"""/dev/nvidia-uvm and /dev/nvidia-uvm-tools."""
P2P_STATUS_OK = 0
"""nvmlGpuP2PStatus_t (nvml.h)."""
P2P_NVLINK = 2
"""nvmlGpuP2PCapsIndex_t."""
TOPOLOGY_MULTIPLE = 20
"""nvmlGpuTopologyLevel_t: several PCIe switches and no host bridge between the two (nvml.h)."""
VENDOR_ID = "0x10de"
DISPLAY = "0x03"
"""PCI class of display controllers."""


class _Found(msgspec.Struct, frozen=True):
    """One GPU that a scan found."""

    info: DeviceInfo
    handle: Any
    card: NvidiaCard
    address: str
    peers: tuple[tuple[str, str], ...]
    """Address and kind of the peer of each port that is up."""
    gbps: int
    """GB/s of one of its NVLinks; 0: not known."""
    index: int
    cut: bool
    """True if it is in MIG mode."""


@register
class Nvidia(Vendor):
    """All GPUs that NVML lists; tests pass their own binding as `nvml`."""

    name = "nvidia"

    def __init__(self, config: Mapping[str, Any], nvml: Any = None, root: Path = Path("/")) -> None:
        self._nvml = nvml
        self._root = root
        self._cards: dict[str, NvidiaCard | NvidiaInstance] = {}
        self._gone: set[int] = set()
        self._parents: dict[str, str] = {}
        """Instance -> the GPU of which it is a part."""
        self._parts_at_scan: dict[str, tuple[str, ...] | None] = {}
        """GPU -> the instances that its thread had listed when it was scanned last."""

    def scan(self) -> Scan:
        why = self._load()
        if why:
            return Scan(missing=(f"NVIDIA GPUs: {why}",) if self._has_hardware() else ())
        count = call(self._nvml, "nvmlDeviceGetCount")
        if isinstance(count, Absent):
            return Scan(missing=(f"NVIDIA GPUs: {count.why}",))
        count = min(count, DEVICES_PER_NODE_MAX)
        looks = [(f"NVIDIA GPU {index}", partial(self._device, index)) for index in range(count)]
        found: list[_Found] = []
        missing = [why] if (why := impostor(self._nvml)) else []
        for gpu, why in answered(looks):
            if gpu is not None:
                found.append(gpu)
            else:
                missing.append(why)
        self._cards = {each.info.id: each.card for each in found}
        return self._with_instances(self._near(found, tuple(missing)), found)

    def recut(self) -> Collection[str]:
        """Return the GPUs whose instances are others by now than the last scan found."""
        found = []
        for id, card in self._cards.items():
            if isinstance(card, NvidiaCard) and card.parts not in (None, self._parts_at_scan[id]):
                own = {part for part, parent in self._parents.items() if parent == id}
                found += [id] if set(card.parts or ()) != own else []
        return found

    def _with_instances(self, scan: Scan, found: list[_Found]) -> Scan:
        """Return the scan with the instances of each GPU behind it; the GPU itself gets no jobs."""
        devices: list[DeviceInfo] = []
        missing, parts = list(scan.missing), list[NvidiaInstance]()
        parents: dict[str, str] = {}
        for gpu, info in zip(found, scan.devices, strict=True):
            own: list[NvidiaInstance] = []
            for each in self._instances(gpu, info):
                if isinstance(each, str):
                    missing.append(each)
                else:
                    own.append(each)
            why = (CUT if own else UNCUT) if gpu.cut else info.unavailable
            devices += [msgspec.structs.replace(info, unavailable=why), *(p.info for p in own)]
            parents |= {each.id: info.id for each in own}
            parts += own
        self._parents = parents
        self._parts_at_scan = {gpu.info.id: gpu.card.parts for gpu in found}
        self._cards |= {each.id: each for each in parts}
        return msgspec.structs.replace(
            scan,
            devices=tuple(devices),
            missing=tuple(missing),
            cards=(*scan.cards, *parts),
            parents=parents,
        )

    def _instances(self, gpu: _Found, info: DeviceInfo) -> Iterator[NvidiaInstance | str]:
        if not gpu.cut:
            return
        for each in instances(self._nvml, gpu.handle, gpu.index, info, self._root):
            if isinstance(each, NvidiaInstance):
                each.pids = pids_on(*each.binding())
            yield each

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        """Processes in NVML's list, since a persistence daemon opens the nodes but has no
        context."""
        held: dict[str, str] = {}
        gone: set[int] = set()
        for id, card in self._cards.items():
            for pid in card.pids:
                if is_ours(pid):
                    continue
                if not (self._root / "proc" / str(pid)).exists():
                    # NVML may still list a process that just ended; one that stays in the list
                    # runs in another PID namespace.
                    gone.add(pid)
                    if pid not in self._gone:
                        continue
                held.setdefault(id, describe(pid, self._root / "proc"))
        self._gone = gone
        return held

    def occupied(self, ids: Collection[str], is_ours: IsOurs) -> Mapping[str, str]:
        """Return who uses these GPUs by NVML's list of this moment."""
        for id in self._cards.keys() & ids:
            nvml, handle = self._cards[id].binding()
            self._cards[id].pids = pids_on(nvml, handle)
        looked, found = self._gone, super().occupied(ids, is_ours)
        self._gone = looked  # a look of this moment is too early for what has just ended
        return found

    def _load(self) -> str:
        """Load and initialise NVML; the reason if that fails, or an empty string."""
        if self._nvml is None:
            try:
                self._nvml = importlib.import_module("pynvml")
            except ImportError:
                return "the nvidia-ml-py package is not installed (pip install 'stoker[nvidia]')"
        if not hasattr(self._nvml, "NVMLError"):
            return impostor(self._nvml)
        begun = call(self._nvml, "nvmlInit")
        return begun.why if isinstance(begun, Absent) else ""

    def _has_hardware(self) -> bool:
        """True if there is an NVIDIA display controller, or NVIDIA's driver."""
        driver = self._root / "proc/driver/nvidia"
        return driver.exists() or topology.has_function(DISPLAY, VENDOR_ID, self._root)

    def _device(self, index: int) -> _Found | Absent:
        handle = call(self._nvml, "nvmlDeviceGetHandleByIndex", index)
        if isinstance(handle, Absent):
            return handle
        uuid = call(self._nvml, "nvmlDeviceGetUUID", handle)
        minor = call(self._nvml, "nvmlDeviceGetMinorNumber", handle)
        for needed in (uuid, minor):
            if isinstance(needed, Absent):
                return needed
        model = call(self._nvml, "nvmlDeviceGetName", handle)
        memory = call(self._nvml, "nvmlDeviceGetMemoryInfo", handle)
        pci = call(self._nvml, "nvmlDeviceGetPciInfo", handle)
        address = "" if isinstance(pci, Absent) else topology.pci_address(text(pci.busId))
        id, sim, known = text(uuid), is_sim(self._nvml), traits(self._nvml, handle)
        info = DeviceInfo(
            id=id,
            vendor=self.name,
            model="NVIDIA GPU" if isinstance(model, Absent) else text(model),
            memory_bytes=None if isinstance(memory, Absent) else int(memory.total),
            nodes=((MAJOR, int(minor)), *self._shared_nodes()),
            visible={"CUDA_VISIBLE_DEVICES": id},
            sim=sim,
            numa=self._numa(address, handle),
            arch=known.arch,
            compute=known.compute,
            driver=known.driver,
        )
        card, peers = self._card(handle, id, sim=sim), Peers(self._nvml, handle)
        card.pids = pids_on(self._nvml, handle)
        linked, cut = tuple(peers.linked()), in_mig_mode(self._nvml, handle)
        return _Found(info, handle, card, address, linked, peers.gbps(), index, cut)

    def _card(self, handle: Any, id: str, *, sim: bool) -> NvidiaCard:
        """The card of the scan before if it is the same, so that its threads go on undisturbed,
        with its history and the driver's objects."""
        before = self._cards.get(id)
        if isinstance(before, NvidiaCard) and same_handle(before.binding()[1], handle):
            return before
        return NvidiaCard(self._nvml, handle, id, self._root, sim=sim)

    def _numa(self, address: str, handle: Any) -> int | None:
        node = topology.numa_node(address, self._root) if address else None
        if node is not None:
            return node
        asked = call(self._nvml, "nvmlDeviceGetNumaNodeId", handle)
        return None if isinstance(asked, Absent) else int(asked)

    def _near(self, found: list[_Found], missing: tuple[str, ...]) -> Scan:
        """The scan of these GPUs, with their groups by NVLink and PCIe switches."""
        bonds: dict[Pair, Bond] = {}
        for i, one in enumerate(found):
            for other in found[:i]:
                if self._linked(one.handle, other.handle):
                    count = _between(one, other)
                    gbps = count * min(one.gbps, other.gbps)
                    bonds[topology.pair(one.info.id, other.info.id)] = Bond("NV", count, gbps)

        buses = topology.groups(found, self._same_switch)
        return Scan(
            neighbours([each.info for each in found], bonds, buses),
            missing,
            tuple(each.card for each in found),
            {each.info.id: each.address for each in found if each.address},
            bonds,
        )

    def _linked(self, one: Any, other: Any) -> bool:
        status = call(self._nvml, "nvmlDeviceGetP2PStatus", one, other, P2P_NVLINK)
        return not isinstance(status, Absent) and status == P2P_STATUS_OK

    def _same_switch(self, one: _Found, other: _Found) -> bool:
        name = "nvmlDeviceGetTopologyCommonAncestor"
        level = call(self._nvml, name, one.handle, other.handle)
        return not isinstance(level, Absent) and level <= TOPOLOGY_MULTIPLE

    def _shared_nodes(self) -> tuple[Node, ...]:
        """Device files that every CUDA process needs."""
        uvm = [(major, minor) for major in majors("nvidia-uvm", self._root) for minor in UVM_MINORS]
        return ((MAJOR, CONTROL_MINOR), *uvm)


def _between(one: _Found, other: _Found) -> int:
    """Number of NVLinks between two GPUs: direct ones, or else all to switches; 0 if not known."""
    straight = sum(address == other.address for address, _ in one.peers)
    if straight:
        return straight
    return min(sum(kind != "gpu" for _, kind in each.peers) for each in (one, other))
