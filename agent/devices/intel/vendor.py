# SPDX-License-Identifier: Apache-2.0
"""Intel GPUs through Level Zero Sysman, as the pyzes binding gives it.

The binding loads the loader from one absolute path when it is imported. zesInit initialises Sysman;
an older loader needs ZES_ENABLE_SYSMAN=1 at the process's start. Device files are
/dev/dri/renderD<n>.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.devices.host import topology
from stoker.agent.devices.host.device_files import render_nodes
from stoker.agent.devices.host.processes import IsOurs, users
from stoker.agent.devices.host.topology import Bond, Pair
from stoker.agent.devices.intel import zes
from stoker.agent.devices.intel.card import IntelCard, driver_of, model_of, uuid_of
from stoker.agent.devices.intel.zes import filled, listed, made
from stoker.agent.devices.readings import Absent
from stoker.agent.devices.vendor import Scan, Vendor, answered, neighbours, register
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo

VENDOR_ID = "0x8086"
DISPLAY = "0x0380"
"""PCI class of display controllers that drive no screen."""
GPU = 1
"""ze_device_type_t."""


@register
class Intel(Vendor):
    """All GPUs that Sysman lists; tests pass their own `binding` in place of pyzes."""

    name = "intel"

    def __init__(
        self, config: Mapping[str, Any], binding: Any = None, root: Path = Path("/")
    ) -> None:
        self._zes = binding
        self._root = root
        self._begun = False
        self._cards: tuple[IntelCard, ...] = ()
        self._known: dict[str, DeviceInfo] = {}

    def scan(self) -> Scan:
        why = self._load()
        if why:
            return Scan(missing=(f"Intel GPUs: {why}",) if self._has_gpu() else ())
        handles = self._handles()
        if isinstance(handles, Absent):
            self._begun = False
            return Scan(missing=(f"Intel GPUs: {handles.why}",))
        looks = [(f"Intel GPU {i}", partial(self._device, h)) for i, (_, h) in enumerate(handles)]
        found: list[tuple[DeviceInfo, IntelCard]] = []
        missing = []
        numbers: Counter[int] = Counter()
        for (gpu, why), (driver, _) in zip(answered(looks), handles, strict=True):
            if gpu is not None:
                found.append((_visible(gpu[0], numbers[driver]), gpu[1]))
            elif why:
                missing.append(why)
            else:
                continue  # no GPU
            numbers[driver] += 1
        self._cards = tuple(card for _, card in found)
        self._known = {info.id: info for info, _ in found}
        return self._near(found, tuple(missing))

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        pids = [(card.id, card.pids) for card in self._cards]
        return users(pids, is_ours, self._root / "proc")

    def _load(self) -> str:
        if self._zes is None:
            loaded = zes.load()
            if isinstance(loaded, str):
                return loaded
            self._zes = loaded
        if not self._begun:
            failed = zes.call(self._zes, "zesInit", 0)
            if failed is not None:
                return failed.why
            self._begun = True
        return ""

    def _has_gpu(self) -> bool:
        return topology.has_function(DISPLAY, VENDOR_ID, self._root)

    def _handles(self) -> list[tuple[int, Any]] | Absent:
        """Handles of all devices, each with the index of its driver."""
        drivers = listed(self._zes, "zesDriverGet", None, self._zes.zes_driver_handle_t)
        if isinstance(drivers, Absent):
            return drivers
        found: list[tuple[int, Any]] = []
        for place, driver in enumerate(drivers):
            devices = listed(self._zes, "zesDeviceGet", driver, self._zes.zes_device_handle_t)
            if isinstance(devices, Absent):
                return devices
            found += [(place, device) for device in devices]
        return found[:DEVICES_PER_NODE_MAX]

    def _device(self, handle: Any) -> tuple[DeviceInfo, IntelCard] | Absent | None:
        structure = made(
            self._zes, "zes_device_properties_t", "ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES"
        )
        device = filled(self._zes, "zesDeviceGetProperties", handle, structure)
        if isinstance(device, Absent):
            return device
        if device.core.type != GPU:
            return None
        structure = made(self._zes, "zes_pci_properties_t", "ZES_STRUCTURE_TYPE_PCI_PROPERTIES")
        pci = filled(self._zes, "zesDevicePciGetProperties", handle, structure)
        address = "" if isinstance(pci, Absent) else _address(pci.address)
        before = self._before(handle, uuid_of(device), address)
        if before is not None:
            return before
        sim = zes.is_sim(self._zes)
        card = IntelCard(self._zes, handle, uuid_of(device), address, self._root, sim=sim)
        card.look()
        memory = card.memory_bytes()
        info = DeviceInfo(
            id=card.id,
            vendor=self.name,
            model=model_of(device) or "Intel GPU",
            memory_bytes=None if isinstance(memory, Absent) else memory,
            nodes=render_nodes(self._root / topology.PCI / address),
            sim=sim,
            numa=topology.numa_node(address, self._root) if address else None,
            driver=driver_of(device),
        )
        return info, card

    def _before(self, handle: Any, id: str, address: str) -> tuple[DeviceInfo, IntelCard] | None:
        """The card of the scan before, with its history, if it is the same and has no trouble:
        after trouble a card may have other domains."""
        card = next((each for each in self._cards if each.id == id), None)
        if card is None or id in self.troubled or card.address != address:
            return None
        same = getattr(card.binding()[1], "value", 0) == getattr(handle, "value", 1)
        return (self._known[id], card) if same else None

    def _near(self, found: list[tuple[DeviceInfo, IntelCard]], missing: tuple[str, ...]) -> Scan:
        ends = {card.id: _ends(card.ports.linked()) for _, card in found}
        by_fabric = {card.ports.fabric: card for _, card in found if card.ports.fabric is not None}
        bonds: dict[Pair, Bond] = {}
        for _, card in found:
            card.ports.peers = {number: peer.address for number, peer in by_fabric.items()}
            for number, ports in ends[card.id].items():
                peer = by_fabric.get(number)
                if peer is not None and peer is not card:
                    gbps = sum(ports) if all(ports) else 0
                    bonds[topology.pair(card.id, peer.id)] = Bond("XE", len(ports), gbps)
                    if not gbps:
                        why = "the bandwidth of its Xe Links is not told"
                        missing = (*missing, f"Intel GPU {card.id}: {why}")
        infos = [info for info, _ in found]
        addresses = {card.id: card.address for _, card in found if card.address}
        buses = topology.switches([card.address for _, card in found], self._root)
        return Scan(neighbours(infos, bonds, buses), missing, self._cards, addresses, bonds)


def _ends(linked: list[tuple[int, int]]) -> dict[int, list[int]]:
    """Return the GB/s of each port that leads to a GPU, by its fabric id."""
    found: dict[int, list[int]] = {}
    for number, gbps in linked:
        found.setdefault(number, []).append(gbps)
    return found


def _visible(info: DeviceInfo, number: int) -> DeviceInfo:
    """The device with its mask: Level Zero numbers the GPUs of each driver separately."""
    return msgspec.structs.replace(info, visible={"ZE_AFFINITY_MASK": str(number)})


def _address(pci: Any) -> str:
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.{pci.function:x}"
