# SPDX-License-Identifier: Apache-2.0
"""Which devices of a node are near each other, as numbers of groups.

Relied on by vendor classes. Pure, but for one read of sysfs. Owns that a number stands for a group
of at least two: 0 is nobody's neighbour, or not known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def groups(members: Sequence[T], near: Callable[[T, T], bool]) -> list[int]:
    """For each member the number of its group, from 1; who is near whom is taken as mutual."""
    group = list(range(len(members)))
    for i, one in enumerate(members):
        for j in range(i):
            if group[j] != group[i] and near(members[j], one):
                old, new = group[i], group[j]
                group = [new if number == old else number for number in group]
    large = [number for number in dict.fromkeys(group) if group.count(number) > 1]
    return [large.index(number) + 1 if number in large else 0 for number in group]


def numa_node(address: str, root: Path = Path("/")) -> int | None:
    """NUMA node of a PCI function (`0000:3b:00.0`, sysfs-bus-pci); None where there is none."""
    short = address.lower()
    domain, _, rest = short.partition(":")
    path = root / "sys/bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node"
    try:
        node = int(path.read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
