# SPDX-License-Identifier: Apache-2.0
"""OTLP metrics and log records as bytes: numbers, exponential histograms, events, without the SDK.

Pure. The SDK is not used because of its cost per record and its silent limit of 2,000 series:
points are already summed in C, one per series and interval. Field numbers are those of
opentelemetry-proto 1.10, metrics/v1/metrics.proto, collector/metrics/v1/metrics_service.proto,
logs/v1/logs.proto, collector/logs/v1/logs_service.proto, common/v1/common.proto,
resource/v1/resource.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

Kind = Literal["gauge", "sum", "updown", "histogram"]
"""`sum` only grows within one start; `updown` also falls."""
Temporality = Literal["cumulative", "delta", "lowmemory"]
Value = str | bool | int | float
Attributes = tuple[tuple[str, Value], ...]
"""The attributes, sorted by name so that equal ones compare equal."""

_DELTA, _CUMULATIVE = 1, 2
DELTAS: Mapping[Temporality, frozenset[Kind]] = {
    "cumulative": frozenset(),
    "delta": frozenset(("sum", "histogram")),
    "lowmemory": frozenset(("histogram",)),
}
"""The kinds of metrics that are told as deltas. With `lowmemory` counters that are looked up stay
cumulative, and all of these here are."""
_FIXED = struct.Struct("<Q")
_SIGNED = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_SMALL = tuple(bytes((value,)) for value in range(0x80))
_AS_DOUBLE, _AS_INT = b"\x21", b"\x31"
"""Keys of the fields 4 and 6, of 8 bytes each."""
_SAMPLED = b"\x45\x01\x00\x00\x00"
"""The flags of a log record whose trace is sampled: field 8, of 4 bytes."""
ATTRIBUTES_KEPT = 8192
"""The most attributes whose bytes are kept: those of an interval are mostly those of the last."""

IDS_KEPT = 1024
"""The most pairs of a trace and a span whose bytes are kept, for the same reason."""


@dataclass(frozen=True, slots=True)
class Number:
    """One value of one series. Times are CLOCK_REALTIME ns; `start_ns` is 0 for a gauge."""

    attributes: Attributes
    value: int | float
    start_ns: int = 0


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One value that a histogram counts, and the span in which it was measured."""

    value: float
    time_ns: int
    trace_id: bytes
    span_id: bytes


