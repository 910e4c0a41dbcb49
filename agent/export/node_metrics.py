# SPDX-License-Identifier: Apache-2.0
"""The node's metrics for OTLP: devices, jobs, kernels, and the cost and losses of tracing.

Pure. The number of kernels per job and of series in all is bounded; points beyond are left out and
counted by metric, never merged into another series. An absent value has no point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from stoker.agent.devices.readings import CardReadings
from stoker.agent.export import device_metrics, scheduler_metrics
from stoker.agent.jobs.start_records import StartRecord
from stoker.mesh.wire.scheduler_figures import SchedulerFigures
from stoker.mesh.wire.schema import Steered
from stoker.probes.cost.cost_budget import GovernorRecord
from stoker.probes.kernels.job_trace import DeviceRow, KernelSummary, TimedLaunch, TraceSummary
from stoker.probes.otlp import trace_identity
from stoker.probes.otlp.metric_names import NAMES
from stoker.probes.otlp.otlp_encoder import (
    DELTAS,
    Attributes,
    Exemplar,
    Histogram,
    Kind,
    Metric,
    Number,
)
from stoker.scheduler.nouns import DeviceInfo, DeviceSample, TaskKey

KERNELS_MAX = 16
"""The largest number of kernels of one job, by device time."""
SERIES_MAX = 4000
MODES: tuple[Steered, ...] = ("dormant", "governed", "full")
SCALE, ZERO_NS = 5, 16.0
"""The scale and zero threshold of the histograms in native/trace/statistics/histogram.h."""
_PARTS = ("tracer_ppm", "profiler_ppm", "bpf_ppm", "sites_ppm")

Point = tuple[str, Number | Histogram]
"""The name of a metric and one point of it."""
Buckets = tuple[tuple[int, ...], dict[int, int]]
"""Totals (count, sum, min, max, zero, high) and buckets of one histogram."""


@dataclass(frozen=True, slots=True)
class JobReading:
    """One traced job at one moment. `start_ns`: CLOCK_REALTIME of the window's start."""

    key: TaskKey
    name: str
    start_ns: int
    wanted: Steered
    budget_ppm: int
    summary: TraceSummary
    histograms: Mapping[str, Buckets] = field(default_factory=dict)
    slowest: Mapping[str, TimedLaunch] = field(default_factory=dict)
    """The slowest launch of each kernel of late, with CLOCK_REALTIME of its end."""
    governor: GovernorRecord | None = None
    user: str = ""
    uid: int | None = None
    queue: str = ""


@dataclass(frozen=True, slots=True)
class ExemplarRule:
    """The exemplars that are wanted: launches in jobs of this cluster that were not told yet."""

    cluster: str
    ratio: float = 1.0
    """The share of jobs that have a trace to which an exemplar leads."""
    told: Mapping[tuple[TaskKey, str], TimedLaunch] = field(default_factory=dict)
    """The last one of each kernel of an attempt that was told."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """The values of one export. `start_ns`: the agent's start. `failed`, `refused`: points lost by
    the export. `jobs`: ended jobs come first, as they are exported only once."""

    start_ns: int
    devices: tuple[DeviceInfo, ...]
    samples: tuple[DeviceSample, ...]
    jobs: tuple[JobReading, ...]
    counters: Mapping[str, int]
    failed: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    scheduler: SchedulerFigures | None = None
    """The scheduler on this node; None if there is none, or if it does not run."""
    cards: tuple[CardReadings, ...] = ()
    starts: tuple[StartRecord, ...] = ()
    """The attempts that run here, each with the devices that it holds."""
    xids: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Device -> its last Xid and the number of them since the agent started."""
    checks: Mapping[str, bool] = field(default_factory=dict)
    """True for each part of the node, among those that jobs need, which works."""
    process: tuple[tuple[str, Number], ...] = ()
    """The points of the agent's own process."""
    exemplars: ExemplarRule | None = None
    """The exemplars of kernels' durations; None: there are none."""
    idle: Mapping[TaskKey, float] = field(default_factory=dict)
    """Attempt -> the share of its newest stretch in which nobody used its devices."""


def metrics(reading: NodeReading) -> tuple[list[Metric], Counter[str]]:
    """Return metrics in the order of the mapping, and the number of points left out by metric."""
    points: dict[str, list[Number | Histogram]] = {}
    refused: Counter[str] = Counter()
    series = 0
    for name, point in _points(reading):
        if series >= SERIES_MAX:
            refused[name] += 1
            continue
        series += 1
        points.setdefault(name, []).append(point)
    return [
        Metric(each.name, each.unit, each.description, each.kind, tuple(points[each.name]))
        for each in NAMES
        if each.name in points
    ], refused


