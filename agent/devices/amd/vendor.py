# SPDX-License-Identifier: Apache-2.0
"""AMD GPUs through AMD SMI (module `amdsmi`), or through sysfs alone where ROCm is not installed.

Invariant: a GPU has one id in both ways, so that it stays the same device when ROCm is installed.
Device files are /dev/kfd, which all GPUs share, and /dev/dri/renderD<n>.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.devices.amd import amd_smi, sysfs
from stoker.agent.devices.amd.amd_smi import call, part, same_handle
from stoker.agent.devices.amd.card import AmdCard
from stoker.agent.devices.card import Card
from stoker.agent.devices.host import topology
from stoker.agent.devices.host.processes import IsOurs, users
from stoker.agent.devices.host.topology import Bond, Pair
from stoker.agent.devices.readings import Absent
from stoker.agent.devices.vendor import Scan, Vendor, answered, register
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo

WHOLE = "spx"
"""The compute partition of a card in one piece."""
XGMI = 2
"""amdsmi_link_type_t."""


@register
class Amd(Vendor):
    """All GPUs that AMD SMI or sysfs lists; tests pass their own binding as `smi`."""

    name = "amd"

    def __init__(self, config: Mapping[str, Any], smi: Any = None, root: Path = Path("/")) -> None:
        self._smi = smi
        self._root = root
        self._begun = False
        self._cards: tuple[Card, ...] = ()
        self._smi_cards: dict[str, AmdCard] = {}

    def scan(self) -> Scan:
        why = self._load()
        found = sysfs.scan(self._root) if why else self._by_smi()
        if why and found.devices:
            missing = (f"AMD GPUs are read from sysfs alone: {why}", *found.missing)
            found = msgspec.structs.replace(found, missing=missing)
        self._cards = found.cards
        return found

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        pids = [(card.id, card.pids) for card in self._cards]
        return users(pids, is_ours, self._root / "proc")

    def _load(self) -> str:
        """Load and initialise AMD SMI; the reason if that fails, or an empty string."""
        if self._smi is None:
            loaded = amd_smi.load()
            if isinstance(loaded, str):
                return loaded
            self._smi = loaded
        if not self._begun:
            begun = call(self._smi, "amdsmi_init")
            if isinstance(begun, Absent):
                return begun.why
            self._begun = True
        return ""

    def _by_smi(self) -> Scan:
        handles = call(self._smi, "amdsmi_get_processor_handles")
        if isinstance(handles, Absent):
            self._begun = False  # a reloaded driver must be initialised again
            return Scan(missing=(f"AMD GPUs: {handles.why}",))
        handles = handles[:DEVICES_PER_NODE_MAX]
        looks = [(f"AMD GPU {i}", partial(self._device, each)) for i, each in enumerate(handles)]
        found: list[tuple[DeviceInfo, AmdCard]] = []
        missing = []
        for gpu, why in answered(looks):
            if gpu is not None:
                found.append(gpu)
            else:
                missing.append(why)
        self._smi_cards = {card.id: card for _, card in found}
        return self._near(found, tuple(missing))

    def _device(self, handle: Any) -> tuple[DeviceInfo, AmdCard] | Absent:
        uuid = call(self._smi, "amdsmi_get_gpu_device_uuid", handle)
        bdf = call(self._smi, "amdsmi_get_gpu_device_bdf", handle)
        for needed in (uuid, bdf):
            if isinstance(needed, Absent):
                return needed
        address = topology.pci_address(bdf)
        asic = call(self._smi, "amdsmi_get_gpu_asic_info", handle)
        model = part(asic, "market_name")
        kind = getattr(getattr(self._smi, "AmdSmiMemoryType", None), "VRAM", None)
        memory = call(self._smi, "amdsmi_get_gpu_memory_total", handle, kind)
        seen = call(self._smi, "amdsmi_get_gpu_enumeration_info", handle)
        numa = call(self._smi, "amdsmi_get_gpu_topo_numa_affinity", handle)
        minor, hip = part(seen, "drm_render"), part(seen, "hip_uuid")
        sim = amd_smi.is_sim(self._smi)
        card = self._card(handle, str(uuid), address, sim=sim)
        info = DeviceInfo(
            id=card.id,
            vendor=self.name,
            model="AMD GPU" if isinstance(model, Absent) else str(model),
            memory_bytes=None if isinstance(memory, Absent) else int(memory),
            nodes=sysfs.nodes(None if isinstance(minor, Absent) else int(minor), self._root),
            visible={} if isinstance(hip, Absent) or not hip else {"ROCR_VISIBLE_DEVICES": hip},
            sim=sim,
            numa=int(numa) if not isinstance(numa, Absent) and numa >= 0 else None,
            arch=_word(part(asic, "target_graphics_version")),
            driver=_word(self._driver(handle)),
            profile=_profile(call(self._smi, "amdsmi_get_gpu_compute_partition", handle)),
        )
        return info, card

    def _driver(self, handle: Any) -> Any:
        return part(call(self._smi, "amdsmi_get_gpu_driver_info", handle), "driver_version")

    def _card(self, handle: Any, id: str, address: str, *, sim: bool) -> AmdCard:
        """The card of the scan before, with its history, if it is the same and has no trouble."""
        before = self._smi_cards.get(id)
        well = before is not None and id not in self.troubled and before.address == address
        if before is not None and well and same_handle(before.binding()[1], handle):
            return before
        card = AmdCard(self._smi, handle, id, address, sim=sim)
        card.look()
        return card

    def _near(self, found: list[tuple[DeviceInfo, AmdCard]], missing: tuple[str, ...]) -> Scan:
        bonds: dict[Pair, Bond] = {}
        for place, (_, one) in enumerate(found):
            for _, other in found[:place]:
                link = call(self._smi, "amdsmi_topo_get_link_type", *_handles(one, other))
                if part(link, "type") == XGMI:
                    bonds[topology.pair(one.id, other.id)] = Bond("XGMI", 0)
        if bonds:
            missing = (*missing, *self._measure([card for _, card in found], bonds))
        cards = tuple(card for _, card in found)
        return sysfs.scan_of([info for info, _ in found], cards, bonds, missing, self._root)

    def _measure(self, cards: list[AmdCard], bonds: dict[Pair, Bond]) -> list[str]:
        """Add to each bond its GB/s; return the reasons where they are not told."""
        ids = {card.address: card.id for card in cards}
        missing = []
        for card in cards:
            links = call(self._smi, "amdsmi_get_link_metrics", *_handles(card))
            if isinstance(links, Absent):
                missing.append(f"AMD GPU {card.id}: the bandwidth of its links: {links.why}")
                continue
            for peer, gbps in _widths(links, ids).items():
                two = topology.pair(card.id, peer)
                if two in bonds:
                    bonds[two] = Bond("XGMI", 0, gbps)
        return missing


def _handles(*cards: AmdCard) -> list[Any]:
    return [card.binding()[1] for card in cards]


def _widths(metrics: Any, ids: Mapping[str, str]) -> dict[str, int]:
    """Return the GB/s of all links to each peer, both directions together; AMD SMI tells Gb/s of
    one direction. A peer with a link of which they are not known is left out."""
    widths: dict[str, float] = {}
    unknown: set[str] = set()
    for link in metrics.get("links", ()):
        peer = ids.get(topology.pci_address(str(link.get("bdf", ""))))
        gbits = link.get("max_bandwidth")
        if peer is None or link.get("link_type") != XGMI:
            continue
        if not isinstance(gbits, int) or gbits <= 0:
            unknown.add(peer)
            continue
        widths[peer] = widths.get(peer, 0) + gbits * 2 / 8
    return {peer: int(gbps) for peer, gbps in widths.items() if peer not in unknown}


def _word(found: Any) -> str:
    """An answer as a word in lower case; empty for an absence."""
    return "" if isinstance(found, Absent) else str(found).strip().lower()


def _profile(mode: Any) -> str:
    """The compute partition as a profile; a card in one piece (SPX) has none."""
    word = _word(mode)
    return "" if word == WHOLE else word