@dataclass(frozen=True, slots=True)
class Histogram:
    """An exponential histogram: bucket i holds (base^i, base^(i+1)], base = 2^(2^-scale)."""

    attributes: Attributes
    start_ns: int
    count: int
    sum: float
    scale: int
    zero_count: int
    zero_threshold: float
    buckets: Mapping[int, int]
    min: float | None = None
    max: float | None = None
    exemplars: tuple[Exemplar, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """All series of one metric at one moment."""

    name: str
    unit: str
    description: str
    kind: Kind
    points: Sequence[Number | Histogram] = field(default=())


def request(
    resource: Mapping[str, Value],
    scope: tuple[str, str],
    metrics: Iterable[Metric],
    time_ns: int,
    temporality: Temporality = "cumulative",
) -> bytes:
    """Return an ExportMetricsServiceRequest; `scope` has name and version of the producer.

    `temporality` is that of sums and histograms; a value that also falls is always cumulative, as
    OpenTelemetry prefers.
    """
    now = _fixed(3, time_ns)
    found = b"".join(
        _message(
            2, _metric(metric, now, _DELTA if metric.kind in DELTAS[temporality] else _CUMULATIVE)
        )
        for metric in metrics
        if metric.points
    )
    instrumentation = _text(1, scope[0]) + _text(2, scope[1])
    whole = _message(1, _attributes(1, sorted(resource.items())))
    whole += _message(2, _message(1, instrumentation) + found)
    return _message(1, whole)


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event. `severity`: the number of the log data model, 9 for INFO to 17 for ERROR.

    `trace` and `span` are ids of the span that it belongs to, in bytes; empty without one.
    """

    time_ns: int
    event: str
    severity: int
    severity_text: str
    body: str
    attributes: Attributes = ()
    trace: bytes = b""
    span: bytes = b""


def log_request(
    resource: Mapping[str, Value],
    scope: tuple[str, str],
    records: Iterable[EventRecord],
    observed_ns: int,
) -> bytes:
    """Return an ExportLogsServiceRequest of these records."""
    found = b"".join(_message(2, _log_record(each, observed_ns)) for each in records)
    instrumentation = _text(1, scope[0]) + _text(2, scope[1])
    whole = _message(1, _attributes(1, sorted(resource.items())))
    whole += _message(2, _message(1, instrumentation) + found)
    return _message(1, whole)


def _log_record(record: EventRecord, observed_ns: int) -> bytes:
    return (
        _fixed(1, record.time_ns)
        + _integer(2, record.severity)
        + _text(3, record.severity_text)
        + _message(5, _value(record.body))
        + _attributes(6, record.attributes)
        + _span_of(record)
        + _fixed(11, observed_ns)
        + _text(12, record.event)
    )


def _span_of(record: EventRecord) -> bytes:
    """Return the fields of the span that an event belongs to, which is sampled."""
    if not record.trace:
        return b""
    return _SAMPLED + _message(9, record.trace) + _message(10, record.span)


def _metric(metric: Metric, now: bytes, temporality: int) -> bytes:
    head = _text(1, metric.name) + _text(2, metric.description) + _text(3, metric.unit)
    if metric.kind == "histogram":
        points = b"".join(
            _message(1, _histogram(point, now))
            for point in metric.points
            if isinstance(point, Histogram)
        )
        return head + _message(10, points + _integer(2, temporality))
    points = b"".join(
        _message(1, _number(point, now)) for point in metric.points if isinstance(point, Number)
    )
    if metric.kind == "gauge":
        return head + _message(5, points)
    if metric.kind == "sum":
        return head + _message(7, points + _integer(2, temporality) + _integer(3, 1))
    return head + _message(7, points + _integer(2, temporality))


def _number(point: Number, now: bytes) -> bytes:
    start = _fixed(2, point.start_ns) if point.start_ns else b""
    value = (
        _AS_DOUBLE + _DOUBLE.pack(point.value)
        if isinstance(point.value, float)
        else _AS_INT + _SIGNED.pack(point.value)
    )
    return b"".join((start, now, value, _attributes(7, point.attributes)))


def _histogram(point: Histogram, now: bytes) -> bytes:
    found = _attributes(1, point.attributes) + _fixed(2, point.start_ns) + now
    found += _fixed(4, point.count) + _key(5, 1) + _DOUBLE.pack(point.sum)
    found += _integer(6, _zigzag(point.scale)) + _fixed(7, point.zero_count)
    if point.buckets:
        found += _message(8, _buckets(point.buckets))
    for exemplar in point.exemplars:
        found += _message(11, _exemplar(exemplar))
    for number, value in ((12, point.min), (13, point.max)):
        if value is not None:
            found += _key(number, 1) + _DOUBLE.pack(value)
    return found + _key(14, 1) + _DOUBLE.pack(point.zero_threshold)


def _exemplar(exemplar: Exemplar) -> bytes:
    found = _fixed(2, exemplar.time_ns) + _key(3, 1) + _DOUBLE.pack(exemplar.value)
    return found + _ids(exemplar.trace_id, exemplar.span_id)


@lru_cache(maxsize=IDS_KEPT)
def _ids(trace_id: bytes, span_id: bytes) -> bytes:
    return _message(4, span_id) + _message(5, trace_id)


def _buckets(buckets: Mapping[int, int]) -> bytes:
    """Return all buckets from the first to the last used one, as OTLP numbers them."""
    first, last = min(buckets), max(buckets)
    counts = bytearray()
    for index in range(first, last + 1):
        count = buckets.get(index, 0)
        while count > 0x7F:  # a varint, here because there are so many of these
            counts.append(count & 0x7F | 0x80)
            count >>= 7
        counts.append(count)
    return _integer(1, _zigzag(first)) + _message(2, bytes(counts))


def _attributes(number: int, attributes: Iterable[tuple[str, Value]]) -> bytes:
    return b"".join([_attribute(number, name, value) for name, value in attributes])


@lru_cache(maxsize=ATTRIBUTES_KEPT, typed=True)
def _attribute(number: int, name: str, value: Value) -> bytes:
    """Return one attribute; the cache is typed, since True and 1 are equal."""
    return _message(number, _text(1, name) + _message(2, _value(value)))


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return _key(2, 0) + _varint(value)
        case int():
            return _key(3, 0) + _varint(value & 0xFFFFFFFFFFFFFFFF)
        case float():
            return _key(4, 1) + _DOUBLE.pack(value)
    return _message(1, value.encode("utf-8", "replace"))


@lru_cache(maxsize=256)
def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _integer(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value)


def _fixed(number: int, value: int) -> bytes:
    return _key(number, 1) + _FIXED.pack(value)


def _message(number: int, body: bytes) -> bytes:
    return _key(number, 2) + _varint(len(body)) + body


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode("utf-8", "replace"))
