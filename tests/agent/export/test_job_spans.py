# SPDX-License-Identifier: Apache-2.0
"""Spans of ended jobs: their tree, links and times, and the same by OpenTelemetry's own SDK."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from fakes.node import job_view
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import IdGenerator, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased
from opentelemetry.trace import Link, NonRecordingSpan, Status, StatusCode, set_span_in_context

from stoker.agent.export import job_spans
from stoker.agent.export.job_spans import SpanSource
from stoker.agent.export.otlp_sender import TRACES_METHOD, sender
from stoker.mesh.wire.schema import JobView
from stoker.probes.otlp import trace_identity
from tests.agent.export.test_otlp_sender import Receiver, receiving

SOURCE = SpanSource("c", {"host.name": "node1"}, "0.1")
DECISION = {
    "id": 655_361, "node": "node2", "devices": [{"id": "GPU-1", "index": 0, "milli": 1000}],
    "reason": "fits", "latency_ns": 40, "observations": [7, 8],
}  # fmt: skip
TIMES = {"submitted_ns": 1000, "placed_ns": 3000, "started_ns": 3500, "ended_ns": 9000}


def job(**changes: Any) -> JobView:
    spec = changes.pop("spec", {})
    made = job_view(7, times=TIMES, decision=DECISION, name="train", **changes)
    made["spec"] = {**made["spec"], **spec}
    return msgspec.convert(made, JobView)


def retried() -> JobView:
    """A job that failed once, then succeeded; it followed two others."""
    before = {
        "attempt": 1, "state": "failed", "reason": "exit code 3", "node": "node1",
        "placed_ns": 1500, "started_ns": 1600, "ended_ns": 2000, "exit_code": 3,
    }  # fmt: skip
    return job(attempt=2, attempts=[before], spec={"after": [3], "after_any": [4]})


def named(spans: Iterable[ReadableSpan]) -> dict[tuple[str, int], ReadableSpan]:
    """Map (name, start) to its span."""
    return {(span.name, span.start_time or 0): span for span in spans}


def test_a_job_is_a_tree_of_spans_within_its_time() -> None:
    spans = SOURCE.spans(retried())
    found = named(spans)
    root = found["job", 1000]
    assert spans[0] is root and root.parent is None and root.end_time == 9000
    own = {span.context.span_id: span for span in spans}
    assert len(own) == len(spans) == 11, "each has an id of its own"
    assert {span.context.trace_id for span in spans} == {root.context.trace_id}
    for span in spans[1:]:
        assert span.parent is not None and span.parent.span_id in own
        above = own[span.parent.span_id]
        assert above.start_time <= span.start_time <= span.end_time <= above.end_time
    times = {(span.name, span.start_time, span.end_time) for span in spans}
    assert times >= {
        ("pending", 1000, 1500), ("attempt", 1500, 2000), ("start", 1500, 1600),
        ("run", 1600, 2000), ("pending", 2000, 3000), ("decision", 2960, 3000),
        ("attempt", 3000, 9000), ("start", 3000, 3500), ("run", 3500, 9000),
    }  # fmt: skip


def test_attempts_lead_to_their_decisions_and_to_each_other() -> None:
    found = named(SOURCE.spans(retried()))
    first, second = found["attempt", 1500], found["attempt", 3000]
    (to_first,) = [link.context.span_id for link in first.links]
    to_second, before = [link.context.span_id for link in second.links]
    assert to_first == found["decision", 1500].context.span_id
    assert to_second == found["decision", 2960].context.span_id
    assert before == first.context.span_id
    followed = {(link.context.trace_id, link.context.span_id) for link in found["job", 1000].links}
    assert followed == {
        tuple(int.from_bytes(each, "big") for each in (
            trace_identity.trace_id("c", other), trace_identity.job_span("c", other)
        ))
        for other in (3, 4)
    }  # fmt: skip


def test_a_span_says_what_the_log_has() -> None:
    found = named(SOURCE.spans(retried()))
    decision = dict(found["decision", 2960].attributes or {})
    assert decision["stoker.decision.id"] == 655_361 and decision["hw.id"] == ("GPU-1",)
    assert decision["stoker.decision.observations"] == (7, 8)
    first, last = found["attempt", 1500], found["attempt", 3000]
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "failed: exit code 3"
    assert dict(first.attributes or {})["process.exit.code"] == 3
    assert last.status.status_code is StatusCode.OK
    whole = dict(found["job", 1000].attributes or {})
    assert whole["stoker.job.queue"] == "default" and whole["stoker.job.user"] == "tester"


def test_a_job_that_never_ran_was_only_pending() -> None:
    times = {"submitted_ns": 1000, "ended_ns": 9000}
    view = msgspec.structs.replace(job(state="cancelled"), attempt=0, decision=None)
    view = msgspec.structs.replace(view, times=msgspec.convert(times, type(view.times)))
    assert [(span.name, span.end_time) for span in SOURCE.spans(view)] == [
        ("job", 9000), ("pending", 9000),
    ]  # fmt: skip
    assert SOURCE.spans(view)[0].status.status_code is StatusCode.UNSET


def test_each_rank_of_a_gang_has_an_attempt() -> None:
    ranks = [
        {"rank": rank, "node": f"node{rank}", "devices": [], "state": "succeeded"}
        for rank in range(3)
    ]
    spans = SOURCE.spans(job(ranks=ranks, nodes=["node0", "node1", "node2"]))
    attempts = [span for span in spans if span.name == "attempt"]
    assert [dict(span.attributes or {})["host.name"] for span in attempts] == [
        "node0", "node1", "node2",
    ]  # fmt: skip
    ids = {span.context.span_id for span in attempts}
    assert ids == {
        int.from_bytes(trace_identity.attempt_span("c", 7, 1, rank), "big") for rank in range(3)
    }
    assert [span.name for span in spans].count("pending") == 1


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 1.0])
def test_the_share_of_jobs_is_that_of_the_sdks_sampler(ratio: float) -> None:
    sampler = TraceIdRatioBased(ratio)
    for number in range(300):
        trace = trace_identity.trace_id("c", number)
        theirs = sampler.should_sample(None, int.from_bytes(trace, "big"), "job").decision
        assert trace_identity.is_sampled(trace, ratio) is (theirs is Decision.RECORD_AND_SAMPLE)


class GivenIds(IdGenerator):
    """The ids of spans that are to be made next."""

    def __init__(self, span: ReadableSpan) -> None:
        self.span = span

    def generate_span_id(self) -> int:
        return self.span.context.span_id

    def generate_trace_id(self) -> int:
        return self.span.context.trace_id


def sdks(spans: list[ReadableSpan], endpoint: str) -> None:
    """Make and send the same spans with the SDK: its tracer, its processor, its exporter."""
    ids = GivenIds(spans[0])
    provider = TracerProvider(
        resource=Resource({"host.name": "node1"}), id_generator=ids, shutdown_on_exit=False
    )
    exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer(job_spans.SCOPE, "0.1")
    for span in spans:
        ids.span = span
        above = set_span_in_context(NonRecordingSpan(span.parent)) if span.parent else None
        links = [Link(link.context, dict(link.attributes or {})) for link in span.links]
        made = tracer.start_span(
            span.name, above, attributes=dict(span.attributes or {}), links=links,
            start_time=span.start_time,
        )  # fmt: skip
        made.set_status(Status(span.status.status_code, span.status.description))
        made.end(span.end_time)
    provider.shutdown()


def told(receiver: Receiver, before: int) -> dict[str, Any]:
    """Return the spans that arrived since, by id, each with its resource and scope."""
    found = {}
    for taken in receiver.taken()[before:]:
        for resource in taken["request"]["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    span["attributes"].sort(key=lambda each: each["key"])
                    found[span["spanId"]] = resource["resource"], scope["scope"], span
    return json.loads(json.dumps(found))


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_gets_from_stoker_what_it_gets_from_the_sdk(
    tmp_path: Any, protocol: Any
) -> None:
    """The receiver is a process of its own that imports nothing of the product."""
    spans = SOURCE.spans(retried())
    with receiving(tmp_path) as receiver:
        sdks(spans, receiver.http)
        theirs, count = told(receiver, 0), len(receiver.taken())
        made = sender(receiver.config(protocol), TRACES_METHOD, "/v1/traces")
        assert made.send(job_spans.request(spans)) == ("", False, 0.0)
        made.close()
        assert len(theirs) == len(spans)
        assert told(receiver, count) == theirs
