# SPDX-License-Identifier: Apache-2.0
"""Summary of a replayed trace: completion times, waiting, fairness, device hours.

Pure arithmetic over a finished replay; times are in seconds. A figure that does not exist is None,
never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from stoker.scheduler.sim.jct import JobRun, TraceReplay
from stoker.scheduler.sim.jct_trace import SECOND

SHORT_S: Final = 10
"""The least run time in the bounded slow-down of a job, so that one short job does not dominate the
figure: the usual threshold of Feitelson's metric.
"""
CURVE_POINTS: Final = 200


class TenantFigures(NamedTuple):
    name: str
    jobs: int
    gpu_hours: float
    avg_wait_s: float
    p99_wait_s: float
    slowdown: float
    """The sum of its jobs' completion times over the sum of their run times on the fastest device.
    """


class Figures(NamedTuple):
    """The figures of one policy on one trace and cluster."""

    policy: str
    text: str
    jobs: int
    refused: dict[str, int]
    unfinished: int
    avg_jct_s: float | None
    p50_jct_s: float | None
    p99_jct_s: float | None
    makespan_s: float | None
    avg_wait_s: float | None
    """The time without devices, before the first start and after preemptions."""
    p99_wait_s: float | None
    longest_wait_s: float | None
    longest_first_wait_s: float | None
    """The longest time until a first start."""
    bound_s: float | None
    """The bound of the job that came closest to its bound."""
    bound_used: float | None
    """That job's wait divided by its bound; only fifo guarantees a value below 1."""
    bound_broken: int
    """The number of jobs that waited longer than their bound in strict order of arrival."""
    p99_slowdown: float | None
    """The 99th percentile over jobs of slowdown, bounded at SHORT_S."""
    jain: float | None
    """Jain's index over tenants of run time over completion time; 1: all wait in proportion."""
    worst_tenant: str | None
    worst_slowdown: float | None
    preemptions: int
    gpu_hours: float
    """The device time held by jobs, including restarts."""
    useful_gpu_hours: float
    utilisation: float | None
    """The held device time over the available device time until the last end."""
    peak_waiting: int
    decisions: int
    core_s: float
    """The time inside the core, the only figure that depends on the machine."""
    tenants: list[TenantFigures]


def figures(replay: TraceReplay) -> Figures:
    """Return all figures of a finished replay."""
    runs = replay.runs
    tenants = tenant_figures(runs)
    jcts, waits = [run.jct_ns for run in runs], [run.wait_ns for run in runs]
    makespan = max((run.end_ns or 0 for run in runs), default=0)
    held = sum(run.job.gpus * run.held_ns for run in runs)
    restarts = sum(run.job.gpus * run.overhead_ns for run in runs)
    worst = max(tenants, key=lambda tenant: tenant.slowdown, default=None)
    closest = max(runs, key=_bound_used, default=None)
    return Figures(
        policy=replay.policy.name,
        text=replay.policy.text,
        jobs=len(runs),
        refused=replay.refused,
        unfinished=replay.unfinished,
        avg_jct_s=_mean_s(jcts),
        p50_jct_s=_percentile_s(jcts, 50),
        p99_jct_s=_percentile_s(jcts, 99),
        makespan_s=makespan / SECOND if runs else None,
        avg_wait_s=_mean_s(waits),
        p99_wait_s=_percentile_s(waits, 99),
        longest_wait_s=max(waits) / SECOND if runs else None,
        longest_first_wait_s=max(run.first_wait_ns for run in runs) / SECOND if runs else None,
        bound_s=closest.bound_ns / SECOND if closest else None,
        bound_used=_bound_used(closest) if closest else None,
        bound_broken=sum(run.wait_ns > run.bound_ns for run in runs),
        p99_slowdown=percentile([slowdown(run) for run in runs], 99),
        jain=jain([1 / tenant.slowdown for tenant in tenants]),
        worst_tenant=worst.name if worst else None,
        worst_slowdown=worst.slowdown if worst else None,
        preemptions=sum(run.preemptions for run in runs),
        gpu_hours=held / SECOND / 3600,
        useful_gpu_hours=(held - restarts) / SECOND / 3600,
        utilisation=held / (makespan * replay.cluster.gpus) if makespan else None,
        peak_waiting=replay.peak_waiting,
        decisions=replay.decisions,
        core_s=replay.core_ns / SECOND,
        tenants=tenants,
    )


def tenant_figures(runs: Sequence[JobRun]) -> list[TenantFigures]:
    """Return figures by tenant: a trace's virtual clusters, files or applications."""
    by_tenant: dict[str, list[JobRun]] = {}
    for run in runs:
        by_tenant.setdefault(run.job.tenant, []).append(run)
    return [_tenant(name, mine) for name, mine in sorted(by_tenant.items())]


def _tenant(name: str, runs: list[JobRun]) -> TenantFigures:
    waits = [run.wait_ns for run in runs]
    return TenantFigures(
        name=name,
        jobs=len(runs),
        gpu_hours=sum(run.job.gpus * run.held_ns for run in runs) / SECOND / 3600,
        avg_wait_s=sum(waits) / len(waits) / SECOND,
        p99_wait_s=(percentile(waits, 99) or 0) / SECOND,
        slowdown=sum(run.jct_ns for run in runs) / sum(map(fastest_ns, runs)),
    )


def fastest_ns(run: JobRun) -> int:
    """Return the run time on the fastest device of the trace's table."""
    return min((ns for _, ns in run.job.by_model), default=run.job.run_ns)


def slowdown(run: JobRun) -> float:
    """Return completion time over run time, at least 1; run times count as at least SHORT_S."""
    return max(1.0, run.jct_ns / max(fastest_ns(run), SHORT_S * SECOND))


def jain(shares: Sequence[float]) -> float | None:
    """Return Jain's fairness index, from 1/n to 1; None without values."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that `percent` of all values do not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def curve(runs: Sequence[JobRun]) -> list[tuple[float, float]]:
    """Return points (completion time in hours, per cent of jobs that took no longer) for a plot."""
    hours = sorted(run.jct_ns / SECOND / 3600 for run in runs)
    places = sorted({round(i * (len(hours) - 1) / CURVE_POINTS) for i in range(CURVE_POINTS + 1)})
    return [(hours[at], 100 * (at + 1) / len(hours)) for at in places]


def _bound_used(run: JobRun) -> float:
    """Return a job's wait divided by its bound; without earlier work the bound is 0."""
    return run.wait_ns / run.bound_ns if run.bound_ns else float(run.wait_ns > 0)


def _mean_s(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) / SECOND if values else None


def _percentile_s(values: Sequence[int], percent: int) -> float | None:
    value = percentile(values, percent)
    return None if value is None else value / SECOND
