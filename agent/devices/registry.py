# SPDX-License-Identifier: Apache-2.0
"""All devices of a node, whoever found them, each at an index that does not change while it runs.

Relied on by the daemon and, through the node's report, by every placement. Owns the invariant that
an index given once means the same device until the next boot: a device that disappears stays in
the list and says so. Every method may block on a driver: call them from one worker thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.devices import declared, nvidia, opencl  # noqa: F401  # they register
from stoker.agent.devices.vendor import VENDORS, IsOurs, Scan, Vendor
from stoker.scheduler.nouns import DEVICES_PER_NODE_MAX, DeviceInfo, DeviceSample

GONE = "it was there earlier in this boot and is not found any more"


class Order(msgspec.Struct, frozen=True):
    """Which device has which index, in this boot."""

    boot_id: str
    ids: tuple[str, ...] = ()


class Devices:
    """The node's devices; `known` is the list as the scheduler counts it."""

    def __init__(
        self, vendors: Iterable[Vendor], is_ours: IsOurs, order: Path, boot_id: str
    ) -> None:
        self._vendors = tuple(vendors)
        self._is_ours = is_ours
        self._path = order
        self._order = _read_order(order, boot_id)
        self._found: dict[str, DeviceInfo] = {}
        self.known: tuple[DeviceInfo, ...] = ()
        self.missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: Mapping[str, Any], is_ours: IsOurs, order: Path, boot_id: str) -> Devices:
        """Every registered vendor, made with the node's configuration."""
        return cls([make(config) for make in VENDORS], is_ours, order, boot_id)

    def scan(self) -> bool:
        """Look for devices anew; True if the list or anything in it changed."""
        missing: list[str] = []
        found: dict[str, DeviceInfo] = {}
        for vendor in self._vendors:
            scan: Scan = vendor.scan()
            missing += scan.missing
            for device in scan.devices:
                if device.id in found:
                    missing.append(f"device {device.id} is found twice; the second is left out")
                else:
                    found[device.id] = device
        self._found = found
        before = self.missing
        self._remember(missing)
        self.missing = tuple(missing)
        return self.check() or before != self.missing

    def check(self) -> bool:
        """Ask who holds devices; True if anything in the list changed."""
        held: dict[str, str] = {}
        for vendor in self._vendors:
            held.update(vendor.holders(self._is_ours))
        known = tuple(self._describe(id, held) for id in self._order.ids)
        changed, self.known = known != self.known, known
        return changed

    def sample(self) -> tuple[DeviceSample, ...]:
        """Sensors of all devices, in the order of `known`; a device nobody samples is left out."""
        samples = {each.id: each for vendor in self._vendors for each in vendor.sample()}
        return tuple(samples[id] for id in self._order.ids if id in samples)

    def _describe(self, id: str, held: Mapping[str, str]) -> DeviceInfo:
        device = self._found.get(id)
        if device is None:
            kept = next((each for each in self.known if each.id == id), None)
            kept = kept or DeviceInfo(id=id, vendor="", model="")
            return msgspec.structs.replace(kept, unavailable=GONE)
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
            self._order = Order(self._order.boot_id, (*self._order.ids, *fresh[:room]))
            partial = self._path.with_name(f".{self._path.name}.new")
            partial.write_bytes(msgspec.json.encode(self._order))
            partial.replace(self._path)


def _read_order(path: Path, boot_id: str) -> Order:
    """The order of this boot; jobs of an earlier one are over, so its indices are free again."""
    try:
        order = msgspec.json.decode(path.read_bytes(), type=Order)
    except (FileNotFoundError, msgspec.MsgspecError):
        return Order(boot_id)
    return order if order.boot_id == boot_id else Order(boot_id)
