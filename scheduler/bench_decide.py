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
from stoker.scheduler.sim.openb import MIB, Machine, TraceTask
from stoker.scheduler.wire_commands import Submit

BATCH: Final = 64
TIMES_MAX: Final = 1 << 20
NODES_MAX: Final = 65_535
_TOLD_AT_ONCE = 256
_CLIENT = name_id("bench")
_WHOLE = 1000

OPENB_MACHINES: Final = (
    # model, GPUs, milli-CPU, MiB, nodes: the node list of Alibaba's GPU trace of 2023
    ("A10", 1, 128_000, 1_048_576, 2), ("G2", 8, 96_000, 393_216, 549),
    ("G3", 8, 128_000, 786_432, 39), ("P100", 1, 8_000, 61_440, 3),
    ("P100", 2, 16_000, 122_880, 109), ("P100", 2, 64_000, 262_144, 22),
    ("T4", 2, 104_000, 524_288, 387), ("T4", 4, 96_000, 393_216, 17),
    ("V100M16", 1, 8_000, 32_768, 19), ("V100M16", 4, 32_000, 131_072, 28),
    ("V100M16", 8, 64_000, 262_144, 8), ("V100M32", 4, 48_000, 376_832, 9),
    ("V100M32", 8, 96_000, 786_432, 21),
)  # fmt: skip
OPENB_TASKS: Final = (
    # GPUs, milli of each, milli-CPU, tasks: its most frequent requests, and all of 2, 4 and 8 GPUs
    (1, 810, 3152, 1078), (1, 1000, 11300, 874), (1, 1000, 11400, 599), (1, 1000, 3152, 470),
    (1, 470, 11908, 390), (0, 0, 12500, 486), (1, 470, 8000, 360), (1, 1000, 12000, 326),
    (0, 0, 32000, 290), (1, 1000, 18708, 255), (1, 650, 11908, 253), (1, 320, 4000, 232),
    (1, 1000, 9810, 195), (0, 0, 8000, 312), (1, 1000, 8000, 164), (1, 1000, 4000, 159),
    (1, 1000, 15700, 158), (1, 1000, 11908, 153), (1, 1000, 16000, 150), (1, 230, 4000, 140),
    (1, 460, 6000, 128), (1, 1000, 14200, 93), (1, 1000, 24200, 84), (1, 590, 3152, 75),
    (1, 320, 8000, 96), (1, 550, 4152, 72), (1, 1000, 11900, 231), (1, 160, 4000, 74),
    (1, 370, 4152, 47), (1, 220, 4000, 62), (1, 110, 4000, 24), (1, 480, 4000, 19),
    (1, 50, 1000, 7), (1, 330, 4000, 7), (1, 350, 4000, 6), (1, 270, 4000, 4),
    (1, 440, 4000, 2), (1, 140, 4000, 1), (1, 290, 4000, 1), (2, 1000, 24000, 16),
    (4, 1000, 44000, 15), (8, 1000, 64200, 26), (8, 1000, 88000, 18),
)  # fmt: skip
_MEMORY_PER_CPU = 4 * MIB  # bytes for each milli-CPU of a task that names no memory


class DecideLoad(NamedTuple):
    """The cluster, the jobs and the number of decisions of one benchmark."""

    machines: Sequence[Machine]
    tasks: Sequence[TraceTask]
    fill_pct: float = 95.0
    seed: int = 1
    placement: Placement = Placement.BEST
    decisions: int = 20_000
    warm: int = 5_000
    batches: int = 200
    naive: int = 300
    unique: int = 5_000
    rounds: int = 3
    """The number of repetitions of identical work; the one with the lowest p99 is reported."""


def openb_machines() -> list[Machine]:
    """Return 1,213 nodes in the trace's proportions."""
    return [
        Machine(f"{model}-{gpus}-{cpu}-{at}", cpu, memory * MIB, gpus, model)
        for model, gpus, cpu, memory, count in OPENB_MACHINES
        for at in range(count)
    ]


def uniform_machines(nodes: int, gpus: int) -> list[Machine]:
    """Return identical nodes with 18 CPUs and 64 GiB for each GPU, about as openb has."""
    if not 1 <= nodes <= NODES_MAX or not 1 <= gpus <= 64:
        raise BadRequest(f"1 to {NODES_MAX} nodes of 1 to 64 GPUs, not {nodes} of {gpus}")
    memory = 64 * 1024 * MIB * gpus
    return [Machine(f"node-{at:05}", 18_000 * gpus, memory, gpus, "GPU") for at in range(nodes)]


def openb_tasks() -> list[TraceTask]:
    """Return 8,152 tasks as in the trace: 1,088 without a GPU, 3,078 with a share of one."""
    return [
        TraceTask(cpu, cpu * _MEMORY_PER_CPU, gpus, milli)
        for gpus, milli, cpu, count in OPENB_TASKS
        for _ in range(count)
    ]


def cluster(load: DecideLoad) -> Core:
    """Return a core with these machines, all up and empty; the tasks are its expected workload."""
    devices = sum(machine.gpus for machine in load.machines)
    jobs = 4 * devices + 16_384
    core = Core(Limits(len(load.machines), max(devices, 1), jobs, 1, jobs, 4096, 1, 1))
    _tell(core, [Term(1, 1), QueueSet(0, order=Order.ANY, placement=load.placement)])
    _tell(core, [request for machine in load.machines for request in _joins(machine)])
    core.workload([each.request() for each in target_classes(load.tasks)])
    return core


def submits(load: DecideLoad) -> list[Submit]:
    """Return one submit command for each task."""
    return [
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
    told, counted = core.bench_decide(
        packed, level_milli(load), load.seed, warm=load.warm, decisions=load.decisions,
        batches=load.batches, naive=load.naive, unique=load.unique,
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
        **_batch_rates(load, counted, times),
        "first_seen_decisions": load.unique,
        "first_seen_placed": counted["unique_placed"],
        **_quantiles(times["unique"], "first_seen_"),
        "naive_rescans": load.naive,
        "naive_agrees": counted["naive_agrees"],
        **_quantiles(times["naive"], "naive_rescan_"),
        "clock_ns": counted["clock_ns"],
        "measured": dict(MEASURED),
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
