# SPDX-License-Identifier: Apache-2.0
"""OTLP bytes, read back with OpenTelemetry's own protobuf classes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

from stoker.native import _trace
from stoker.probes.otlp import metric_names, otlp_encoder
from stoker.probes.otlp.otlp_encoder import Exemplar, Histogram, Metric, Number


def parsed(data: bytes) -> Any:
    message = metrics_service_pb2.ExportMetricsServiceRequest()
    message.ParseFromString(data)
    return message


def request(*metrics: Metric, temporality: otlp_encoder.Temporality = "cumulative") -> Any:
    resource: dict[str, otlp_encoder.Value] = {"host.name": "node1", "stoker.metrics.version": "1"}
    return parsed(otlp_encoder.request(resource, ("stoker.agent", "0.1"), metrics, 77, temporality))


def test_attributes_keep_their_kind_whatever_came_before() -> None:
    """True, 1 and 1.0 are equal to a cache of Python's."""
    values = (True, 1, 1.0, "1", False, 0)
    points = tuple(Number((("x", value),), 1) for value in values)
    metric = only(request(Metric("g", "1", "", "gauge", points)))
    kinds = [point.attributes[0].value.WhichOneof("value") for point in metric.gauge.data_points]
    assert kinds == [
        "bool_value", "int_value", "double_value", "string_value", "bool_value", "int_value",
    ]  # fmt: skip


def test_counts_of_buckets_of_any_size_arrive() -> None:
    buckets = {-3: 1, -2: 127, -1: 128, 0: 16_383, 2: 1 << 40}
    point = Histogram((), 1, sum(buckets.values()), 1.0, 5, 0, 16.0, buckets)
    metric = only(request(Metric("h", "ns", "", "histogram", (point,))))
    found = metric.exponential_histogram.data_points[0].positive
    counts = dict(enumerate(found.bucket_counts, found.offset))
    assert {index: count for index, count in counts.items() if count} == buckets


def only(message: Any) -> Any:
    (resource,) = message.resource_metrics
    (scope,) = resource.scope_metrics
    (metric,) = scope.metrics
    return metric


def test_numbers_of_each_kind() -> None:
    at: otlp_encoder.Attributes = (("a", "text"), ("b", True), ("c", -5), ("d", 0.5))
    metric = only(request(Metric("m", "By", "what", "sum", (Number(at, 2**53, 11),))))
    assert (metric.name, metric.unit, metric.description) == ("m", "By", "what")
    (point,) = metric.sum.data_points
    assert metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (2**53, 11, 77)
    values = {each.key: each.value for each in point.attributes}
    assert values["a"].string_value == "text" and values["b"].bool_value
    assert values["c"].int_value == -5 and values["d"].double_value == 0.5
    (point,) = only(request(Metric("m", "", "", "gauge", (Number((), -1.5),)))).gauge.data_points
    assert point.as_double == -1.5 and point.start_time_unix_nano == 0
    counter = only(
        request(Metric("m", "", "", "sum", (Number((), 3, 1),)), temporality="lowmemory")
    )
    assert counter.sum.is_monotonic and counter.sum.aggregation_temporality == 2
    updown = only(request(Metric("m", "", "", "updown", (Number((), -3, 1),)), temporality="delta"))
    assert not updown.sum.is_monotonic and updown.sum.aggregation_temporality == 2
    assert updown.sum.data_points[0].as_int == -3


def test_resource_and_scope() -> None:
    message = request(Metric("m", "", "", "gauge", (Number((), 1),)), Metric("n", "", "", "gauge"))
    (resource,) = message.resource_metrics
    names = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert names == {"host.name": "node1", "stoker.metrics.version": "1"}
    scope = resource.scope_metrics[0]
    assert (scope.scope.name, scope.scope.version) == ("stoker.agent", "0.1")
    assert [metric.name for metric in scope.metrics] == ["m"]  # one without points is left out


@given(st.lists(st.integers(1, 2**47), min_size=1, max_size=50), st.integers(1, 1000))
def test_a_folds_histogram_arrives_without_loss(values: list[int], weight: int) -> None:
    body = _trace.Histogram()
    for value in values:
        body.add(value, weight)
    count, total, least, most, zero, _ = body.totals()
    point = Histogram(
        (), 5, count, float(total), 5, zero, 16.0, body.buckets(), float(least), float(most)
    )
    for temporality in ("delta", "lowmemory"):
        metric = only(
            request(Metric("h", "ns", "", "histogram", (point,)), temporality=temporality)
        )
        assert metric.exponential_histogram.aggregation_temporality == 1
    (found,) = metric.exponential_histogram.data_points
    assert (found.count, found.sum, found.scale) == (count, float(total), 5)
    assert (found.min, found.max, found.zero_count) == (least, most, zero)
    assert found.zero_threshold == 16.0
    arrived = {
        found.positive.offset + place: number
        for place, number in enumerate(found.positive.bucket_counts)
        if number
    }
    assert arrived == body.buckets()
    assert sum(arrived.values()) + found.zero_count == found.count
    base = 2 ** (2**-found.scale)
    for value in values:
        if value > found.zero_threshold:
            index = _trace.Histogram.index(value)
            assert index in arrived
            assert base**index * 0.999999 < value <= base ** (index + 1) * 1.000001


def test_an_exemplar_names_its_span() -> None:
    told = Exemplar(7.5, 99, bytes(range(16)), bytes(range(8)))
    point = Histogram((), 1, 1, 7.5, 5, 0, 0.0, {93: 1}, exemplars=(told,))
    (found,) = only(
        request(Metric("h", "ns", "", "histogram", (point,)))
    ).exponential_histogram.data_points
    (exemplar,) = found.exemplars
    assert (exemplar.as_double, exemplar.time_unix_nano) == (7.5, 99)
    assert (exemplar.trace_id, exemplar.span_id) == (bytes(range(16)), bytes(range(8)))


def test_negative_offsets_and_numbers() -> None:
    point = Histogram((), 1, 3, 2.0, -2, 0, 0.0, {-7: 1, -4: 2})
    (found,) = only(
        request(Metric("h", "", "", "histogram", (point,)))
    ).exponential_histogram.data_points
    assert (found.scale, found.positive.offset) == (-2, -7)
    assert list(found.positive.bucket_counts) == [1, 0, 0, 2]
    assert not found.HasField("min")


@pytest.mark.parametrize("text", ["kernel<T>", "\ud800", "é" * 300])
def test_any_name_a_job_may_choose(text: str) -> None:
    (point,) = only(
        request(Metric("m", "", "", "gauge", (Number((("k", text),), 1),)))
    ).gauge.data_points
    assert point.attributes[0].value.string_value


def test_names_are_unique_and_said_in_full() -> None:
    assert len(metric_names.BY_NAME) == len(metric_names.NAMES)
    for name in metric_names.NAMES:
        assert name.name.startswith(("hw.", "process.", "stoker.")), name
        assert name.description and name.unit, name
