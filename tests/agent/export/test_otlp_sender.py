# SPDX-License-Identifier: Apache-2.0
"""Requests at a collector in a process of its own, beside those of OpenTelemetry's own SDK."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import Counter as SdkCounter
from opentelemetry.sdk.metrics import Histogram as SdkHistogram
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from stoker.agent.export import otlp_exporter
from stoker.agent.export.node_metrics import NodeReading
from stoker.agent.export.otlp_exporter import OtlpExporter
from stoker.agent.export.otlp_sender import sender
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.native import _trace
from stoker.probes.otlp import otlp_encoder
from stoker.probes.otlp.otlp_encoder import Exemplar, Histogram, Metric, Number

PROGRAM = Path(__file__).resolve().parents[2] / "fakes/otlp_receiver.py"
RESOURCE: dict[str, otlp_encoder.Value] = {"host.name": "node1"}
SCALE = 5


class Receiver:
    """The receiver's addresses and what it took."""

    def __init__(self, file: Path, http: int, grpc: int) -> None:
        self._file = file
        self.http, self.grpc = f"http://127.0.0.1:{http}", f"http://127.0.0.1:{grpc}"

    def taken(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._file.read_text().splitlines()]

    def config(self, protocol: Any, **fields: Any) -> OtlpConfig:
        at = self.grpc if protocol == "grpc" else self.http
        return OtlpConfig(at, protocol=protocol, **fields)


@contextmanager
def receiving(folder: Path, refusals: int = 0) -> Iterator[Receiver]:
    file = folder / f"taken-{refusals}"
    file.touch()
    argv = [sys.executable, PROGRAM, file, str(refusals)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        http, grpc = map(int, process.stdout.readline().split())
        try:
            yield Receiver(file, http, grpc)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    with receiving(tmp_path_factory.mktemp("receiver")) as made:
        yield made


VALUES = [random.Random(7).uniform(1000, 20_000) for _ in range(500)]
"""Values in less than five octaves, which 160 buckets of scale 5 hold."""


def ours() -> list[Metric]:
    """A gauge, a sum, one that falls and a histogram, as stoker encodes them."""
    at = (("hw.id", "GPU-1"), ("number", 3), ("yes", True), ("part", 0.5))
    buckets: dict[int, int] = {}
    for value in VALUES:
        index = next(i for i in range(2000) if value <= 2 ** ((i + 1) / 2**SCALE))
        buckets[index] = buckets.get(index, 0) + 1
    histogram = Histogram(
        at, 1, len(VALUES), sum(VALUES), SCALE, 0, 0.0, buckets, min(VALUES), max(VALUES)
    )
    return [
        Metric("g", "W", "A gauge", "gauge", (Number(at, 301.25),)),
        Metric("c", "J", "A counter", "sum", (Number(at, 12, 1),)),
        Metric("u", "By", "An up and down", "updown", (Number(at, -5, 1),)),
        Metric("h", "ns", "A histogram", "histogram", (histogram,)),
        Metric("e", "ns", "With an exemplar", "histogram", (_with_exemplar(at),)),
    ]


SPAN = SpanContext(0xA0 << 64, 0xB0, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
"""The span in which one value was measured."""
SLOW_NS = 4100.0


def _with_exemplar(at: otlp_encoder.Attributes) -> Histogram:
    told = Exemplar(SLOW_NS, 1, SPAN.trace_id.to_bytes(16, "big"), SPAN.span_id.to_bytes(8, "big"))
    buckets = {_trace.Histogram.index(int(SLOW_NS)): 1}
    return Histogram(at, 1, 1, SLOW_NS, SCALE, 0, 0.0, buckets, SLOW_NS, SLOW_NS, (told,))


def sdks(endpoint: str) -> None:
    """Send these metrics with the SDK: its instruments, its aggregation, its exporter."""
    exponential = ExponentialBucketHistogramAggregation(max_size=160, max_scale=SCALE)
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=f"{endpoint}/v1/metrics"), export_interval_millis=3_600_000
    )
    provider = MeterProvider(
        metric_readers=[reader],
        resource=Resource(dict(RESOURCE)),
        views=[View(instrument_type=SdkHistogram, aggregation=exponential)],
        shutdown_on_exit=False,
    )
    meter = provider.get_meter("stoker.agent", "0.1")
    at = {"hw.id": "GPU-1", "number": 3, "yes": True, "part": 0.5}

    def watts(options: CallbackOptions) -> list[Observation]:
        return [Observation(301.25, at)]

    meter.create_observable_gauge("g", [watts], "W", "A gauge")
    counter = meter.create_counter("c", "J", "A counter")
    assert isinstance(counter, SdkCounter)
    counter.add(12, at)
    meter.create_up_down_counter("u", "By", "An up and down").add(-5, at)
    histogram = meter.create_histogram("h", "ns", "A histogram")
    for value in VALUES:
        histogram.record(value, at)
    exemplar = meter.create_histogram("e", "ns", "With an exemplar")
    exemplar.record(SLOW_NS, at, trace.set_span_in_context(NonRecordingSpan(SPAN)))
    provider.shutdown()


