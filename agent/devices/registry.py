# SPDX-License-Identifier: Apache-2.0
"""All devices of a node, whoever found them, each at an index that does not change while it runs.

Invariant: an index given once means the same device until the next boot; a device that disappears
keeps its index and is marked gone. Vendors are looked at side by side and until a deadline; a
vendor whose driver hangs is named, and what it finds after all is taken in by the next scan. One
worker thread calls this; reading what the samplers have needs none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import stoker.agent.devices.amd.vendor
import stoker.agent.devices.intel.vendor
import stoker.agent.devices.nvidia.vendor  # noqa: F401
from stoker.agent.devices import declared, opencl  # noqa: F401
from stoker.agent.devices import order as orders
from stoker.agent.devices.deadline import Task, within
from stoker.agent.devices.order import DeviceOrder
from stoker.agent.devices.readings import CardReadings
from stoker.agent.devices.samplers.sampler import Samplers
from stoker.agent.devices.topology import Places, Topology, topology
from stoker.agent.devices.vendor import VENDORS, IsOurs, Scan, Vendor
from stoker.native.errors import StokerError
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo, DeviceSample

GONE = "it was there earlier in this boot and is not found any more"
SCAN_S = 5.0
"""The longest wait for a driver; OpenCL runs as a program and has a limit of its own."""
SCAN_S_OF = {"pocl": 25.0}
GONE_AGAIN_S = 60.0
"""Period of looking for a device that was not found."""
AGAIN_S = 10.0
"""A card in trouble is looked for anew so often: its driver may have been loaded again."""


class Devices:
    """The node's devices; `known` is the list as the scheduler counts it."""

    def __init__(
        self, vendors: Iterable[Vendor], is_ours: IsOurs, order: Path, boot_id: str
    ) -> None:
        self._vendors = tuple(vendors)
        self._is_ours = is_ours
        self._path = order
        self._order = orders.of_boot(order, boot_id)
        self._found: dict[str, DeviceInfo] = {}
        self._scans: dict[str, Scan] = {}
        self._late: dict[str, Task[Scan]] = {}
        self._scanned_s = 0.0
        self._of: dict[str, int] = {}
        """Device id -> place of the vendor that found it last."""
        self.samplers = Samplers()
        self._plain: tuple[DeviceInfo, ...] = ()
        """The list without what health says of it."""
        self._sick: dict[str, str] = {}
        self._warned: dict[str, str] = {}
        self._joining = threading.Lock()
        self.known: tuple[DeviceInfo, ...] = ()
        self.missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any], is_ours: IsOurs, order: Path, boot_id: str) -> Devices:
        """Every registered vendor, made with the node's configuration."""
        return cls([make(config) for make in VENDORS], is_ours, order, boot_id)

    def scan(self, only: Collection[str] = ()) -> bool:
        """Look for devices anew; True if the list or anything in it changed. `only`: by those
        vendors that had found one of these devices. One that is in trouble and not found now stays
        what it was: what its card says tells more than that it is gone."""
        self._scanned_s = time.monotonic()
        missing: list[str] = []
        found: dict[str, DeviceInfo] = {}
        troubled = self.samplers.troubles()
        before_cards = {card.id: card for card in self.samplers.cards() if card.id in troubled}
        places = {self._of[id] for id in only if id in self._of} or range(len(self._vendors))
        for scan in self._scan_vendors(places):
            missing += scan.missing
            for device in scan.devices:
                if device.id in found:
                    missing.append(f"device {device.id} is found twice; the second is left out")
                else:
                    found[device.id] = device
        kept = {id: self._found[id] for id in before_cards if id in self._found and id not in found}
        self._found = found | kept
        before = self.missing
        self._remember(missing)
        self.missing = tuple(missing)
        cards = {id: before_cards[id] for id in kept}
        cards |= {card.id: card for s in self._scans.values() for card in s.cards}
        self.samplers.set(cards[id] for id in self._order.ids if id in cards)
        return self.check() or before != self.missing

    def check(self) -> bool:
        """Ask who holds devices; True if anything in the list changed. Calls no driver, but for
        cards in trouble, which are looked for anew now and then."""
        troubles = self.samplers.troubles()
        passed_s = time.monotonic() - self._scanned_s
        gone = [id for id in self._order.ids if id not in self._found]
        if (troubles and passed_s > AGAIN_S) or (gone and passed_s > GONE_AGAIN_S):
            return self.scan({*troubles, *gone})
        held: dict[str, str] = {}
        for vendor in self._vendors:
            held.update(vendor.holders(self._is_ours))
        held.update({id: why for id, (_, why) in troubles.items()})
        plain = tuple(self._describe(id, held) for id in self._order.ids)
        with self._joining:
            self._plain = plain
            return self._join()

    def judge(self, sick: Mapping[str, str], warned: Mapping[str, str]) -> bool:
        """Health's part: why a device gets no jobs, what else is wrong with one. True if the list
        changed. Waits for no driver and no scan."""
        with self._joining:
            self._sick, self._warned = dict(sick), dict(warned)
            return self._join()

    def _join(self) -> bool:
        known = tuple(self._judged(device) for device in self._plain)
        changed, self.known = known != self.known, known
        return changed

    def _judged(self, device: DeviceInfo) -> DeviceInfo:
        sick, warned = self._sick.get(device.id, ""), self._warned.get(device.id, "")
        if not sick and not warned:
            return device
        return msgspec.structs.replace(
            device,
            unavailable=sick or device.unavailable,
            warning=warned,
            gone=device.gone and not sick,
        )

    def sample(self) -> tuple[DeviceSample, ...]:
        """Sensors of all devices as last read, in the order of `known`."""
        return self.samplers.samples(self._order.ids)

    def readings(self) -> dict[str, CardReadings]:
        """Everything that is known of each card, as last read."""
        return self.samplers.readings()

    def addresses(self) -> dict[str, str]:
        """Device -> PCI address, of those that have one."""
        scans = tuple(self._scans.values())
        return {id: at for scan in scans for id, at in scan.addresses.items()}

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The newest scan of each vendor."""
        return tuple(self._scans.values())

    def topology(self, root: Path = Path("/")) -> Topology:
        """Neighbours of devices, network cards included; reads sysfs and calls no driver."""
        scans = self._scans.values()
        return topology(
            Places(
                tuple(device.id for device in self.known),
                {id: at for scan in scans for id, at in scan.addresses.items()},
                {pair: bond for scan in scans for pair, bond in scan.bonds.items()},
                {device.id: device.numa for device in self.known},
            ),
            root,
        )

    def close(self) -> None:
        """End the threads of all cards."""
        self.samplers.close()

    def _scan_vendors(self, places: Collection[int]) -> list[Scan]:
        """Scans vendors side by side; one that hangs keeps its last result, with a remark."""
        free = [place for place in places if not self._is_late(str(place))]
        longer = {
            str(place): SCAN_S_OF[vendor.name]
            for place, vendor in enumerate(self._vendors)
            if vendor.name in SCAN_S_OF
        }
        troubled = frozenset(self.samplers.troubles())
        for place in free:
            self._vendors[place].troubled = troubled
        calls = [(str(place), self._vendors[place].scan) for place in free]
        for task in within(calls, SCAN_S, longer):
            if task.over.is_set():
                self._settle(task)
            else:
                self._late[task.name] = task
        return [self._scan_of(place, vendor) for place, vendor in enumerate(self._vendors)]

    def _scan_of(self, place: int, vendor: Vendor) -> Scan:
        scan = self._scans.get(str(place), Scan())
        if str(place) not in self._late:
            return scan
        why = f"{vendor.name} devices: the driver does not answer"
        return replace(scan, missing=(why,))

    def _is_late(self, place: str) -> bool:
        """True if an earlier scan of this vendor still runs; a finished one is taken over."""
        task = self._late.get(place)
        if task is None:
            return False
        if not task.over.is_set():
            return True
        del self._late[place]
        self._settle(task)
        return False

    def _settle(self, task: Task[Scan]) -> None:
        if task.error is not None:
            self._failed(task.name, task.error)
            return
        assert task.result is not None
        self._scans[task.name] = task.result
        self._of.update(dict.fromkeys((d.id for d in task.result.devices), int(task.name)))

    def _failed(self, place: str, error: BaseException) -> None:
        """Records a binding's exception in its own words; other vendors' devices stay."""
        if isinstance(error, StokerError) or not isinstance(error, Exception):
            raise error
        why = f"{self._vendors[int(place)].name} devices: looking for them failed: {error!r}"
        self._scans[place] = replace(self._scans.get(place, Scan()), missing=(why,))

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
        """Give new devices the next indices, and store them before anyone can refer to one."""
        fresh = tuple(id for id in self._found if id not in self._order.ids)
        room = DEVICES_PER_NODE_MAX - len(self._order.ids)
        missing += [
            f"device {id} is left out: a node has at most {DEVICES_PER_NODE_MAX}"
            for id in fresh[room:]
        ]
        if fresh[:room]:
            self._order = DeviceOrder(self._order.boot_id, (*self._order.ids, *fresh[:room]))
            orders.write(self._path, self._order)
