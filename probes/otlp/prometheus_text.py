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
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Literal

from stoker.probes.otlp.otlp_encoder import Attributes, Histogram, Metric, Number, Value

Form = Literal["text", "openmetrics"]
CONTENT_TYPES: Mapping[Form, str] = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
LABEL_CHARS_MAX = 256
"""The longest value of a label; a longer one ends in CUT."""
CUT = "…"
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
    """All series of one name. Samples: (suffix of the name, labels, value)."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[tuple[str, Attributes, int | float]]


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
        for point in metric.points:
            if isinstance(point, Number):
                samples.append(("", point.attributes, point.value * scale))
            else:
                samples += _histogram(point, scale)
        kind = _KINDS[metric.kind]
        yield Family(name, kind, metric.description, samples)


_KINDS: Mapping[str, Literal["counter", "gauge", "histogram"]] = {
    "sum": "counter",
    "gauge": "gauge",
    "updown": "gauge",
    "histogram": "histogram",
}


def _histogram(point: Histogram, scale: float) -> Iterator[tuple[str, Attributes, int | float]]:
    """Yield a histogram with the powers of two as its bounds, at which scales of both coincide:
    upper bounds are inclusive in both formats."""
    by_power: Counter[int] = Counter()
    for index, count in point.buckets.items():
        by_power[(index >> point.scale) + 1] += count
    below = point.zero_count
    for power in range(min(by_power, default=0), max(by_power, default=-1) + 1):
        below += by_power[power]
        yield "_bucket", (*point.attributes, ("le", repr(2.0**power * scale))), below
    yield "_bucket", (*point.attributes, ("le", "+Inf")), point.count
    yield "_sum", point.attributes, point.sum * scale
    yield "_count", point.attributes, point.count


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
    seen: set[tuple[str, str]] = set()
    left = 0
    for suffix, labels, value in family.samples:
        text = _labels(labels)
        if not isfinite(value):
            continue
        if (suffix, text) in seen or len(seen) >= room:
            left += 1
            continue
        seen.add((suffix, text))
        lines.append(f"{family.name}{suffix}{text} {value!r}\n")
    return (lines if len(lines) > 1 else [""]), left


def _head(family: Family, form: Form) -> str:
    """Return the two lines of metadata. OpenMetrics names a counter without its `_total`, and one
    of another exporter that has none is of an unknown type there."""
    name, kind = family.name, str(family.kind)
    if form == "openmetrics" and kind == "counter":
        kind = "counter" if name.endswith("_total") else "unknown"
        name = name.removesuffix("_total")
    help = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {help}\n# TYPE {name} {kind}\n"


@lru_cache(maxsize=4096)
def _labels(labels: Attributes) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{_label(name)}="{_escaped(value)}"' for name, value in labels) + "}"


def _label(name: str) -> str:
    return name.replace(".", "_")


def _escaped(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if len(text) > LABEL_CHARS_MAX:
        text = text[: LABEL_CHARS_MAX - len(CUT)] + CUT
    return text.translate(_ESCAPES)
