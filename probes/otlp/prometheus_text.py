# SPDX-License-Identifier: Apache-2.0
"""Metrics as Prometheus's text format 0.0.4 or as OpenMetrics 1.0, and the spelling of names there.

Pure. A library is not used because none writes the names of other exporters as they are:
prometheus_client appends `_total`, OpenTelemetry's exporter changes the case. Invariant: whatever a
label holds, a page is valid and has each series once; what does not fit is counted, by family.

Spelling: OpenTelemetry, "Prometheus and OpenMetrics Compatibility". Durations are the exception:
they become seconds, Prometheus's base unit, and not `_nanoseconds`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import frexp, isfinite
from typing import Literal

from stoker.probes.otlp.otlp_encoder import (
    Attributes,
    Exemplar,
    Histogram,
    Metric,
    Number,
    Value,
)

Form = Literal["text", "openmetrics"]
CONTENT_TYPES: Mapping[Form, str] = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
LABEL_CHARS_MAX = 256
"""The longest value of a label; a longer one ends in CUT."""
CUT = "…"
BUCKET = "_bucket "
LABELS_KEPT = 8192
"""The most labels whose text is kept: those of a page are mostly those of the last one."""
_SUFFIXES = {
    "By": "bytes",
    "W": "watts",
    "J": "joules",
    "Cel": "celsius",
    "Hz": "hertz",
    "s": "seconds",
    "ns": "seconds",
}
_ESCAPES = {
    **{code: f"\\\\x{code:02x}" for code in (*range(32), *range(127, 160))},
    ord("\\"): "\\\\",
    ord('"'): '\\"',
    ord("\n"): "\\n",
}
"""Characters that a terminal would obey are spelled out, so that a page can be read in one."""


@dataclass(frozen=True, slots=True)
class Family:
    """All series of one name. Samples: (suffix of the name, labels, value). The suffix of a bucket
    is BUCKET and its bound, so that all buckets of a histogram have the same labels."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[tuple[str, Attributes, int | float]]
    exemplars: Mapping[tuple[str, Attributes], str] = field(default_factory=dict)
    """The ends of samples' lines that name an exemplar; OpenMetrics alone has them."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its bytes, its series, and the series that were left out by family."""

    body: bytes
    series: int
    refused: Counter[str]


def spelled(name: str, unit: str, kind: str) -> str:
    """Return the name of a metric of ours as Prometheus has it."""
    made = name.replace(".", "_")
    suffix = _SUFFIXES.get(unit, "" if unit.startswith("{") else unit)
    if unit == "1":
        suffix = "ratio" if kind == "gauge" else ""
    if suffix and not made.endswith(f"_{suffix}"):
        made += f"_{suffix}"
    return f"{made}_total" if kind == "sum" else made


def families(metrics: Iterable[Metric]) -> Iterator[Family]:
    """Yield metrics as families; nanoseconds become seconds."""
    for metric in metrics:
        name = spelled(metric.name, metric.unit, metric.kind)
        scale = 1e-9 if metric.unit == "ns" else 1
        samples: list[tuple[str, Attributes, int | float]] = []
        exemplars: dict[tuple[str, Attributes], str] = {}
        for point in metric.points:
            if isinstance(point, Number):
                samples.append(("", point.attributes, point.value * scale))
            else:
                samples += _histogram(point, scale)
                for each in point.exemplars:
                    exemplars[_bucket_of(each, scale), point.attributes] = _exemplar(each, scale)
        kind = _KINDS[metric.kind]
        yield Family(name, kind, metric.description, samples, exemplars)


_KINDS: Mapping[str, Literal["counter", "gauge", "histogram"]] = {
    "sum": "counter",
    "gauge": "gauge",
    "updown": "gauge",
    "histogram": "histogram",
}


