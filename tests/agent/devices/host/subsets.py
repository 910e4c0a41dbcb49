# SPDX-License-Identifier: Apache-2.0
"""A brute-force oracle for the best devices of a node for one job, by the node's whole matrix.

The core knows groups of links, switches and NUMA nodes alone; test_topology.py holds its choice
against this, which tries every set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from stoker.agent.devices.host.topology import LEVELS, Topology


def rank(cell: str) -> int:
    """Closeness of two devices by their cell: 0 for the loosest, highest for direct links."""
    return LEVELS.index(cell) if cell in LEVELS else len(LEVELS)


def score(
    matrix: Sequence[Sequence[str]], numa: Sequence[int | None], members: Iterable[int]
) -> tuple[int, int]:
    """Score of a set of devices, the larger the better: its loosest pair, then fewer NUMA nodes."""
    chosen = tuple(members)
    ranks = [rank(matrix[i][j]) for i, j in combinations(chosen, 2)]
    return (min(ranks, default=len(LEVELS)), -len({numa[i] for i in chosen}))


def ranked(found: Topology, count: int) -> list[int]:
    """All sets of `count` devices as bit masks, the best first; ties go to the lowest indices."""
    sets = sorted(
        combinations(range(found.devices), count),
        key=lambda members: (
            tuple(-part for part in score(found.matrix, found.numa, members)),
            members,
        ),
    )
    return [sum(1 << index for index in members) for members in sets]