def plain(told: dict[str, Any]) -> Any:
    """The request without times, and with attributes by name, as a collector understands it."""
    (resource,) = told["request"]["resourceMetrics"]
    (scope,) = resource["scopeMetrics"]
    return {
        "resource": attributes(resource["resource"]),
        "scope": scope["scope"],
        "metrics": {each["name"]: metric(each) for each in scope["metrics"]},
    }


def metric(found: dict[str, Any]) -> Any:
    (kind,) = found.keys() & {"gauge", "sum", "exponentialHistogram"}
    body = dict(found[kind])
    points = [point(each) for each in body.pop("dataPoints")]
    return {**{k: found.get(k) for k in ("unit", "description")}, kind: body, "points": points}


def point(found: dict[str, Any]) -> Any:
    kept = {k: v for k, v in found.items() if "UnixNano" not in k and k != "attributes"}
    if "positive" in kept:
        counts = [int(count) for count in kept.pop("positive")["bucketCounts"]]
        offset = int(found["positive"].get("offset", 0))
        kept["buckets"] = {offset + i: count for i, count in enumerate(counts) if count}
        kept["sum"] = pytest.approx(kept["sum"])
        kept = {k: v for k, v in kept.items() if k not in ("zeroThreshold", "negative", "flags")}
    if "exemplars" in kept:
        kept["exemplars"] = [{**each, "timeUnixNano": ""} for each in kept["exemplars"]]
    return {**kept, "attributes": attributes(found)}


def attributes(found: dict[str, Any]) -> Any:
    return {each["key"]: each["value"] for each in found.get("attributes", ())}


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_collector_gets_from_stoker_what_it_gets_from_the_sdk(
    receiver: Receiver, protocol: Any
) -> None:
    before = len(receiver.taken())
    sdks(receiver.http)
    made = sender(receiver.config(protocol, headers={"X-Key": "k"}))
    body = otlp_encoder.request(RESOURCE, ("stoker.agent", "0.1"), ours(), 77)
    assert made.send(body) == ("", False, 0.0)
    made.close()
    sdk, stoker = receiver.taken()[before:]
    assert plain(stoker)["metrics"].keys() == {"g", "c", "u", "h", "e"}
    assert plain(stoker) == plain(sdk)
    (exemplar,) = plain(stoker)["metrics"]["e"]["points"][0]["exemplars"]
    assert exemplar.keys() == {"asDouble", "traceId", "spanId", "timeUnixNano"}
    assert stoker["headers"]["x-key"] == "k"
    assert stoker["way"] == ("grpc" if protocol == "grpc" else "/v1/metrics")


async def read() -> NodeReading:
    return NodeReading(1, (), (), (), {"connect_failed": 3})


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_a_busy_collector_is_tried_again(
    tmp_path: Path, protocol: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_exporter, "PAUSE_S", (0.01, 0.02))
    with receiving(tmp_path, refusals=2) as busy:
        exporter = OtlpExporter(busy.config(protocol), RESOURCE, read, "0.1")
        assert await exporter.once()
        (told,) = busy.taken()
        assert plain(told)["metrics"]["stoker.agent.events"]["points"][0]["asInt"] == "3"
        exporter.close()


async def test_a_grpc_collector_that_is_not_there_costs_points_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_exporter, "PAUSE_S", (0.01, 0.02))
    with receiving(tmp_path) as gone:
        config = gone.config("grpc", timeout_s=0.5)
    exporter = OtlpExporter(config, RESOURCE, read, "0.1")
    assert not await exporter.once()
    assert exporter.counters["otlp_points_lost"] > 0
    exporter.close()


@pytest.mark.parametrize("fields", [{"certificate": "/none"}, {"client_certificate": "/none"}])
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_certificate_that_is_not_there_is_a_failure_with_its_name(
    protocol: Any, fields: dict[str, str]
) -> None:
    key = {"client_key": "/none"} if "client_certificate" in fields else {}
    made = sender(OtlpConfig("https://127.0.0.1:1", protocol=protocol, **fields, **key))
    assert "No such file" in made.send(b"").why
    made.close()