def _histogram(point: Histogram, scale: float) -> Iterator[tuple[str, Attributes, int | float]]:
    """Yield a histogram with the powers of two as its bounds, at which scales of both coincide:
    upper bounds are inclusive in both formats."""
    by_power: dict[int, int] = {}
    scale_of, counted = point.scale, by_power.get
    for index, count in point.buckets.items():
        power = (index >> scale_of) + 1
        by_power[power] = counted(power, 0) + count
    below = point.zero_count
    for power in range(min(by_power, default=0), max(by_power, default=-1) + 1):
        below += counted(power, 0)
        yield _bound(power, scale), point.attributes, below
    yield f"{BUCKET}+Inf", point.attributes, point.count
    yield "_sum", point.attributes, point.sum * scale
    yield "_count", point.attributes, point.count


def _bound(power: int, scale: float) -> str:
    return f"{BUCKET}{2.0**power * scale!r}"


def _bucket_of(exemplar: Exemplar, scale: float) -> str:
    """Return the suffix of the bucket of an exemplar, whose upper bound is inclusive."""
    fraction, power = frexp(exemplar.value)
    return _bound(power - 1 if fraction == 0.5 else power, scale)


def _exemplar(exemplar: Exemplar, scale: float) -> str:
    ids = f'trace_id="{exemplar.trace_id.hex()}",span_id="{exemplar.span_id.hex()}"'
    return f" # {{{ids}}} {exemplar.value * scale!r} {exemplar.time_ns / 1e9:.3f}"


def page(found: Iterable[Family], form: Form, series_max: int, bytes_max: int) -> Page:
    """Return the page of these families, the first ones first where not all fit."""
    parts: list[str] = []
    refused: Counter[str] = Counter()
    series = size = 0
    for family in found:
        lines, left = _family(family, form, series_max - series)
        text = "".join(lines)
        if left:
            refused[family.name] += left
        if size + len(text) > bytes_max:
            refused[family.name] += len(lines) - 1
            continue
        series += len(lines) - 1
        size += len(text)
        parts.append(text)
    if form == "openmetrics":
        parts.append("# EOF\n")
    return Page("".join(parts).encode("utf-8", "replace"), series, refused)


def _family(family: Family, form: Form, room: int) -> tuple[list[str], int]:
    """Return the head and the lines of one family, and the number of series left out."""
    lines = [_head(family, form)]
    seen: set[str] = set()
    told = family.exemplars if form == "openmetrics" else {}
    left = 0
    last: Attributes = ()
    text = ""
    for suffix, labels, value in family.samples:
        if not isfinite(value):
            continue
        if labels is not last:  # those of a histogram come one after the other
            text, last = _labels(labels), labels
        name = _series(family.name, suffix, text)
        if name in seen or len(seen) >= room:
            left += 1
            continue
        seen.add(name)
        tail = told.get((suffix, labels), "") if told else ""
        lines.append(f"{name} {value!r}{tail}\n")
    return (lines if len(lines) > 1 else [""]), left


def _series(name: str, suffix: str, labels: str) -> str:
    """Return a series as a line begins with it."""
    if suffix.startswith(BUCKET):
        bound = f'le="{suffix[len(BUCKET) :]}"'
        return f"{name}_bucket{labels[:-1]},{bound}}}" if labels else f"{name}_bucket{{{bound}}}"
    return f"{name}{suffix}{labels}"


def _head(family: Family, form: Form) -> str:
    """Return the two lines of metadata. OpenMetrics names a counter without its `_total`, and one
    of another exporter that has none is of an unknown type there."""
    name, kind = family.name, str(family.kind)
    if form == "openmetrics" and kind == "counter":
        kind = "counter" if name.endswith("_total") else "unknown"
        name = name.removesuffix("_total")
    help = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


def _labels(labels: Attributes) -> str:
    if not labels:
        return ""
    found = [_label(name, value) for name, value in labels]
    return "{" + ",".join(found) + "}"


@lru_cache(maxsize=LABELS_KEPT, typed=True)
def _label(name: str, value: Value) -> str:
    """Return one label; the cache is typed, since True and 1 are equal."""
    return f'{name.replace(".", "_")}="{_escaped(value)}"'


def _escaped(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if len(text) > LABEL_CHARS_MAX:
        text = text[: LABEL_CHARS_MAX - len(CUT)] + CUT
    return text.translate(_ESCAPES)
