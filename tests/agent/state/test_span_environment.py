# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's variables of traces over config.toml, and the values that are not taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opentelemetry.sdk import environment_variables as sdk

from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.span_environment import NOT_TAKEN, TAKEN, SpanTarget, span_target

PAGE = Path(__file__).resolve().parents[3] / "docs/operator/metrics.md"
FILE = OtlpConfig("http://file:4318", trace_ratio=0.5)


def taken(file: OtlpConfig = FILE, **variables: str) -> SpanTarget | None:
    """Return the target from variables that are all taken."""
    given = {f"OTEL_{name}": text for name, text in variables.items()}
    found, refused = span_target(file, given)
    assert refused == ()
    return found


def test_without_variables_the_file_holds() -> None:
    assert taken() == SpanTarget(FILE, "/v1/traces", 0.5)
    assert taken(OtlpConfig()) is None
    assert taken(OtlpConfig("http://c:1", trace_ratio=0)) is None


@pytest.mark.parametrize(
    ("variables", "endpoint", "path"),
    [
        ({"ENDPOINT": "http://c:4318"}, "http://c:4318", "/v1/traces"),
        ({"ENDPOINT": "http://c:4318/otlp/"}, "http://c:4318/otlp/", "/otlp/v1/traces"),
        ({"TRACES_ENDPOINT": "http://t:1/x"}, "http://t:1/x", "/x"),
        ({"TRACES_ENDPOINT": "http://t:1"}, "http://t:1", "/"),
        ({"ENDPOINT": "http://c:4318", "TRACES_ENDPOINT": "http://t:1/x"}, "http://t:1/x", "/x"),
        ({"METRICS_ENDPOINT": "http://m:1/x"}, "http://file:4318", "/v1/traces"),
    ],
)
def test_an_endpoint_of_traces_is_taken_as_it_is(
    variables: dict[str, str], endpoint: str, path: str
) -> None:
    found = taken(**{f"EXPORTER_OTLP_{name}": text for name, text in variables.items()})
    assert found is not None and (found.config.endpoint, found.path) == (endpoint, path)


def test_what_is_for_traces_alone_goes_before() -> None:
    found = taken(
        EXPORTER_OTLP_TIMEOUT="1000",
        EXPORTER_OTLP_TRACES_TIMEOUT="2000",
        EXPORTER_OTLP_TRACES_HEADERS="k=v",
    )
    assert found is not None
    assert found.config.timeout_s == 2 and found.config.headers == {"k": "v"}


@pytest.mark.parametrize(
    ("variables", "ratio"),
    [
        ({"SAMPLER": "always_on"}, 1.0),
        ({"SAMPLER": "traceidratio", "SAMPLER_ARG": "0.25"}, 0.25),
        ({"SAMPLER": "parentbased_traceidratio"}, 1.0),
        ({"SAMPLER": "always_off"}, None),
        ({"EXPORTER": "none"}, None),
    ],
)
def test_the_share_of_jobs_and_the_switch(variables: dict[str, str], ratio: float | None) -> None:
    found = taken(**{f"TRACES_{name}": text for name, text in variables.items()})
    assert (found.ratio if found is not None else None) == ratio
    assert taken(SDK_DISABLED="true") is None


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"TRACES_SAMPLER": "sometimes"}, "TRACES_SAMPLER"),
        ({"TRACES_SAMPLER": "traceidratio", "TRACES_SAMPLER_ARG": "2"}, "SAMPLER_ARG"),
        ({"TRACES_SAMPLER": "traceidratio", "TRACES_SAMPLER_ARG": "nan"}, "SAMPLER_ARG"),
        ({"TRACES_EXPORTER": "zipkin"}, "zipkin"),
        ({"EXPORTER_OTLP_TRACES_TIMEOUT": "-1"}, "TRACES_TIMEOUT"),
        *(({name.removeprefix("OTEL_"): "9"}, name) for name in NOT_TAKEN),
    ],
)
def test_a_value_that_is_not_taken_changes_nothing_and_has_one_sentence(
    variables: dict[str, str], word: str
) -> None:
    found, refused = span_target(FILE, {f"OTEL_{name}": text for name, text in variables.items()})
    assert found == SpanTarget(FILE, "/v1/traces", 0.5)
    (why,) = refused
    assert word in why and "is not taken: " in why


def test_every_variable_of_traces_is_taken_or_named_with_a_reason() -> None:
    """The names are those that OpenTelemetry's own SDK knows, and the page names each."""
    about = re.compile(r"OTEL_(EXPORTER_OTLP_TRACES|TRACES|BSP|SPAN|EVENT_ATTR|LINK)_")
    known = {name for name in vars(sdk) if about.match(name) and "CREDENTIAL" not in name}
    assert len(known) > 15 and known - {*TAKEN, *NOT_TAKEN} == set()
    page = PAGE.read_text()
    for name in (*TAKEN, *NOT_TAKEN):
        short = name.replace("OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_")
        assert f"`{name}`" in page or f"`{short}`" in page, name
    for why in NOT_TAKEN.values():
        assert why in page
