# SPDX-License-Identifier: Apache-2.0
"""Distances between the devices and network cards of a node: PCIe tree, NUMA, links.

Everything is pure except for reads of sysfs, below a root that tests choose. Invariant: the number
of a group stands for at least two devices; 0 is a device without neighbours, or not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

T = TypeVar("T")
PCI = Path("sys/bus/pci/devices")
NETWORK = (Path("sys/class/infiniband"), Path("sys/class/net"))
NETWORK_CARDS_MAX = 32
LEVELS = ("SYS", "NODE", "PHB", "PXB", "PIX")
"""Connections of two PCI functions, the loosest first: across NUMA nodes; across host bridges of
one NUMA node; through one host bridge; through several PCIe switches; through at most one PCIe
switch. The names are those of `nvidia-smi topo -m`."""
SELF, UNKNOWN = "X", "?"


class Bond(NamedTuple):
    """Direct links between two devices: `NV18` is 18 NVLinks, with or without switches."""

    kind: str
    """NV, XGMI or XE."""
    links: int
    gbps: int = 0
    """GB/s of all of them, both directions together; 0: not known."""

    def __str__(self) -> str:
        return f"{self.kind}{self.links or ''}"


Pair = tuple[str, str]


def pair(one: str, other: str) -> Pair:
    """Two device ids in ascending order, as keys of bonds."""
    return (one, other) if one < other else (other, one)


def groups(members: Sequence[T], near: Callable[[T, T], bool]) -> list[int]:
    """Number of each member's group, from 1; 0 for a member near no other. Nearness is mutual."""
    group = list(range(len(members)))
    for i, one in enumerate(members):
        for j in range(i):
            if group[j] != group[i] and near(members[j], one):
                old, new = group[i], group[j]
                group = [new if number == old else number for number in group]
    large = [number for number in dict.fromkeys(group) if group.count(number) > 1]
    return [large.index(number) + 1 if number in large else 0 for number in group]


def pci_address(text: str) -> str:
    """PCI address in the form of sysfs: `00000000:3B:00.0` becomes `0000:3b:00.0`."""
    domain, _, rest = text.strip().lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def numa_node(address: str, root: Path = Path("/")) -> int | None:
    """NUMA node of a PCI function (`0000:3b:00.0`, sysfs-bus-pci); None where there is none."""
    try:
        node = int((root / PCI / pci_address(address) / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def has_function(kind: str, vendor: str, root: Path = Path("/")) -> bool:
    """True if there is a PCI function of this vendor whose class begins with `kind`."""
    for device in (root / PCI).glob("*"):
        try:
            is_kind = (device / "class").read_text().startswith(kind)
            if is_kind and (device / "vendor").read_text().strip() == vendor:
                return True
        except OSError:
            continue
    return False


def way(address: str, root: Path = Path("/")) -> tuple[str, ...]:
    """Path to a PCI function: host bridge, ports and switches; empty if sysfs does not have it."""
    try:
        real = (root / PCI / pci_address(address)).resolve(strict=True)
    except OSError:
        return ()
    parts = [i for i, part in enumerate(real.parts) if part.startswith("pci")]
    return real.parts[parts[-1] :] if parts else ()


def level(one: Sequence[str], other: Sequence[str], same_node: bool | None) -> str:
    """Connection of two functions by their paths, else by whether their NUMA node is one; None: not
    known."""
    if not one or not other or one[0] != other[0]:
        return UNKNOWN if same_node is None else "NODE" if same_node else "SYS"
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    if shared == 1:
        return "PHB"
    # Two functions are behind one switch if one downstream port each follows the last shared port.
    deepest = max(len(one), len(other)) - shared
    return "PIX" if deepest <= 2 else "PXB"


def switches(addresses: Sequence[str], root: Path = Path("/")) -> list[int]:
    """Group number of each address: functions that share a PCIe switch, by sysfs."""
    ways = [way(address, root) for address in addresses]
    return groups(ways, lambda one, other: level(one, other, same_node=True) in ("PIX", "PXB"))


class NetworkCard(msgspec.Struct, frozen=True):
    """A network card with a PCI function."""

    name: str
    address: str
    numa: int | None


def network_cards(root: Path = Path("/")) -> tuple[NetworkCard, ...]:
    """RDMA devices, and network interfaces with a PCI function of their own."""
    found: dict[str, NetworkCard] = {}
    for folder in NETWORK:
        try:
            names = sorted(path.name for path in (root / folder).iterdir())
        except OSError:
            continue
        for name in names[:NETWORK_CARDS_MAX]:
            try:
                address = (root / folder / name / "device").resolve(strict=True).name
            except OSError:
                continue  # a virtual interface
            if address.count(":") == 2 and address not in found:
                found[address] = NetworkCard(name, address, numa_node(address, root))
    return tuple(found.values())[:NETWORK_CARDS_MAX]


class Topology(msgspec.Struct, frozen=True):
    """Matrix of a node's connections: rows and columns are `names`, devices first."""

    names: tuple[str, ...]
    matrix: tuple[tuple[str, ...], ...]
    numa: tuple[int | None, ...]
    cpus: tuple[str, ...]
    """CPU list of the NUMA node of each name, in the kernel's form."""
    devices: int
    """Number of names that are devices; the others are network cards."""


class Places(msgspec.Struct, frozen=True):
    """Places of a node's devices: ids in order, PCI addresses, NUMA nodes, and bonds by `pair`."""

    ids: tuple[str, ...]
    addresses: Mapping[str, str] = msgspec.field(default_factory=dict)
    bonds: Mapping[Pair, Bond] = msgspec.field(default_factory=dict)
    numa: Mapping[str, int | None] = msgspec.field(default_factory=dict)


def topology(places: Places, root: Path = Path("/")) -> Topology:
    """The matrix of all devices and network cards; reads sysfs."""
    cards = network_cards(root)
    names = (*places.ids, *(card.name for card in cards))
    addresses = {**places.addresses, **{card.name: card.address for card in cards}}
    ways = {name: way(addresses[name], root) if name in addresses else () for name in names}
    numa = {**places.numa, **{card.name: card.numa for card in cards}}
    flat = all(node is None for node in numa.values())

    def cell(one: str, other: str) -> str:
        if one == other:
            return SELF
        bond = places.bonds.get(pair(one, other))
        if bond is not None:
            return str(bond)
        return level(ways[one], ways[other], _same(numa.get(one), numa.get(other), flat))

    return Topology(
        names,
        tuple(tuple(cell(one, other) for other in names) for one in names),
        tuple(numa.get(name) for name in names),
        tuple(_cpus(numa.get(name), root) for name in names),
        len(places.ids),
    )


def _same(one: int | None, other: int | None, flat: bool) -> bool | None:
    """True if two NUMA nodes are one, None if that is not known; a machine of which no NUMA node is
    known is `flat`: one node."""
    if flat:
        return True
    return None if one is None or other is None else one == other


def _cpus(node: int | None, root: Path) -> str:
    if node is None:
        return ""
    try:
        return (root / f"sys/devices/system/node/node{node}/cpulist").read_text().strip()
    except OSError:
        return ""
