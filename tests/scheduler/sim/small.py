# SPDX-License-Identifier: Apache-2.0
"""Clusters of a few machines for the tests of simulators."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.scheduler.policies import Placement
from stoker.scheduler.sim.cluster import Cluster
from stoker.scheduler.sim.openb import Machine, TraceTask

MIB = 1 << 20
HALF = TraceTask(1000, MIB, 1, 500)
ONE = TraceTask(1000, MIB, 1, 1000)
TWO = TraceTask(1000, MIB, 2, 1000)
HOST = TraceTask(4000, MIB, 0, 0)


def machine(name: str, gpus: int, model: str = "T4", cpu_milli: int = 8000) -> Machine:
    return Machine(name, cpu_milli, 1 << 40, gpus, model)


def cluster(
    machines: Sequence[Machine],
    tasks: Sequence[TraceTask],
    placement: Placement = Placement.BINPACK,
) -> Cluster:
    return Cluster(machines, tasks, placement, 1, 100)
