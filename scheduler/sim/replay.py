# SPDX-License-Identifier: Apache-2.0
"""One replay of a trace: tasks arrive, the core decides, and the share of used GPUs is kept.

Invariant: allocation is a count of thousandths of a GPU, taken before each arrival that would carry
the arrived demand past a whole percent of capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from stoker.scheduler.sim.cluster import Cluster, Placed
from stoker.scheduler.sim.openb import Machine, TraceTask


class Replay(NamedTuple):
    """The result of one replay; percentages are of the cluster's GPUs."""

    arrived: int
    """The number of tasks that arrived."""
    dropped: int
    """The number of tasks that did not fit when they arrived."""
    arrived_milli: int
    allocated_milli: int
    capacity_milli: int
    allocation_pct: list[float]
    """The allocation when p % of capacity had arrived, by p; the last one is that at the end."""

    @property
    def allocated_pct(self) -> float:
        return 100 * self.allocated_milli / self.capacity_milli


def capacity_milli(machines: Sequence[Machine]) -> int:
    """The cluster's GPUs in thousandths."""
    return 1000 * sum(machine.gpus for machine in machines)


Watch = Callable[[int], None]
"""A callback for each whole percent of arrived demand, before the arrival that would exceed it, and
for the next one at the end.
"""
Took = Callable[[TraceTask, Placed], None]
"""A callback for each task that was placed at once."""
MakeRoom = Callable[[int, TraceTask], Placed | None]
"""A callback for each task that did not fit, by position; it returns the task if it is placed after
all.
"""


class _Marks:
    """Calls `watch` once with each whole percent, in order."""

    def __init__(self, capacity: int, watch: Watch) -> None:
        self._capacity, self._watch = capacity, watch
        self._next = 0

    def reach(self, arrived: int) -> None:
        while self._next * self._capacity < arrived * 100:
            self._watch(self._next)
            self._next += 1

    def end(self, arrived: int) -> None:
        self.reach(arrived)
        self._watch(self._next)


def replay(
    cluster: Cluster,
    tasks: Sequence[TraceTask],
    order: Sequence[int],
    capacity: int,
    *,
    took: Took | None = None,
    watch: Watch | None = None,
    make_room: MakeRoom | None = None,
) -> Replay:
    """Offer the tasks in this order; none of them ends."""
    arrived = allocated = dropped = 0
    curve: list[float] = []

    def mark(percent: int) -> None:
        curve.append(100 * allocated / capacity)
        if watch:
            watch(percent)

    marks = _Marks(capacity, mark)
    for position in order:
        task = tasks[position]
        arrived += task.demand_milli
        marks.reach(arrived)
        placed = cluster.offer(position)
        if placed is None and make_room:
            placed = make_room(position, task)
        elif placed and took:
            took(task, placed)
        if placed is None:
            dropped += 1
            continue
        allocated += task.demand_milli
    marks.end(arrived)
    return Replay(len(order), dropped, arrived, allocated, capacity, curve)
