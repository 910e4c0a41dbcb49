# SPDX-License-Identifier: Apache-2.0
"""Pages of the text formats, read back with Prometheus's own Python client."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from stoker.native import _trace
from stoker.probes.otlp.otlp_encoder import Exemplar, Histogram, Metric, Number
from stoker.probes.otlp.prometheus_text import (
    CUT,
    LABEL_CHARS_MAX,
    Family,
    Form,
    families,
    page,
)

FORMS: tuple[Form, ...] = ("text", "openmetrics")


def read(body: bytes, form: Form) -> dict[str, Any]:
    """Map each family to what the client makes of it; it refuses a page that is not valid."""
    parser = text_parser if form == "text" else openmetrics_parser
    return {each.name: each for each in parser.text_string_to_metric_families(body.decode())}


def gauge(*samples: tuple[dict[str, Any], float]) -> Family:
    made = [("", tuple(labels.items()), value) for labels, value in samples]
    return Family("some_gauge", "gauge", "A gauge \\ of\nours.", made)


@pytest.mark.parametrize("form", FORMS)
def test_a_page_says_what_went_in(form: Form) -> None:
    counts = Metric("hw.errors", "{error}", "", "sum", (Number((("hw.id", "a"),), 3, 1),))
    made = page([gauge(({"a": "x", "b": True}, 1.5)), *families([counts])], form, 10, 10_000)
    found = read(made.body, form)
    (sample,) = found["some_gauge"].samples
    assert (sample.labels, sample.value) == ({"a": "x", "b": "true"}, 1.5)
    (sample,) = found["hw_errors"].samples
    assert (sample.name, sample.labels, sample.value) == ("hw_errors_total", {"hw_id": "a"}, 3)
    assert found["hw_errors"].type == "counter" and made.series == 2 and not made.refused


def test_a_counter_with_a_name_of_another_exporter_keeps_it() -> None:
    other = Family("DCGM_FI_ENERGY", "counter", "", [("", (), 7)])
    text = page([other], "text", 9, 999).body
    assert text.endswith(b"# TYPE DCGM_FI_ENERGY counter\nDCGM_FI_ENERGY 7\n")
    found = read(page([other], "openmetrics", 9, 999).body, "openmetrics")["DCGM_FI_ENERGY"]
    assert found.type == "unknown" and found.samples[0].value == 7


@pytest.mark.parametrize("form", FORMS)
@given(values=st.lists(st.text(max_size=300), max_size=5))
def test_no_text_in_a_label_breaks_a_page(form: Form, values: list[str]) -> None:
    """Whatever names say, the page is valid, one line is one series, and no terminal obeys it."""
    made = page([gauge(*(({"a": value}, 1) for value in values))], form, 100, 100_000)
    lines = made.body.decode().split("\n")[:-1]
    assert len([line for line in lines if not line.startswith("#")]) == made.series
    assert made.series + made.refused.total() == len(values)
    assert not [c for c in made.body.decode() if (ord(c) < 32 and c != "\n") or 126 < ord(c) < 160]
    found = read(made.body, form)
    told = {sample.labels["a"] for each in found.values() for sample in each.samples}
    plain = {value for value in values if value.isprintable() and len(value) <= LABEL_CHARS_MAX}
    assert plain <= told


def test_an_escape_sequence_is_spelled_out_and_a_long_name_is_cut() -> None:
    made = page([gauge(({"a": "\x1b[31mred"}, 1), ({"a": "x" * 999}, 2))], "text", 9, 9999)
    first, second = read(made.body, "text")["some_gauge"].samples
    assert first.labels["a"] == r"\x1b[31mred"
    assert len(second.labels["a"]) == LABEL_CHARS_MAX and second.labels["a"].endswith(CUT)


def test_labels_keep_their_kind_whatever_came_before() -> None:
    made = page([gauge(({"a": True}, 1), ({"a": 1}, 1), ({"a": 1.0}, 1))], "text", 9, 9999)
    found = read(made.body, "text")["some_gauge"].samples
    assert [sample.labels["a"] for sample in found] == ["true", "1", "1.0"]


def test_a_series_that_is_there_already_is_counted_and_left_out() -> None:
    made = page([gauge(({"a": "\x01"}, 1), ({"a": r"\x01"}, 2))], "text", 9, 9999)
    assert made.series == 1 and made.refused == {"some_gauge": 1}


def test_the_number_of_series_and_the_size_are_bounded_and_the_rest_is_counted() -> None:
    many = gauge(*(({"a": str(i)}, i) for i in range(100)))
    made = page([many, gauge(({"b": "1"}, 1))], "openmetrics", 60, 10**6)
    assert made.series == 60 and made.refused == {"some_gauge": 41}
    assert made.body.endswith(b"# EOF\n")
    small = page([many, Family("other", "gauge", "", [("", (), 1)])], "text", 10**6, 200)
    assert small.refused == {"some_gauge": 100} and b"other 1" in small.body


def test_a_number_that_is_none_is_absent() -> None:
    made = page([gauge(({"a": "1"}, float("nan")), ({"a": "2"}, float("inf")))], "text", 9, 999)
    assert made.body == b"" and made.series == 0


def test_a_histogram_counts_the_same_values_in_wider_buckets() -> None:
    """Values are put into both: buckets at scale 5 by hand, and Prometheus's by their bounds."""
    chance = random.Random(3)
    values = [chance.lognormvariate(10, 3) for _ in range(2000)]
    values = [value for value in values if value > 16.5]
    buckets: dict[int, int] = {}
    for value in values:
        index = 0
        while 2 ** ((index + 1) / 32) < value:
            index += 1
        buckets[index] = buckets.get(index, 0) + 1
    point = Histogram((), 1, len(values) + 7, sum(values), 5, 7, 16.0, buckets)
    metric = Metric("stoker.job.kernel.duration", "ns", "", "histogram", (point,))
    found = read(page(families([metric]), "openmetrics", 99, 99_999).body, "openmetrics")
    samples = found["stoker_job_kernel_duration_seconds"].samples
    told = {s.labels["le"]: s.value for s in samples if s.name.endswith("_bucket")}
    assert told.pop("+Inf") == len(values) + 7 and len(told) > 10
    for bound, count in told.items():
        assert count == 7 + sum(value * 1e-9 <= float(bound) * (1 + 1e-12) for value in values)


def test_an_exemplar_is_in_the_bucket_that_counts_it() -> None:
    """A value on the bound of a bucket belongs to it; the plain text format has no exemplars."""
    at = (("stoker.kernel.name", "k"),)
    buckets = {_trace.Histogram.index(value): 1 for value in (1000, 1024, 5000)}
    for value, bound in ((1024.0, 1024e-9), (5000.0, 8192e-9)):
        told = Exemplar(value, 1_700_000_000_250_000_000, b"\x01" * 16, b"\x02" * 8)
        point = Histogram(at, 1, 3, 7024.0, 5, 0, 16.0, buckets, exemplars=(told,))
        made = list(families([Metric("h", "ns", "", "histogram", (point,))]))
        found = read(page(made, "openmetrics", 99, 99_999).body, "openmetrics")
        (sample,) = [each for each in found["h_seconds"].samples if each.exemplar is not None]
        assert float(sample.labels["le"]) == pytest.approx(bound)
        assert sample.exemplar.labels == {"trace_id": "01" * 16, "span_id": "02" * 8}
        assert sample.exemplar.value == pytest.approx(value * 1e-9)
        assert float(sample.exemplar.timestamp) == 1_700_000_000.25
        assert b"trace_id" not in page(made, "text", 99, 99_999).body
