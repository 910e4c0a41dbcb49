# SPDX-License-Identifier: Apache-2.0
"""The replay of a trace of jobs in virtual time: arrivals and ends here, decisions in the core.

The core decides at every arrival and end and, for some policies, in rounds while jobs wait.
Invariant: a job's progress is what it computed, without the seconds that a restart costs; the same
trace and settings give the same figures on every machine.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from stoker.native.errors import BadRequest, StokerError
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Effect, Start, StateChanged, Stop
from stoker.scheduler.names import name_id
from stoker.scheduler.policies import Order, Placement
from stoker.scheduler.records import (
    BATCH_REQUESTS_MAX,
    STATE_CODES,
    DeviceSet,
    NodeUp,
    QueueSet,
    Request,
    TaskOutcome,
    Term,
)
from stoker.scheduler.sim.chance import Chance
from stoker.scheduler.sim.jct_bound import WaitBound
from stoker.scheduler.sim.jct_cluster import TraceCluster, tasks_of
from stoker.scheduler.sim.jct_policy import TracePolicy
from stoker.scheduler.sim.jct_trace import SECOND, TraceJob
from stoker.scheduler.wire_commands import Submit

RESTART_S: Final = 30
"""The time that a stopped job loses: checkpoint, restore, warm-up, paid on its devices when it
starts again. The published simulators charge the same for each new allocation: `rescale_time = 30`
in petuum/adaptdl, branch osdi21-artifact, simulator/simulator.py.
"""
TENANTS_MAX: Final = 1024
TASKS_LIMIT: Final = 1 << 20
_START: Final = SECOND
"""The virtual time of the first job; 0 means never to the core."""
_SUCCEEDED, _CANCELLED = STATE_CODES["succeeded"], STATE_CODES["cancelled"]
_EVERY: Final = 256
"""The number of ended jobs between two calls of `progress`."""


class ReplaySettings(NamedTuple):
    restart_s: float = RESTART_S
    estimate_error: float = 0.0
    """An estimate is the true run time x (1 + error) ** u, with u uniform in -1 to 1; 0: exact."""
    seed: int = 0
    estimates: float = 1.0
    """The share of jobs with an estimate of their run time."""
    stuck: bool = False
    """True if the first job needs two GPUs of a node that has lost one, so that it can never start.
    """


class JobRun:
    """The replay of one job. Times are ns after the first submit of the trace."""

    __slots__ = (
        "attempt", "bound_ns", "done", "end_ns", "estimate_ns", "first_ns", "gpus", "held_ns", "id",
        "index", "job", "overhead_ns", "places", "preemptions", "run_ns", "start_ns", "tasks",
    )  # fmt: skip

    def __init__(self, index: int, job: TraceJob, tasks: int, gpus: int) -> None:
        self.index, self.job, self.tasks, self.gpus = index, job, tasks, gpus
        self.id = self.attempt = 0
        self.places: list[tuple[int, int]] = []
        """The (task, node) pairs of this attempt."""
        self.done = 0.0
        """The part of the work that is done."""
        self.run_ns = self.start_ns = self.overhead_ns = self.held_ns = 0
        self.preemptions = 0
        self.estimate_ns = 0
        self.first_ns: int | None = None
        """The time of its first start."""
        self.end_ns: int | None = None
        """The time of its end; None if it never ended."""
        self.bound_ns = 0
        """The upper bound on its wait in strict order of arrival."""

    @property
    def jct_ns(self) -> int:
        assert self.end_ns is not None
        return self.end_ns - self.job.submit_ns

    @property
    def first_wait_ns(self) -> int:
        """The wait before the first start."""
        assert self.first_ns is not None
        return self.first_ns - self.job.submit_ns

    @property
    def wait_ns(self) -> int:
        """The total time in which it held no devices."""
        return self.jct_ns - self.held_ns


class TraceReplay(NamedTuple):
    """The result of a replay: all jobs, and counts of decisions."""

    policy: TracePolicy
    cluster: TraceCluster
    runs: list[JobRun]
    """The jobs that ended, in the order of the trace."""
    refused: dict[str, int]
    """The number of refused jobs by reason."""
    unfinished: int
    decisions: int
    """The number of calls of the core."""
    core_ns: int
    """The time inside the core for all calls, as measured there."""
    peak_waiting: int


def replay(
    jobs: Sequence[TraceJob],
    cluster: TraceCluster,
    policy: TracePolicy,
    settings: ReplaySettings = ReplaySettings(),  # noqa: B008 (immutable)
    progress: Callable[[float], None] | None = None,
) -> TraceReplay:
    """Run the trace to its end. Raises BadRequest if the cluster cannot run it.

    `progress` is called with the number of jobs that ended since the last call.
    """
    return _Simulation(jobs, cluster, policy, settings, progress).run()


class _Simulation:
    def __init__(
        self,
        jobs: Sequence[TraceJob],
        cluster: TraceCluster,
        policy: TracePolicy,
        settings: ReplaySettings,
        progress: Callable[[float], None] | None,
    ) -> None:
        self.cluster, self.policy, self.settings = cluster, policy, settings
        self.progress = progress or (lambda jobs: None)
        self.restart_ns = round(settings.restart_s * SECOND)
        self.models = {number: node.model for number, node in enumerate(cluster.nodes, 1)}
        chance = Chance(settings.seed)
        self.runs = [_job_run(i, job, cluster) for i, job in enumerate(jobs)]
        for run in self.runs:
            factor = (1.0 + settings.estimate_error) ** (2.0 * chance.unit() - 1.0)
            run.estimate_ns = max(1, round(run.estimate_ns * factor))
        tells = Chance(settings.seed + 1)
        for run in self.runs:
            run.estimate_ns *= tells.unit() < settings.estimates
        self.tenants = {name: i for i, name in enumerate(dict.fromkeys(j.tenant for j in jobs), 1)}
        self.by_id: dict[int, JobRun] = {}
        self.ends: list[tuple[int, int, int]] = []
        """A heap of (end, index of the job, attempt); entries of stopped attempts stay in it."""
        self.refused: dict[str, int] = {}
        self.waiting = self.peak_waiting = self.ended = self.decisions = self.core_ns = 0
        self.bound = WaitBound(cluster)
        self.core = self._core()

    def _core(self) -> Core:
        if self.policy.by_tenant and len(self.tenants) > TENANTS_MAX:
            raise BadRequest(f"the trace has more than {TENANTS_MAX} tenants")
        nodes, gpus = len(self.cluster.nodes), self.cluster.gpus
        live = len(self.runs) + 1
        tasks = min(gpus + 64, TASKS_LIMIT)
        core = Core(Limits(nodes + 1, gpus + 2, live + 1, 1, tasks, 64, 1, len(self.tenants) + 1))
        setup: list[Request] = [Term(1, 1), *self.cluster.requests(self._costs())]
        setup += [
            QueueSet(queue, order=self.policy.order)
            for queue in (self.tenants.values() if self.policy.by_tenant else [0])
        ]
        setup += self._stuck() if self.settings.stuck else []
        for at in range(0, len(setup), BATCH_REQUESTS_MAX):
            proposal = core.propose(setup[at : at + BATCH_REQUESTS_MAX], _START, measure=False)
            for rejected in proposal.rejected:
                if not rejected.benign:
                    raise BadRequest(f"the cluster is refused: {rejected.text()}")
            core.apply(proposal.commands, _START)
        return core

    def _stuck(self) -> Iterable[Request]:
        """Return commands for an extra node with two GPUs, one lost, and a job for both."""
        node, model = len(self.cluster.nodes) + 1, name_id("a model of its own")
        yield NodeUp(node, 1, 1, 1, 1, 2)
        yield DeviceSet(node, 0, model=model)
        yield DeviceSet(node, 1, model=model, available=False)
        queue = 1 if self.policy.by_tenant else 0
        yield Submit(client=1, gpu_milli=2000, models=(model,), queue=queue)

    def _costs(self) -> dict[str, int]:
        """Return the relative slowness of each model, if the trace distinguishes models."""
        totals: dict[str, float] = {}
        for run in self.runs:
            for model, run_ns in run.job.by_model:
                totals[model] = totals.get(model, 0.0) + run_ns / run.job.run_ns
        ranked = sorted(totals, key=lambda model: totals[model])
        return {model: rank for rank, model in enumerate(ranked, 1)}

    def run(self) -> TraceReplay:
        at, now, runs = 0, 0, self.runs
        while at < len(runs) or self.ends:
            now = self._next(now, runs[at].job.submit_ns if at < len(runs) else None)
            requests: list[Request] = self._ended(now)
            arrived = []
            while at < len(runs) and runs[at].job.submit_ns == now:
                arrived.append(runs[at])
                at += 1
            self._decide(now, requests, arrived)
        done = [run for run in runs if run.end_ns is not None]
        missing = len(runs) - len(done) - sum(self.refused.values())
        return TraceReplay(
            self.policy, self.cluster, done, self.refused, missing, self.decisions, self.core_ns,
            self.peak_waiting,
        )  # fmt: skip

    def _next(self, now: int, arrival: int | None) -> int:
        """Return the time of the next decision: an end, an arrival, or a round while jobs wait."""
        times = [self.ends[0][0]] if self.ends else []
        if arrival is not None:
            times.append(arrival)
        if self.policy.round_s and self.waiting and self.ends:
            round_ns = self.policy.round_s * SECOND
            times.append((now // round_ns + 1) * round_ns)
        return min(times)

    def _ended(self, now: int) -> list[Request]:
        """Return the outcomes of all jobs that end by now."""
        told: list[Request] = []
        while self.ends and self.ends[0][0] == now:
            _, index, attempt = heapq.heappop(self.ends)
            run = self.runs[index]
            if run.attempt != attempt or not run.places:
                continue
            run.held_ns += now - run.start_ns
            run.end_ns = now
            self.bound.stops(run, round(run.job.run_ns * (1.0 - run.done)))
            told += self._outcomes(run, _SUCCEEDED)
            del self.by_id[run.id]
            self.ended += 1
            if self.ended % _EVERY == 0:
                self.progress(_EVERY)
        return told

    def _outcomes(self, run: JobRun, state: int) -> Iterable[Request]:
        told = [
            TaskOutcome(run.id, run.attempt, node, state, task=task) for task, node in run.places
        ]
        run.places = []
        return told

    def _decide(self, now: int, requests: list[Request], arrived: list[JobRun]) -> None:
        """Decide until there is nothing left to report or to place at this time."""
        waiting: list[tuple[Request, JobRun | None]] = [(each, None) for each in requests]
        waiting += [(self._submit(run, now), run) for run in arrived]
        while True:
            batch, waiting = waiting[:BATCH_REQUESTS_MAX], waiting[BATCH_REQUESTS_MAX:]
            proposal = self.core.propose(
                [each for each, _ in batch], now + _START, self.settings.seed
            )
            self.decisions += 1
            self.core_ns += proposal.latency_ns
            turned_away = set()
            for rejected in proposal.rejected:
                turned_away.add(rejected.request)
                request, run = batch[rejected.request]
                if rejected.retry:
                    waiting.append((request, run))
                elif run is not None:
                    self._refuse(run, rejected.text())
                else:
                    raise StokerError(f"the core refused {request}: {rejected.text()}")
            submitted = [
                run for i, (_, run) in enumerate(batch) if run is not None and i not in turned_away
            ]
            if proposal.commands:
                told = self.core.apply(proposal.commands, now + _START)
                waiting += [(each, None) for each in self._take(told, iter(submitted), now)]
            if not waiting and not proposal.more:
                return

    def _refuse(self, run: JobRun, why: str) -> None:
        self.refused[why] = self.refused.get(why, 0) + 1
        self.bound.leaves(run)

    def _submit(self, run: JobRun, now: int) -> Submit:
        run.bound_ns = self.bound.arrives(run, now)
        job = run.job
        return Submit(
            client=self.tenants[job.tenant] if self.policy.order == Order.FAIR else 1,
            tenant=self.tenants[job.tenant],
            gpu_milli=run.gpus * 1000,
            tasks=run.tasks,
            estimate_ns=run.estimate_ns,
            models=tuple(name_id(m) for m, _ in job.by_model if m in self.cluster.models),
            queue=self.tenants[job.tenant] if self.policy.by_tenant else 0,
            min_run_s=self.policy.min_run_s,
            placement=Placement.COST_OPTIMIZED if job.by_model else Placement.QUEUE,
            options=self.policy.options,
        )

    def _take(self, told: list[Effect], submitted: Iterable[JobRun], now: int) -> Iterable[Request]:
        """Carry out the core's effects; return the outcomes to report to it."""
        arriving = iter(submitted)
        answers: list[Request] = []
        for effect in told:
            if isinstance(effect, Start):
                self._starts(effect, now)
            elif isinstance(effect, Stop):
                run = self.by_id[effect.job]
                if run.places:
                    self._stops(run, now)
                    answers += self._outcomes(run, _CANCELLED)
            elif isinstance(effect, StateChanged) and effect.state == "pending":
                if effect.job not in self.by_id:
                    run = next(arriving)
                    run.id = effect.job
                    self.by_id[effect.job] = run
                self.waiting += 1
                self.peak_waiting = max(self.peak_waiting, self.waiting)
        return answers

    def _starts(self, effect: Start, now: int) -> None:
        run = self.by_id[effect.job]
        run.places.append((effect.task, effect.node))
        if len(run.places) < run.tasks:
            return
        run.attempt = effect.attempt
        run.start_ns = now
        run.first_ns = now if run.first_ns is None else run.first_ns
        run.overhead_ns = self.restart_ns if run.preemptions else 0
        run.run_ns = self._run_ns(run)
        left = round(run.run_ns * (1.0 - run.done))
        heapq.heappush(self.ends, (now + run.overhead_ns + left, run.index, run.attempt))
        self.waiting -= 1
        self.bound.starts(run, now)

    def _run_ns(self, run: JobRun) -> int:
        """Return the run time on the slowest of the job's devices."""
        if not run.job.by_model:
            return run.job.run_ns
        by_model = dict(run.job.by_model)
        return max(by_model[self.models[node]] for _, node in run.places)

    def _stops(self, run: JobRun, now: int) -> None:
        held = now - run.start_ns
        run.held_ns += held
        worked = min(1.0 - run.done, max(0, held - run.overhead_ns) / run.run_ns)
        run.done += worked
        run.preemptions += 1
        self.bound.stops(run, round(run.job.run_ns * worked))


def _job_run(index: int, job: TraceJob, cluster: TraceCluster) -> JobRun:
    here = [run for model, run in job.by_model if model in cluster.models]
    if job.by_model and not here:
        known = ", ".join(sorted(model for model, _ in job.by_model))
        raise BadRequest(f"the trace's jobs run on {known}, of which the cluster has none")
    run = JobRun(index, job, *tasks_of(job.gpus, cluster.node_gpus))
    run.estimate_ns = max(here, default=job.run_ns)
    return run
