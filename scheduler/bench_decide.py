# SPDX-License-Identifier: Apache-2.0
"""Benchmark of one decision on a cluster that is nearly full, with jobs coming and going.

The timed loop is in C (`native/core/bench/bench_decide.c`), or here with the caller's clock for
`through_python`. The core decides exactly as on a node.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from stoker.native.errors import BadRequest
from stoker.scheduler import bench_gangs
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.names import name_id
from stoker.scheduler.policies import Order, Placement
from stoker.scheduler.records import (
    STATE_CODES,
    Cancel,
    DeviceSet,
    NodeUp,
    Place,
    QueueSet,
    Request,
    TaskOutcome,
    Term,
    unpack_places,
)
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.classes import target_classes
from stoker.scheduler.sim.openb import Machine, TraceTask
from stoker.scheduler.wire_commands import Submit

BATCH: Final = 64
TIMES_MAX: Final = 1 << 20
_TOLD_AT_ONCE = 256
_CLIENT = name_id("bench")
_WHOLE = 1000


class DecideLoad(NamedTuple):
    """The cluster, the jobs and the number of decisions of one benchmark."""

    machines: Sequence[Machine]
    tasks: Sequence[TraceTask]
    fill_pct: float = 95.0
    seed: int = 1
    placement: Placement = Placement.BEST
    domains: int = 0
    """If not 0, jobs are gangs that stay within one of so many domains, `--within`."""
    gang: int = 4
    decisions: int = 20_000
    warm: int = 5_000
    batches: int = 200
    naive: int = 300
    unique: int = 5_000
    rounds: int = 3
    """The number of repetitions of identical work; the one with the lowest p99 is reported."""


def cluster(load: DecideLoad) -> Core:
    """Return a core with these machines, all up and empty; the tasks are its expected workload."""
    devices = sum(machine.gpus for machine in load.machines)
    jobs = 4 * devices + 16_384
    core = Core(Limits(len(load.machines), max(devices, 1), jobs, 1, jobs, 4096, 1, 1))
    _tell(core, [Term(1, 1), QueueSet(0, order=Order.ANY, placement=load.placement)])
    _tell(core, [request for machine in load.machines for request in _joins(machine)])
    _tell(
        core, bench_gangs.labels([name_id(machine.name) for machine in load.machines], load.domains)
    )
    core.workload([each.request() for each in target_classes(load.tasks)])
    return core


def submits(load: DecideLoad) -> list[Submit]:
    """Return one submit command for each task, or for a gang of such tasks."""
    one_each = [
        Submit(
            _CLIENT,
            gpu_milli=task.demand_milli,
            cpu_milli=task.cpu_milli,
            memory_bytes=task.memory_bytes,
            models=tuple(map(name_id, task.models)),
            series=_series(load, task),
        )
        for task in load.tasks
    ]
    return bench_gangs.within(one_each, load.gang) if load.domains else one_each


def _series(load: DecideLoad, task: TraceTask) -> int:
    """Return the series of a task where speeds are compared: tasks of one shape have one name."""
    if load.placement != Placement.FASTEST:
        return 0
    return name_id(f"{task.demand_milli} {task.cpu_milli}")


def _joins(machine: Machine) -> Iterator[Request]:
    node, model = name_id(machine.name), name_id(machine.model)
    yield NodeUp(node, 1, 1, machine.cpu_milli, machine.memory_bytes, machine.gpus)
    for index in range(machine.gpus):
        yield DeviceSet(node, index, model=model)


def _tell(core: Core, requests: Sequence[Request]) -> None:
    for at in range(0, len(requests), _TOLD_AT_ONCE):
        proposal = core.propose(requests[at : at + _TOLD_AT_ONCE], 1, measure=False)
        if proposal.rejected:
            raise BadRequest(proposal.rejected[0].text())
        core.apply(proposal.commands, 1)


def level_milli(load: DecideLoad) -> int:
    """Return the allocation at which the cluster is kept, in thousandths of a device."""
    return int(sum(machine.gpus for machine in load.machines) * _WHOLE * load.fill_pct / 100)


def measure(load: DecideLoad) -> dict[str, Any]:
    """Measure decisions one by one, in batches, of new shapes, and with a full rescan."""
    return _best([_measured(load) for _ in range(max(1, load.rounds))])


def _best(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    best = min(rounds, key=lambda one: float(one["p99_us"]))
    return best | {"rounds_p99_us": [one["p99_us"] for one in rounds]}


def _measured(load: DecideLoad) -> dict[str, Any]:
    counts = (load.decisions, load.naive, load.unique)
    if max(counts) > TIMES_MAX or min(load.decisions, load.naive, load.unique, load.batches) < 1:
        raise BadRequest(f"1 to {TIMES_MAX} decisions of each sort, not {counts}")
    core = cluster(load)
    packed = b"".join(submit.pack() for submit in submits(load))
    rest = {"batches": load.batches, "naive": load.naive, "unique": load.unique}
    told, counted = core.bench_decide(
        packed, level_milli(load), load.seed, warm=load.warm, decisions=load.decisions,
        **({} if load.domains else rest),
    )  # fmt: skip
    singly = zip(array("I", told["propose"]), array("I", told["apply"]), strict=True)
    times = {name: sorted(array("I", raw)) for name, raw in told.items()}
    return {
        **_cluster_facts(load, counted),
        "decisions": load.decisions,
        "placed": counted["placed"],
        **_quantiles(times["propose"], ""),
        **_quantiles(times["apply"], "apply_"),
        **_quantiles(sorted(map(sum, singly)), "both_"),
        **({} if load.domains else _other_sorts(load, counted, times)),
        "clock_ns": counted["clock_ns"],
        "measured": dict(MEASURED),
    }


def _other_sorts(
    load: DecideLoad, counted: dict[str, int], times: dict[str, list[int]]
) -> dict[str, Any]:
    """Return the figures of decisions in batches, of new shapes, and with a full rescan."""
    return {
        **_batch_rates(load, counted, times),
        "first_seen_decisions": load.unique,
        "first_seen_placed": counted["unique_placed"],
        **_quantiles(times["unique"], "first_seen_"),
        "naive_rescans": load.naive,
        "naive_agrees": counted["naive_agrees"],
        **_quantiles(times["naive"], "naive_rescan_"),
    }


MEASURED: Final = {
    "p50_us, p99_us, p999_us": "propose of one arriving job: checked, placed on a node and devices,"
    " written as the commands to commit; nothing is committed. Jobs that do not fit count as well",
    "apply_*": "apply of those commands, the commit to the state, and the bringing up to date of "
    "ratings that the scheduler does after every apply, also after those of departures",
    "both_*": "the two together for the same job",
    "decisions_per_s": f"propose of {BATCH} arriving jobs at once, jobs per second in the median"
    " batch; committed_per_s: with their apply",
    "first_seen_*": "propose where no job before had the same shape (CPU and memory differ)",
    "naive_rescan_*": "every node rated for the job by the same policy with nothing kept; the"
    " request is in the state already and nothing is written",
    "clock_ns": "cost of reading the clock, contained in every time",
    "ids": "64-bit hashes for nodes, models and clients",
    "times": "wall clock of one thread, of several rounds that with the least p99; informational"
    " on a machine that others use too",
}


def _cluster_facts(load: DecideLoad, counted: dict[str, int]) -> dict[str, Any]:
    devices = sum(machine.gpus for machine in load.machines)
    return {
        "nodes": len(load.machines),
        "devices": devices,
        "placement": load.placement.name.lower(),
        "domains": load.domains,
        "tasks_of_each_job": load.gang if load.domains else 1,
        "jobs_running": counted["jobs"],
        "asked_fill_pct": load.fill_pct,
        "fill_pct": round(counted["used_milli"] / (devices * _WHOLE) * 100, 2),
        "shapes": len(set(submits(load))),
        "threads": 1,
    }


def _batch_rates(
    load: DecideLoad, counted: dict[str, int], times: dict[str, list[int]]
) -> dict[str, Any]:
    return {
        "batch": BATCH,
        "batches": load.batches,
        "batches_placed": counted["batches_placed"],
        "decisions_per_s": round(BATCH * 1e9 / max(_at(times["batch_propose"], 0.5), 1)),
        "committed_per_s": round(BATCH * 1e9 / max(_at(times["batch_both"], 0.5), 1)),
    }


def _quantiles(times: list[int], prefix: str) -> dict[str, float]:
    """Return p50, p99 and p99.9 in us of sorted ns."""
    named = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999}
    return {prefix + name: round(_at(times, share) / 1000, 3) for name, share in named.items()}


def _at(times: list[int], share: float) -> int:
    return times[min(len(times) - 1, int(len(times) * share))]


class _Running(NamedTuple):
    job: int
    node: int
    milli: int


class _Live:
    """The running jobs of a core, which it submits and ends as Python objects."""

    def __init__(self, load: DecideLoad) -> None:
        self.core = cluster(load)
        self.asks = submits(load)
        self.level = level_milli(load)
        self.chance = Chance(load.seed)
        self.now_ns = 1 << 60  # after all that the filling did
        packed = b"".join(submit.pack() for submit in self.asks)
        self.core.bench_decide(packed, self.level, load.seed)
        self.running = list(self._running())
        self.used = sum(each.milli for each in self.running)
        self.jobs_at_start = len(self.running)

    def _running(self) -> Iterator[_Running]:
        for node in self.core.nodes():
            for task in self.core.node_tasks(node):
                yield _Running(task.job, node, sum(share.milli for share in task.shares))

    def _leave(self) -> None:
        at = self.chance.below(len(self.running))
        self.running[at], self.running[-1] = self.running[-1], self.running[at]
        gone = self.running.pop()
        self.used -= gone.milli
        self._commit(TaskOutcome(gone.job, 1, gone.node, STATE_CODES["succeeded"]))

    def _commit(self, request: Request) -> None:
        self.core.apply(self.core.propose([request], self.now_ns, measure=False).commands, 0)

    def arrive(self, clock_ns: Callable[[], int]) -> tuple[int, Place | None]:
        """Return the ns from the request object to the decision object, and the decision."""
        ask = self.asks[self.chance.below(len(self.asks))]
        while self.running and self.used + ask.gpu_milli > self.level:
            self._leave()
        if not ask.gpu_milli and len(self.running) > self.jobs_at_start:
            self._leave()
        self.now_ns += 1_000_000
        before = clock_ns()
        proposal = self.core.propose([ask], self.now_ns, measure=False)
        placed = next(unpack_places(proposal.commands), None)
        took = clock_ns() - before
        effects = self.core.apply(proposal.commands, self.now_ns)
        if placed is None:
            self._commit(Cancel(effects[0].job))
        else:
            milli = sum(share.milli for share in placed.shares)
            self.running.append(_Running(placed.job, placed.node, milli))
            self.used += milli
        return took, placed


def through_python(load: DecideLoad, clock_ns: Callable[[], int]) -> dict[str, Any]:
    """Time each arrival from a `Submit` object to a `Place` object."""
    return _best([_through(load, clock_ns) for _ in range(max(1, load.rounds))])


def _through(load: DecideLoad, clock_ns: Callable[[], int]) -> dict[str, Any]:
    if not 1 <= load.decisions <= TIMES_MAX:
        raise BadRequest(f"1 to {TIMES_MAX} decisions, not {load.decisions}")
    live = _Live(load)
    counted = {"jobs": len(live.running), "used_milli": live.used}
    for _ in range(load.warm):
        live.arrive(clock_ns)
    told = [live.arrive(clock_ns) for _ in range(load.decisions)]
    return {
        **_cluster_facts(load, counted),
        "through": "python",
        "decisions": load.decisions,
        "placed": sum(placed is not None for _, placed in told),
        **_quantiles(sorted(took for took, _ in told), ""),
        "measured": {
            "p50_us, p99_us, p999_us": "core.propose([Submit]) and unpack_places: request object"
            " in, decision object out; nothing is committed",
            "times": MEASURED["times"],
        },
    }
