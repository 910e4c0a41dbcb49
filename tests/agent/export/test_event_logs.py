# SPDX-License-Identifier: Apache-2.0
"""An event is one log record, as OpenTelemetry's own SDK would send it, in the trace of its job."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.sdk._logs import ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from stoker.agent.export.event_logs import SCOPE, EventLogSource
from stoker.probes.otlp import otlp_encoder, trace_identity

SOURCE = EventLogSource("cluster-1", 1.0)
FAILED = {
    "t_ns": 50, "what": "failed", "job": 7, "attempt": 1, "user": "alice",
    "reason": "cannot start: No such file", "node": "",
}  # fmt: skip
EVICTED = {"t_ns": 60, "what": "node.evicted", "node": "b", "reason": "silent for 5 s"}


def parsed(*rows: dict[str, Any], source: EventLogSource = SOURCE) -> Any:
    records = [source.record(row, 99) for row in rows]
    data = otlp_encoder.log_request({"host.name": "a"}, (SCOPE, "1"), records, 1000)
    request = logs_service_pb2.ExportLogsServiceRequest()
    request.ParseFromString(data)
    return request


def records(*rows: dict[str, Any]) -> Any:
    return parsed(*rows).resource_logs[0].scope_logs[0].log_records


def attributes(record: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value")) for each in record.attributes
    }


def test_the_event_of_a_job_says_whose_it_is_and_belongs_to_its_span() -> None:
    (record,) = records(FAILED)
    assert (record.event_name, record.severity_text) == ("stoker.job.failed", "WARN")
    assert (record.severity_number, record.time_unix_nano) == (13, 50)
    assert record.body.string_value == "job 7 of alice failed: cannot start: No such file"
    assert record.trace_id == trace_identity.trace_id("cluster-1", 7)
    assert record.span_id == trace_identity.job_span("cluster-1", 7)
    told = attributes(record)
    uid = told.pop("log.record.uid")
    assert len(uid) == 32
    assert told == {
        "stoker.job.id": 7, "stoker.job.attempt": 1, "stoker.job.user": "alice",
        "stoker.event.reason": "cannot start: No such file",
    }  # fmt: skip


def test_the_event_of_the_cluster_belongs_to_no_span() -> None:
    (record,) = records(EVICTED)
    assert (record.event_name, record.severity_text) == ("stoker.node.evicted", "WARN")
    assert record.body.string_value == "b node.evicted: silent for 5 s"
    assert (record.trace_id, record.span_id, record.flags) == (b"", b"", 0)
    assert attributes(record)["stoker.node"] == "b"


def test_an_event_without_a_time_of_its_own_has_that_of_its_message() -> None:
    (record,) = records({"what": "submitted", "job": 1})
    assert (record.time_unix_nano, record.severity_text) == (99, "INFO")


def test_a_job_that_has_no_trace_has_no_ids() -> None:
    unsampled = EventLogSource("cluster-1", 0.0)
    (record,) = parsed(FAILED, source=unsampled).resource_logs[0].scope_logs[0].log_records
    assert (record.trace_id, record.flags) == (b"", 0)


def test_one_event_has_one_uid_and_each_other_one_another() -> None:
    rows = [FAILED, EVICTED, {**FAILED, "t_ns": 51}, {**FAILED, "job": 8}, {**EVICTED, "node": "c"}]
    uids = [attributes(record)["log.record.uid"] for record in records(*rows)]
    assert len(set(uids)) == len(rows)
    assert [attributes(record)["log.record.uid"] for record in records(*rows)] == uids


@pytest.mark.parametrize("row", [FAILED, EVICTED])
def test_the_request_is_what_the_sdk_encodes(row: dict[str, Any]) -> None:
    made = SOURCE.record(row, 99)
    context = None
    if made.trace:
        ids = int.from_bytes(made.trace, "big"), int.from_bytes(made.span, "big")
        flags = TraceFlags(TraceFlags.SAMPLED)
        span = NonRecordingSpan(SpanContext(*ids, is_remote=False, trace_flags=flags))
        context = set_span_in_context(span)
    record = LogRecord(
        timestamp=made.time_ns, observed_timestamp=1000, context=context,
        severity_number=SeverityNumber(made.severity), severity_text=made.severity_text,
        body=made.body, attributes=dict(made.attributes), event_name=made.event,
    )  # fmt: skip
    whole = ReadWriteLogRecord(
        record, Resource({"host.name": "a"}), InstrumentationScope(SCOPE, "1")
    )
    wanted = encode_logs([whole])
    found = parsed(row)
    assert found.resource_logs[0].resource == wanted.resource_logs[0].resource
    ours, theirs = (each.resource_logs[0].scope_logs[0] for each in (found, wanted))
    assert ours.scope == theirs.scope
    (mine,), (sdks,) = ours.log_records, theirs.log_records
    mine.attributes.sort(key=lambda each: each.key)
    sdks.attributes.sort(key=lambda each: each.key)
    assert mine == sdks
