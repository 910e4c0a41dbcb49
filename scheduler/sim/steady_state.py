# SPDX-License-Identifier: Apache-2.0
"""A replay on a cluster in steady state, in which each task stays as long as in the trace.

Invariant: figures are means over time of the core's allocation, from the first arrival after the
start to the last one; the initial filling is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from stoker.scheduler.sim.arrivals import Stay
from stoker.scheduler.sim.cluster import Cluster, Placed
from stoker.scheduler.sim.openb import TraceTask


class Staying(NamedTuple):
    """The result of a run; percentages are of the cluster's GPUs, except the last."""

    arrived: int
    dropped: int
    mean_pct: float
    peak_pct: float
    dropped_demand_pct: float
    """Percentage of the GPU time that the arrivals would have used."""


class _Ledger:
    """The resources allocated now, and their integral over time."""

    def __init__(self) -> None:
        self.milli = self.peak = self.area = self._at_ns = 0

    def reach(self, now_ns: int) -> None:
        self.area += self.milli * (now_ns - self._at_ns)
        self._at_ns = now_ns

    def add(self, milli: int) -> None:
        self.milli += milli
        self.peak = max(self.peak, self.milli)


class _Leaving:
    """The placed tasks by the time of their end."""

    def __init__(self, cluster: Cluster, ledger: _Ledger) -> None:
        self._cluster, self._ledger = cluster, ledger
        self._heap: list[tuple[int, int, Placed]] = []

    def add(self, until_ns: int, milli: int, placed: Placed) -> None:
        heappush(self._heap, (until_ns, milli, placed))

    def until(self, now_ns: int) -> None:
        while self._heap and self._heap[0][0] <= now_ns:
            until_ns, milli, placed = heappop(self._heap)
            self._ledger.reach(until_ns)
            self._ledger.add(-milli)
            self._cluster.end(placed)


def replay_stays(
    cluster: Cluster,
    tasks: Sequence[TraceTask],
    there: Sequence[Stay],
    later: Sequence[Stay],
    capacity: int,
) -> Staying:
    """Place the tasks present at the start, then offer the later ones as time goes on."""
    ledger = _Ledger()
    leaving = _Leaving(cluster, ledger)
    dropped = demand = lost = 0
    for stay in (*there, *later):
        leaving.until(stay.from_ns)
        ledger.reach(stay.from_ns)
        cluster.now_ns = stay.from_ns + 1
        milli = tasks[stay.task].demand_milli
        placed = cluster.offer(stay.task)
        if placed:
            ledger.add(milli)
            leaving.add(stay.until_ns, milli, placed)
        if stay.from_ns:
            held = milli * (stay.until_ns - stay.from_ns)
            demand += held
            dropped += placed is None
            lost += 0 if placed else held
    span = max(later[-1].from_ns, 1) if later else 1
    return Staying(
        len(later),
        dropped,
        100 * ledger.area / span / capacity,
        100 * ledger.peak / capacity,
        100 * lost / max(demand, 1),
    )