def series(
    reading: NodeReading, names: Container[str]
) -> dict[str, list[tuple[Attributes, int | float]]]:
    """Return the series of these metrics with their values; histograms have none."""
    found: dict[str, list[tuple[Attributes, int | float]]] = {}
    for name, point in _points(reading):
        if name in names and isinstance(point, Number):
            found.setdefault(name, []).append((point.attributes, point.value))
    return found


def _points(reading: NodeReading) -> Iterator[Point]:
    """Yield the node's own points first, so that many jobs never hide losses."""
    yield "stoker.export.failed", Number((), reading.failed, reading.start_ns)
    for metric, count in sorted(reading.refused.items()):
        attributes = (("stoker.metric", metric),)
        yield "stoker.export.refused", Number(attributes, count, reading.start_ns)
    for counter, count in sorted(reading.counters.items()):
        attributes = (("stoker.counter", counter),)
        yield "stoker.agent.events", Number(attributes, count, reading.start_ns)
    if reading.scheduler is not None:
        yield from scheduler_metrics.points(reading.scheduler)
    for check, works in sorted(reading.checks.items()):
        yield "stoker.agent.check", Number((("stoker.check", check),), int(works), reading.start_ns)
    yield from reading.process
    yield from device_metrics.points(
        reading.devices, reading.samples, reading.cards, reading.start_ns
    )
    kinds = {info.id: device_metrics.named(info) for info in reading.devices}
    for device, (_, count) in sorted(reading.xids.items()):
        at = (*kinds.get(device, (("hw.id", device),)), ("error.type", "xid"))
        yield "hw.errors", Number(at, count, reading.start_ns)
    yield from device_metrics.allocations(reading.devices, reading.starts)
    for start in reading.starts:
        if start.key in reading.idle:
            at = device_metrics.holder(start)
            yield "stoker.job.idle", Number(at, reading.idle[start.key])
    for job in reading.jobs:
        yield from _job(job)
    for job in reading.jobs:
        yield from _kernels(job, reading.exemplars)


def _of(job: JobReading, *more: tuple[str, str | bool | int | float]) -> Attributes:
    return (
        ("stoker.job.id", job.key.job),
        ("stoker.job.attempt", job.key.attempt),
        *((("stoker.job.task", job.key.task),) if job.key.task else ()),
        ("stoker.job.name", job.name),
        *((("stoker.job.user", job.user),) if job.user else ()),
        *((("stoker.job.queue", job.queue),) if job.queue else ()),
        *more,
    )


def _job(job: JobReading) -> Iterator[Point]:
    summary, start = job.summary, job.start_ns
    for mode in MODES:
        at = _of(job, ("stoker.trace.mode", mode))
        yield "stoker.job.tracing", Number(at, int(mode == job.wanted), start)
    yield "stoker.job.tracing.budget", Number(_of(job), job.budget_ppm / 1e6)
    if summary.cost is not None:
        yield "stoker.job.tracing.cost", Number(_of(job), float(summary.cost.share))
    if job.governor is not None and job.governor.state != "waiting":
        for part in _PARTS:
            at = _of(job, ("stoker.part", part.removesuffix("_ppm")))
            share = getattr(job.governor, part) / 1e6
            yield "stoker.job.tracing.governed_cost", Number(at, share)
    if summary.records is not None:
        yield "stoker.job.records.made", Number(_of(job), summary.records.made, start)
        yield "stoker.job.records.folded", Number(_of(job), summary.records.folded, start)
    for counter, count in sorted(summary.loss.items()):
        if count:
            yield "stoker.job.lost", Number(_of(job, ("stoker.counter", counter)), count, start)
    if summary.clock is not None:
        at = _of(job, ("stoker.clock", summary.clock.source))
        yield "stoker.clock.error", Number(at, summary.clock.error_ns)
    for device in summary.devices:
        for cause, ns in msgspec.structs.asdict(device.causes).items():
            at = _of(
                job,
                ("hw.id", device.id),
                ("stoker.cause", cause.removesuffix("_ns")),
                ("stoker.estimate", device.estimate),
            )
            yield "stoker.job.device.time", Number(at, ns, start)
        yield from _throttled(job, device)
    for copy in summary.copies:
        bound = ("stoker.lower_bound", copy.seen < 1)
        at = _of(job, ("stoker.copy.kind", copy.name), bound)
        yield "stoker.job.copies", Number(at, copy.count, start)
        yield "stoker.job.copy.io", Number(at, copy.bytes, start)


