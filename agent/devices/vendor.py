# SPDX-License-Identifier: Apache-2.0
"""A vendor: one small class that finds devices, gives their cards and names who holds them.

A vendor class registers itself with `@register`; a call that a driver refuses becomes an absence
with the driver's reason.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.agent.devices.card import Card
from stoker.agent.devices.topology import Bond, Pair
from stoker.scheduler.nouns import DeviceInfo

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
