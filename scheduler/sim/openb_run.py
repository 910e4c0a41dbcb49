# SPDX-License-Identifier: Apache-2.0
"""One run of the openb simulator, as a worker process executes it, and the summary of many.

Pure: equal runs give equal results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stoker.scheduler.policies import Placement
from stoker.scheduler.sim import power
from stoker.scheduler.sim.arrivals import inflated, steady
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.cluster import Cluster, Placed
from stoker.scheduler.sim.migration import Mover
from stoker.scheduler.sim.openb import Machine, TraceTask
from stoker.scheduler.sim.published import fgd_pct
from stoker.scheduler.sim.replay import capacity_milli, replay
from stoker.scheduler.sim.steady_state import replay_stays

POLICIES: Final[dict[str, Placement]] = {
    "default": Placement.BEST,
    "fgd": Placement.FGD,
    "pack": Placement.BINPACK,
    "spread": Placement.SPREAD,
    "random": Placement.RANDOM,
    "power": Placement.POWER,
}
"""The policies that this trace can compare; it has neither costs nor temperatures."""


class Workload(NamedTuple):
    """A list of tasks by name, and the machines they are offered to."""

    name: str
    machines: Sequence[Machine]
    tasks: Sequence[TraceTask]


class RunRules(NamedTuple):
    """The options of one run."""

    arrivals_pct: float = 130
    departures: bool = False
    migrations: int = 0
    measure_power: bool = False


class OpenbRun(NamedTuple):
    """One run: a workload, a policy and a seed."""

    workload: Workload
    policy: str
    seed: int
    rules: RunRules = RunRules()


class OpenbResult(NamedTuple):
    """The result of one run; percentages are of the cluster's GPUs."""

    name: str
    policy: str
    seed: int
    alloc_pct: float
    """The allocation at the end; with departures the mean over time."""
    arrived: int
    dropped: int
    curve: list[float]
    """The allocation at each whole percent of arrived demand; empty with departures."""
    moves: int = 0
    dropped_demand_pct: float | None = None
    """The figures of a run with departures."""
    peak_pct: float | None = None
    watts: list[float] | None = None
    """The power at the points of `curve`, if it was measured."""
    bound: list[float] | None = None
    """A lower bound on the watts of any placement of the same tasks."""


def run(what: OpenbRun) -> OpenbResult:
    """Simulate one run."""
    what = what._replace(workload=_in_random_order(what.workload, what.seed))
    if what.rules.departures:
        return _run_staying(what)
    workload, rules = what.workload, what.rules
    capacity = capacity_milli(workload.machines)
    order = inflated(workload.tasks, capacity, rules.arrivals_pct, what.seed)
    cluster = _cluster(what, len(order))
    mover = Mover(cluster, workload.machines, rules.migrations) if rules.migrations else None
    meter = power.Meter(workload.machines) if rules.measure_power else None
    watts: list[float] = []
    bound: list[float] = []

    def took(task: TraceTask, placed: Placed) -> None:
        if mover:
            mover.took(task, placed)
        if meter:
            meter.took(task, placed)

    def watch(percent: int) -> None:
        if meter:
            watts.append(meter.watts)
            bound.append(meter.bound())

    done = replay(
        cluster,
        workload.tasks,
        order,
        capacity,
        took=took if mover or meter else None,
        watch=watch if meter else None,
        make_room=mover.make_room if mover else None,
    )
    moves = rules.migrations - mover.moves_left if mover else 0
    return OpenbResult(
        workload.name, what.policy, what.seed, done.allocated_pct, done.arrived, done.dropped,
        done.allocation_pct, moves, watts=watts or None, bound=bound or None,
    )  # fmt: skip


def _in_random_order(workload: Workload, seed: int) -> Workload:
    """Return the workload with shuffled machines; published runs break ties by random names."""
    machines = list(workload.machines)
    Chance(~seed).shuffle(machines)
    return workload._replace(machines=machines)


def _run_staying(what: OpenbRun) -> OpenbResult:
    tasks = what.workload.tasks
    capacity = capacity_milli(what.workload.machines)
    there, later = steady(tasks, capacity, what.rules.arrivals_pct, what.seed, len(tasks))
    cluster = _cluster(what, len(there) + len(later))
    done = replay_stays(cluster, tasks, there, later, capacity)
    return OpenbResult(
        what.workload.name, what.policy, what.seed, done.mean_pct, done.arrived, done.dropped, [],
        dropped_demand_pct=done.dropped_demand_pct, peak_pct=done.peak_pct,
    )  # fmt: skip


def _cluster(what: OpenbRun, arrivals: int) -> Cluster:
    machines, tasks = what.workload.machines, what.workload.tasks
    cluster = Cluster(machines, tasks, POLICIES[what.policy], what.seed, arrivals + 1)
    power.tell(cluster.core)
    return cluster


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation, as in the published tables."""
    middle = mean(values)
    return math.sqrt(mean([(value - middle) ** 2 for value in values]))


def mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of the curves at each point that all of them have."""
    return [mean(points) for points in zip(*curves, strict=False)]


def summary(results: Sequence[OpenbResult], gpus: int, rules: RunRules) -> dict[str, Any]:
    """Return one row of the report: all seeds of one workload under one policy."""
    first = results[0]
    shares = [result.alloc_pct for result in results]
    plain = not rules.departures and not rules.migrations
    published = fgd_pct(first.name, gpus, rules.arrivals_pct) if plain else None
    row: dict[str, Any] = {
        "name": first.name,
        "policy": first.policy,
        "mean_alloc_pct": round(mean(shares), 4),
        "sd_pct": round(deviation(shares), 4),
        "published_fgd_pct": published,
        "above_published_pct": None if published is None else round(mean(shares) - published, 4),
        "runs": [_run_row(result) for result in results],
        "curve_pct": [round(point, 4) for point in mean_curve([r.curve for r in results])],
    }
    return row


def _run_row(result: OpenbResult) -> dict[str, Any]:
    row: dict[str, Any] = {
        "seed": result.seed,
        "alloc_pct": round(result.alloc_pct, 4),
        "arrived": result.arrived,
        "dropped": result.dropped,
        "moves": result.moves,
    }
    if result.dropped_demand_pct is not None and result.peak_pct is not None:
        row["dropped_demand_pct"] = round(result.dropped_demand_pct, 4)
        row["peak_pct"] = round(result.peak_pct, 4)
    return row