def _throttled(job: JobReading, device: DeviceRow) -> Iterator[Point]:
    if (throttle := device.throttle) is None:
        return
    for row in throttle.causes:
        by = (("stoker.throttle", row.cause), ("stoker.source", throttle.source))
        at = _of(job, ("hw.id", device.id), *by)
        yield "stoker.job.device.throttled", Number(at, row.ns, job.start_ns)


def top(kernels: Iterable[KernelSummary], count: int = KERNELS_MAX) -> list[KernelSummary]:
    """Return the kernels with the most device time."""
    return sorted(kernels, key=lambda row: (-row.total_ns, row.name))[:count]


def _kernels(job: JobReading, rule: ExemplarRule | None) -> Iterator[Point]:
    for row in top(job.summary.kernels):
        at = _of(job, ("stoker.kernel.name", row.name))
        launches = (*at, ("stoker.lower_bound", row.seen < 1))
        yield "stoker.job.kernel.launches", Number(launches, row.count, job.start_ns)
        time = (*at, ("stoker.estimate", row.estimate or row.error_ns > 0))
        yield "stoker.job.kernel.time", Number(time, row.total_ns, job.start_ns)
        if row.name in job.histograms:
            slow = _exemplars(job, row.name, rule) if rule is not None else ()
            yield "stoker.job.kernel.duration", _histogram(job, at, job.histograms[row.name], slow)


def _exemplars(job: JobReading, kernel: str, rule: ExemplarRule) -> tuple[Exemplar, ...]:
    """Return the slowest launch of late, which leads to the span of its attempt."""
    launch = job.slowest.get(kernel)
    if launch is None or rule.told.get((job.key, kernel)) == launch:
        return ()
    trace = trace_identity.trace_id(rule.cluster, job.key.job)
    if not trace_identity.is_sampled(trace, rule.ratio):
        return ()
    key = job.key
    span = trace_identity.attempt_span(rule.cluster, key.job, key.attempt, key.task)
    return (Exemplar(float(launch.ns), launch.end_ns, trace, span),)


def _histogram(
    job: JobReading, at: Attributes, found: Buckets, exemplars: tuple[Exemplar, ...]
) -> Histogram:
    (count, total, least, most, zero, _), buckets = found
    return Histogram(
        at,
        job.start_ns,
        count,
        float(total),
        SCALE,
        zero,
        ZERO_NS,
        buckets,
        float(least) if count else None,
        float(most) if count else None,
        exemplars,
    )


class Deltas:
    """The last value of each metric of these kinds that the collector took."""

    def __init__(self, kinds: frozenset[Kind] = DELTAS["delta"]) -> None:
        self._kinds = kinds
        self._last: dict[tuple[str, Attributes], Number | Histogram] = {}
        self._at_ns = 0

    def since(self, found: Iterable[Metric]) -> list[Metric]:
        """Return the metrics with only the change since; `taken` advances the last values."""
        return [
            replace(metric, points=tuple(self._since(metric.name, metric.kind, metric.points)))
            for metric in found
        ]

    def taken(self, found: Iterable[Metric], time_ns: int) -> None:
        """Record that the collector took these values."""
        self._last = {
            (metric.name, point.attributes): point
            for metric in found
            if metric.kind in self._kinds
            for point in metric.points
        }
        self._at_ns = time_ns

    def _since(
        self, name: str, kind: Kind, points: Iterable[Number | Histogram]
    ) -> Iterator[Number | Histogram]:
        for point in points:
            last = self._last.get((name, point.attributes))
            if kind not in self._kinds or last is None:
                yield point
            elif isinstance(point, Number) and isinstance(last, Number):
                more = point.value - last.value
                yield replace(point, value=more, start_ns=self._at_ns) if more >= 0 else point
            elif isinstance(point, Histogram) and isinstance(last, Histogram):
                yield self._difference(point, last)

    def _difference(self, point: Histogram, last: Histogram) -> Histogram:
        if point.count < last.count:  # the series started again
            return point
        left = {i: n - last.buckets.get(i, 0) for i, n in point.buckets.items()}
        return replace(
            point,
            start_ns=self._at_ns,
            count=point.count - last.count,
            sum=point.sum - last.sum,
            zero_count=point.zero_count - last.zero_count,
            buckets={i: n for i, n in left.items() if n > 0},
            min=None,
            max=None,
        )
