# SPDX-License-Identifier: Apache-2.0
"""A vendor: a class that finds devices, makes their cards, and names processes that use them.

A vendor class registers itself with `@register`. Invariant: a call that a driver refuses becomes an
absence with the driver's reason, and never an exception.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeVar

import msgspec

from stoker.agent.devices.card import Card
from stoker.agent.devices.deadline import within
from stoker.agent.devices.host.processes import IsOurs
from stoker.agent.devices.host.topology import Bond, Pair, groups, pair
from stoker.agent.devices.readings import Absent
from stoker.scheduler.nouns import DeviceInfo

T = TypeVar("T")
ANSWER_S = 2.0
"""The longest time that scanning one device may take."""


class Scan(msgspec.Struct, frozen=True):
    """Result of one vendor's scan."""

    devices: tuple[DeviceInfo, ...] = ()
    missing: tuple[str, ...] = ()
    """A sentence for each device that should be there and was not found."""
    cards: tuple[Card, ...] = ()
    """The card of each device, for the samplers."""
    addresses: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Device id -> PCI address in the form of sysfs."""
    bonds: Mapping[Pair, Bond] = msgspec.field(default_factory=dict)
    """Direct links of two devices, by `topology.pair`."""
    parents: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Partition -> the card of which it is a part, where both are devices: what is wrong with the
    card is wrong with its partitions."""


class Vendor(ABC):
    """One way to find devices. An agent has one object of each class; any thread may call it."""

    name: str
    """`DeviceInfo.vendor` of every device of this class."""
    troubled: Collection[str] = frozenset()
    """Ids of cards that do not answer as they should, set before each scan. For every other card a
    scan should give the object of the scan before, so that its threads go on undisturbed."""

    @abstractmethod
    def scan(self) -> Scan:
        """Look for devices; they come in a stable order."""

    def recut(self) -> Collection[str]:
        """Return the cards whose partitions are others by now than the last scan found. Calls no
        driver."""
        return ()

    def holders(self, is_ours: IsOurs) -> Mapping[str, str]:
        """Device id -> process outside stoker that uses it ("held by pid 812 (python3)"). Calls no
        driver."""
        return {}

    def occupied(self, ids: Collection[str], is_ours: IsOurs) -> Mapping[str, str]:
        """Return what `holders` says of these devices, as new as can be; this may call a driver."""
        held = self.holders(is_ours)
        return {id: why for id, why in held.items() if id in ids}


Make = Callable[[Mapping[str, Any]], Vendor]

VENDORS: list[Make] = []
"""All registered vendors in import order, to be called with the node's configuration."""


def register(make: type[Vendor]) -> type[Vendor]:
    """Class decorator: this vendor takes part in every scan."""
    VENDORS.append(make)
    return make


def answered(
    looks: Sequence[tuple[str, Callable[[], T | Absent | None]]],
) -> Iterator[tuple[T | None, str]]:
    """Look at each device on a thread of its own, so that a device that hangs hides no other.

    Yields (what was found, "") or (None, a sentence with the reason).
    """
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
    """Return the devices with the numbers of their groups by direct links and by PCIe switch."""
    ids = [device.id for device in devices]
    links = groups(ids, lambda one, other: pair(one, other) in bonds)
    widths = {link: _width(link, ids, links, bonds) for link in set(links)}
    return tuple(
        msgspec.structs.replace(device, link=link, bus=bus, link_gbps=widths[link])
        for device, link, bus in zip(devices, links, buses, strict=True)
    )


def _width(link: int, ids: Sequence[str], links: Sequence[int], bonds: Mapping[Pair, Bond]) -> int:
    """Return the GB/s between each two devices of a group; 0 if two have no link of their own."""
    group = [id for id, own in zip(ids, links, strict=True) if link and own == link]
    pairs = [pair(one, other) for one, other in combinations(group, 2)]
    return min((bonds[two].gbps if two in bonds else 0 for two in pairs), default=0)
