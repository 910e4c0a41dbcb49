# SPDX-License-Identifier: Apache-2.0
"""A vendor: one small class that finds devices, gives their cards and names who holds them.

A vendor class registers itself with `@register`; a call that a driver refuses becomes an absence
with the driver's reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from stoker.agent.devices.card import Card
from stoker.agent.devices.deadline import within
from stoker.agent.devices.readings import Absent
from stoker.agent.devices.topology import Bond, Pair, groups, pair
from stoker.scheduler.nouns import DeviceInfo

T = TypeVar("T")
ANSWER_S = 2.0
"""The longest time that scanning one device may take."""

IsOurs = Callable[[int], bool]
"""True for a process id of one of this node's jobs."""


@dataclass(frozen=True)
class Scan:
    """Result of one vendor's scan: its devices, and a sentence for each that is missing."""

    devices: tuple[DeviceInfo, ...] = ()
    missing: tuple[str, ...] = ()
    cards: tuple[Card, ...] = ()
    """One for each device: what the sampler asks."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Device id -> PCI address, as sysfs spells it."""
    bonds: Mapping[Pair, Bond] = field(default_factory=dict)
    """Devices with a direct link, by `topology.pair`."""


class Vendor(ABC):
    """One way to find devices. Made once per agent; every call may come from a worker thread."""

    name: str
    """`DeviceInfo.vendor` of everything this class reports."""
    troubled: Collection[str] = frozenset()
    """Ids of cards that do not answer as they should, told before each scan. A card that is not one
    of them is best given as the scan before gave it: what reads it goes on undisturbed."""

    @abstractmethod
    def scan(self) -> Scan:
        """Look again; devices in a stable order."""

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        """Device id -> who outside stoker holds it ("held by pid 812 (python3)"); no driver is
        called for it."""
        return {}


Make = Callable[[Mapping[str, Any]], Vendor]

VENDORS: list[Make] = []
"""Every registered vendor, in import order; called with the node's configuration."""


def register(make: type[Vendor]) -> type[Vendor]:
    """Class decorator: this vendor takes part in every scan."""
    VENDORS.append(make)
    return make


def answered(
    looks: Sequence[tuple[str, Callable[[], T | Absent | None]]],
) -> Iterator[tuple[T | None, str]]:
    """Look at each device on a thread of its own: what was found, or else a sentence with the
    reason. A device that hangs hides none of the others."""
    for task in within(looks, ANSWER_S):
        if isinstance(task.result, Absent):
            yield None, f"{task.name}: {task.result.why}"
        elif task.error is not None:
            yield None, f"{task.name}: {task.error!r}"
        elif task.result is None and not task.over.is_set():
            yield None, f"{task.name}: no answer for {ANSWER_S:g} s"
        else:
            yield task.result, ""


def neighbours(
    devices: Sequence[DeviceInfo], bonds: Mapping[Pair, Bond], buses: Sequence[int]
) -> tuple[DeviceInfo, ...]:
    """The devices with the numbers of their groups: those with direct links, those of one bus."""
    ids = [device.id for device in devices]
    links = groups(ids, lambda one, other: pair(one, other) in bonds)
    return tuple(
        msgspec.structs.replace(device, link=link, bus=bus)
        for device, link, bus in zip(devices, links, buses, strict=True)
    )
