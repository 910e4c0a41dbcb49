# SPDX-License-Identifier: Apache-2.0
"""All devices of a node, each with an index that is fixed until the next boot.

Invariant: an index never means another device; a device that disappears keeps its index and is
marked gone. One worker thread scans and checks; samples and readings may be read by any thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

import stoker.agent.devices.amd.vendor
import stoker.agent.devices.intel.vendor
import stoker.agent.devices.nvidia.vendor  # noqa: F401
from stoker.agent.devices import declared, opencl  # noqa: F401
from stoker.agent.devices import order as orders
from stoker.agent.devices.host import numa_nodes
from stoker.agent.devices.host.numa_nodes import NumaNodes
from stoker.agent.devices.host.processes import IsOurs
from stoker.agent.devices.host.topology import Places, Topology, topology
from stoker.agent.devices.order import DeviceOrder
from stoker.agent.devices.readings import CardReadings
from stoker.agent.devices.samplers.sampler import Samplers
from stoker.agent.devices.vendor import VENDORS, Scan, Vendor
from stoker.agent.devices.vendor_scans import VendorScans
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo, DeviceSample

GONE = "it was there earlier in this boot and is not found any more"
GONE_AGAIN_S = 60.0
"""Period of scans for a device that was not found."""
AGAIN_S = 10.0
"""Period of scans for a card in trouble, whose driver may have been loaded again."""


class Devices:
    """The node's devices; `known` is the list as the scheduler counts it."""

    def __init__(
        self, vendors: Iterable[Vendor], is_ours: IsOurs, order: Path, boot_id: str
    ) -> None:
        self._vendors = VendorScans(vendors)
        self._is_ours = is_ours
        self._path = order
        self._order = orders.of_boot(order, boot_id)
        self._found: dict[str, DeviceInfo] = {}
        self._scanned_s = 0.0
        self.numa_nodes: Callable[[], NumaNodes] = numa_nodes.read
        """Returns the NUMA nodes of this machine."""
        self.samplers = Samplers()
        self._plain: tuple[DeviceInfo, ...] = ()
        """The list without the verdicts of health."""
        self._sick: dict[str, str] = {}
        self._warned: dict[str, str] = {}
        self._joining = threading.Lock()
        self.known: tuple[DeviceInfo, ...] = ()
        self.missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any], is_ours: IsOurs, order: Path, boot_id: str) -> Devices:
        """Devices of all registered vendors, made with the node's configuration."""
        return cls([make(config) for make in VENDORS], is_ours, order, boot_id)

    def scan(self, only: Collection[str] = ()) -> bool:
        """Look for devices anew; True if the list or anything in it changed.

        With `only`, just the vendors that found one of these devices are scanned. A device in
        trouble stays listed even if it is not found now: the trouble tells more than "gone".
        """
        self._scanned_s = time.monotonic()
        before = {card.id: card for card in self.samplers.cards()}
        troubled = self.samplers.troubles().keys() & before.keys()
        missing: list[str] = []
        found: dict[str, DeviceInfo] = {}
        for scan in self._vendors.scan(only, troubled):
            missing += scan.missing
            for device in scan.devices:
                if device.id in found:
                    missing.append(f"device {device.id} is found twice; the second is left out")
                else:
                    found[device.id] = device
        nodes = self.numa_nodes()
        found = {id: nodes.placed(device) for id, device in found.items()}
        kept = {id: self._found[id] for id in troubled if id in self._found and id not in found}
        self._found = found | kept
        self._remember(missing)
        said, self.missing = self.missing, tuple(missing)
        cards = {id: before[id] for id in kept}
        cards |= {card.id: card for scan in self.scans for card in scan.cards}
        self.samplers.set(cards[id] for id in self._order.ids if id in cards)
        return self.check() or said != self.missing

    def check(self) -> bool:
        """Find out who uses the devices; True if anything in the list changed. Calls no driver,
        except in a scan for devices that are gone or in trouble, when one is due."""
        troubles = self.samplers.troubles()
        passed_s = time.monotonic() - self._scanned_s
        gone = [id for id in self._order.ids if id not in self._found]
        if (troubles and passed_s > AGAIN_S) or (gone and passed_s > GONE_AGAIN_S):
            return self.scan({*troubles, *gone})
        recut = {id for vendor in self._vendors.vendors for id in vendor.recut()}
        if recut and passed_s > AGAIN_S:
            return self.scan(recut)
        held: dict[str, str] = {}
        for vendor in self._vendors.vendors:
            held.update(vendor.holders(self._is_ours))
        bad = {id: why for id, (_, why) in troubles.items()}
        held.update({id: bad[parent] for id, parent in self._parents.items() if parent in bad})
        held.update(bad)
        plain = tuple(self._describe(id, held) for id in self._order.ids)
        with self._joining:
            self._plain = plain
            return self._join()

    def occupied(self, ids: Collection[str]) -> dict[str, str]:
        """Return device id -> who uses it now, of these devices; any thread may call it, and it may
        wait for a driver."""
        held: dict[str, str] = {}
        for vendor, own in self._vendors.finders(ids).items():
            held.update(vendor.occupied(own, self._is_ours))
        return held

    def judge(self, sick: Mapping[str, str], warned: Mapping[str, str]) -> bool:
        """Take health's verdicts; True if the list changed. It waits for no driver and no scan.

        `sick`: device id -> why it gets no jobs; `warned`: device id -> its warning.
        """
        with self._joining:
            self._sick, self._warned = dict(sick), dict(warned)
            return self._join()

    def _join(self) -> bool:
        known = tuple(self._judged(device) for device in self._plain)
        changed, self.known = known != self.known, known
        return changed

    def _judged(self, device: DeviceInfo) -> DeviceInfo:
        whole = self._parents.get(device.id, device.id)
        sick = self._sick.get(device.id) or self._sick.get(whole, "")
        warned = self._warned.get(device.id) or self._warned.get(whole, "")
        if not sick and not warned:
            return device
        return msgspec.structs.replace(
            device,
            unavailable=sick or device.unavailable,
            warning=warned,
            gone=device.gone and not sick,
        )

    def sample(self) -> tuple[DeviceSample, ...]:
        """The newest sample of each device, in the order of `known`."""
        return self.samplers.samples(self._order.ids)

    def readings(self) -> dict[str, CardReadings]:
        """Every field of each card, as last read."""
        return self.samplers.readings()

    def addresses(self) -> dict[str, str]:
        """PCI address of each device that has one."""
        return {id: at for scan in self.scans for id, at in scan.addresses.items()}

    @property
    def _parents(self) -> dict[str, str]:
        """Partition -> its card, of every vendor."""
        return {id: card for scan in self.scans for id, card in scan.parents.items()}

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The newest scan of each vendor."""
        return self._vendors.newest

    def topology(self, root: Path = Path("/")) -> Topology:
        """Connections of devices and network cards; reads sysfs and calls no driver."""
        return topology(
            Places(
                tuple(device.id for device in self.known),
                self.addresses(),
                {pair: bond for scan in self.scans for pair, bond in scan.bonds.items()},
                {device.id: device.numa for device in self.known},
            ),
            root,
        )

    def close(self) -> None:
        """End the threads of all cards."""
        self.samplers.close()

    def _describe(self, id: str, held: Mapping[str, str]) -> DeviceInfo:
        device = self._found.get(id)
        if device is None:
            kept = next((each for each in self._plain if each.id == id), None)
            kept = kept or DeviceInfo(id=id, vendor="", model="")
            return msgspec.structs.replace(kept, unavailable=GONE, gone=True)
        if device.unavailable or id not in held:
            return device
        return msgspec.structs.replace(device, unavailable=held[id])

    def _remember(self, missing: list[str]) -> None:
        """Give new devices the next indices, and store them before they are used."""
        fresh = tuple(id for id in self._found if id not in self._order.ids)
        room = DEVICES_PER_NODE_MAX - len(self._order.ids)
        missing += [
            f"device {id} is left out: a node has at most {DEVICES_PER_NODE_MAX}"
            for id in fresh[room:]
        ]
        if fresh[:room]:
            self._order = DeviceOrder(self._order.boot_id, (*self._order.ids, *fresh[:room]))
            orders.write(self._path, self._order)
