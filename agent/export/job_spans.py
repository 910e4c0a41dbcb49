# SPDX-License-Identifier: Apache-2.0
"""The trace of an ended job: spans of the job, its attempts, their decisions and phases, linked.

Pure. Spans are those of OpenTelemetry's SDK, made after the fact of what the log holds of the job,
and encoded by its encoder. Invariant: ids are those of `trace_identity`, so that a span that is
sent twice is one span, and no span ends before it starts. Times are CLOCK_REALTIME ns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from stoker.mesh.wire.schema import DecisionView, JobView, ShareView
from stoker.probes.otlp import trace_identity

SCOPE: Final = "stoker.jobs"
REASON_CHARS: Final = 500
LINKS_MAX: Final = 32
"""The most jobs that a job followed and to which its span has links."""
FAILED: Final = frozenset({"failed", "timeout", "lost"})
"""The states whose spans are errors; a job that somebody cancelled is none."""
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)

Attributes = dict[str, str | int | float | tuple[str, ...] | tuple[int, ...]]


class EndedAttempt(NamedTuple):
    """One attempt of one task; a moment that never came is None."""

    number: int
    task: int
    state: str
    reason: str
    node: str
    placed_ns: int
    started_ns: int | None
    ended_ns: int
    exit_code: int | None = None
    signal: int | None = None
    devices: tuple[ShareView, ...] = ()


@dataclass(frozen=True, slots=True)
class SpanSource:
    """The maker of spans: the cluster whose jobs they are of, and the resource that tells them."""

    cluster: str
    resource: Mapping[str, str]
    version: str
    ratio: float = 1.0
    """The share of jobs that have a trace; the same jobs in each process."""

    def spans(self, job: JobView) -> list[ReadableSpan]:
        """Return the spans of an ended job, its own first; none for one that is not sampled."""
        trace = trace_identity.trace_id(self.cluster, job.job)
        if job.times.ended_ns is None or not trace_identity.is_sampled(trace, self.ratio):
            return []
        return list(_JobTrace(self, job).spans())


def request(spans: Iterable[ReadableSpan]) -> bytes:
    """Return an ExportTraceServiceRequest."""
    data: bytes = encode_spans(list(spans)).SerializeToString()
    return data


class _JobTrace:
    """The spans of one job in the making."""

    def __init__(self, source: SpanSource, job: JobView) -> None:
        self._job = job
        self._cluster = source.cluster
        self._resource = Resource(dict(source.resource))
        self._scope = InstrumentationScope(SCOPE, source.version)
        self._root = self._context(trace_identity.job_span(source.cluster, job.job))

    def spans(self) -> Iterator[ReadableSpan]:
        times = self._job.times
        ended_ns = times.ended_ns or times.submitted_ns
        links = [self._of_job(each) for each in _followed(self._job)[:LINKS_MAX]]
        yield self._span(
            "job", self._root, None, (times.submitted_ns, ended_ns), self._about(),
            links=links, status=_status(self._job.state, self._job.reason),
        )  # fmt: skip
        waits_ns = times.submitted_ns
        for each in _attempts(self._job):
            if not each.task:
                yield self._phase("pending", self._root, waits_ns, each.placed_ns)
                waits_ns = each.ended_ns
            yield self._decision(each)
            yield from self._attempt(each)
        if self._job.attempt == 0:
            yield self._phase("pending", self._root, waits_ns, ended_ns)

    def _attempt(self, each: EndedAttempt) -> Iterator[ReadableSpan]:
        """Yield the span of an attempt and those of its phases."""
        own = self._of_attempt(each.number, each.task)
        links = [Link(self._of_decision(each), {"stoker.link": "decision"})]
        if each.number > 1 and not each.task:
            before = self._of_attempt(each.number - 1, 0)
            links.append(Link(before, {"stoker.link": "attempt before"}))
        yield self._span(
            "attempt", own, self._root, (each.placed_ns, each.ended_ns), _outcome(each),
            links=links, status=_status(each.state, each.reason),
        )  # fmt: skip
        began_ns = each.started_ns
        yield self._phase("start", own, each.placed_ns, began_ns or each.ended_ns)
        if began_ns is not None:
            yield self._phase("run", own, began_ns, each.ended_ns)

    def _decision(self, each: EndedAttempt) -> ReadableSpan:
        """Return the span of a decision: from the request to the core to the placement. The log has
        details of the last one alone."""
        made = self._job.decision
        known = made if made is not None and each.number == self._job.attempt else None
        took_ns = known.latency_ns if known is not None else 0
        at: Attributes = {**_place(each), "stoker.job.attempt": each.number}
        if known is not None and not each.task:
            at |= _evidence(known)
        own, until_ns = self._of_decision(each), each.placed_ns
        return self._span("decision", own, self._root, (until_ns - took_ns, until_ns), at)

    def _phase(self, name: str, parent: SpanContext, from_ns: int, to_ns: int) -> ReadableSpan:
        made = trace_identity.phase_span(parent.span_id.to_bytes(8, "big"), name, from_ns)
        at: Attributes = {"stoker.phase": name}
        return self._span(name, self._context(made), parent, (from_ns, to_ns), at)

    def _span(
        self,
        name: str,
        own: SpanContext,
        parent: SpanContext | None,
        times: tuple[int, int],
        attributes: Attributes,
        *,
        links: Iterable[Link] = (),
        status: Status | None = None,
    ) -> ReadableSpan:
        return ReadableSpan(
            name,
            own,
            parent,
            self._resource,
            {"stoker.job.id": self._job.job, **attributes},
            links=tuple(links),
            status=status or Status(),
            start_time=times[0],
            end_time=max(times),
            instrumentation_scope=self._scope,
        )

    def _about(self) -> Attributes:
        job = self._job
        at: Attributes = {
            "stoker.job.name": job.name,
            "stoker.job.user": job.user,
            "stoker.job.queue": job.spec.queue or "default",
            "stoker.job.state": job.state,
            "stoker.job.attempts": job.attempt,
        }
        if job.usage is not None:
            at["stoker.job.cpu_time"] = job.usage.cpu_ns / 1e9
            at["stoker.job.memory_peak"] = job.usage.memory_peak_bytes
        if job.device_ns is not None:
            at["stoker.job.device_time"] = job.device_ns / 1e9
        return at

    # --- contexts ---------------------------------------------------------------------------------

    def _of_attempt(self, number: int, task: int) -> SpanContext:
        job = self._job.job
        return self._context(trace_identity.attempt_span(self._cluster, job, number, task))

    def _of_decision(self, each: EndedAttempt) -> SpanContext:
        job = self._job.job
        made = trace_identity.decision_span(self._cluster, job, each.number, each.task)
        return self._context(made)

    def _of_job(self, job: int) -> Link:
        span = trace_identity.job_span(self._cluster, job)
        return Link(self._context(span, job), {"stoker.link": "follows"})

    def _context(self, span: bytes, job: int | None = None) -> SpanContext:
        trace = trace_identity.trace_id(self._cluster, self._job.job if job is None else job)
        ids = int.from_bytes(trace, "big"), int.from_bytes(span, "big")
        return SpanContext(*ids, is_remote=False, trace_flags=_SAMPLED)


def _attempts(job: JobView) -> Iterator[EndedAttempt]:
    """Yield the attempts that the log still has, the oldest first; those of a gang's last one by
    rank."""
    for each in job.attempts:
        if each.placed_ns is not None:
            ended_ns = each.ended_ns or each.placed_ns
            yield EndedAttempt(
                each.attempt, 0, each.state, each.reason, each.node or "", each.placed_ns,
                each.started_ns, ended_ns, each.exit_code, each.signal,
            )  # fmt: skip
    times = job.times
    if not job.attempt or times.placed_ns is None or times.ended_ns is None:
        return
    moments = times.placed_ns, times.started_ns, times.ended_ns
    for rank in job.ranks:
        yield EndedAttempt(
            job.attempt, rank.rank, rank.state, rank.reason, rank.node, *moments,
            rank.exit_code, rank.signal, rank.devices,
        )  # fmt: skip
    if not job.ranks:
        node = job.decision.node if job.decision is not None else ""
        devices = job.decision.devices if job.decision is not None else ()
        yield EndedAttempt(
            job.attempt, 0, job.state, job.reason, node, *moments,
            job.exit_code, job.signal, devices,
        )  # fmt: skip


def _followed(job: JobView) -> tuple[int, ...]:
    spec = job.spec
    return tuple(dict.fromkeys((*spec.after, *spec.after_any, *spec.after_fail)))


def _place(each: EndedAttempt) -> Attributes:
    at: Attributes = {"stoker.job.task": each.task, "host.name": each.node}
    if each.devices:
        at["hw.id"] = tuple(share.id for share in each.devices)
    return at


def _outcome(each: EndedAttempt) -> Attributes:
    at: Attributes = {
        **_place(each),
        "stoker.job.attempt": each.number,
        "stoker.job.state": each.state,
    }
    if each.exit_code is not None:
        at["process.exit.code"] = each.exit_code
    if each.signal is not None:
        at["stoker.job.signal"] = each.signal
    return at


def _evidence(made: DecisionView) -> Attributes:
    return {
        "stoker.decision.id": made.id,
        "stoker.decision.reason": made.reason[:REASON_CHARS],
        "stoker.decision.latency": made.latency_ns / 1e9,
        "stoker.decision.observations": made.observations,
    }


def _status(state: str, reason: str) -> Status:
    if state in FAILED:
        return Status(StatusCode.ERROR, f"{state}: {reason}"[:REASON_CHARS] if reason else state)
    return Status(StatusCode.OK) if state == "succeeded" else Status()
