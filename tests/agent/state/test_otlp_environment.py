# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's variables over config.toml, and the values that are not taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opentelemetry.sdk import environment_variables as sdk

from stoker.agent.state import event_log_environment, span_environment
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.otlp_environment import NOT_TAKEN, TAKEN, configured

PAGE = Path(__file__).resolve().parents[3] / "docs/operator/metrics.md"
FILE = OtlpConfig("http://file:4318", interval_s=7.0, resource={"a": "file", "b": "file"})


def taken(**variables: str) -> OtlpConfig:
    """Return the configuration from variables that are all taken."""
    config, refused = configured(FILE, {f"OTEL_{name}": text for name, text in variables.items()})
    assert refused == ()
    return config


def test_without_variables_the_file_holds() -> None:
    assert taken() == FILE
    assert configured(FILE, {"OTEL_EXPORTER_OTLP_ENDPOINT": " ", "HOME": "/"}) == (FILE, ())


def test_each_variable_has_its_effect() -> None:
    made = taken(
        EXPORTER_OTLP_HEADERS="x-key=a%20b, authorization=Basic c3Q=",
        EXPORTER_OTLP_TIMEOUT="1500",
        EXPORTER_OTLP_COMPRESSION="none",
        EXPORTER_OTLP_PROTOCOL="grpc",
        EXPORTER_OTLP_CERTIFICATE="/ca",
        EXPORTER_OTLP_CLIENT_CERTIFICATE="/crt",
        EXPORTER_OTLP_CLIENT_KEY="/key",
        EXPORTER_OTLP_INSECURE="TRUE",
        EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="DELTA",
        EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION="base2_exponential_bucket_histogram",
        METRIC_EXPORT_INTERVAL="2500",
        RESOURCE_ATTRIBUTES="b=env,service.name=other,c=x%2Cy",
        SERVICE_NAME="mine",
    )
    assert made == OtlpConfig(
        "http://file:4318",
        2.5,
        "delta",
        "none",
        {"x-key": "a b", "authorization": "Basic c3Q="},
        "grpc",
        1.5,
        "/ca",
        "/crt",
        "/key",
        True,
        {"a": "file", "b": "env", "c": "x,y", "service.name": "mine"},
    )


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({"ENDPOINT": "http://c:4318"}, "http://c:4318/v1/metrics"),
        ({"ENDPOINT": "http://c:4318/otlp/"}, "http://c:4318/otlp/v1/metrics"),
        ({"METRICS_ENDPOINT": "http://m:1/x"}, "http://m:1/x"),
        ({"ENDPOINT": "http://c:4318", "METRICS_ENDPOINT": "http://m:1"}, "http://m:1"),
        ({"ENDPOINT": "http://c:4317", "PROTOCOL": "grpc"}, "http://c:4317"),
        ({"ENDPOINT": "c:4317", "METRICS_PROTOCOL": "grpc"}, "c:4317"),
    ],
)
def test_an_endpoint_of_all_signals_gets_the_path_of_metrics(
    variables: dict[str, str], endpoint: str
) -> None:
    found = {f"EXPORTER_OTLP_{name}": text for name, text in variables.items()}
    assert taken(**found).endpoint == endpoint


def test_what_is_for_metrics_alone_goes_before() -> None:
    made = taken(EXPORTER_OTLP_TIMEOUT="1000", EXPORTER_OTLP_METRICS_TIMEOUT="2000")
    assert made.timeout_s == 2


@pytest.mark.parametrize("variables", [{"SDK_DISABLED": "true"}, {"METRICS_EXPORTER": "none"}])
def test_the_export_can_be_switched_off(variables: dict[str, str]) -> None:
    assert taken(EXPORTER_OTLP_ENDPOINT="http://c:1", **variables).endpoint == ""


@pytest.mark.parametrize(
    ("name", "wanted"), [("always_on", True), ("trace_based", True), ("ALWAYS_OFF", False)]
)
def test_exemplars_can_be_switched_off(name: str, wanted: bool) -> None:
    assert taken(METRICS_EXEMPLAR_FILTER=name).exemplars is wanted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", ",".join(f"h{i}=1" for i in range(17))),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "-5"),
        ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "zstd"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1"),
        ("OTEL_METRICS_EXPORTER", "console"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", "sometimes"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "sometimes"),
        ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "explicit_bucket_histogram"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://x"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key"),
        *((name, "x") for name in NOT_TAKEN),
    ],
)
def test_a_value_that_is_not_taken_changes_nothing_and_has_one_sentence(
    name: str, text: str
) -> None:
    config, refused = configured(FILE, {name: text})
    assert config == FILE
    (why,) = refused
    assert "is not taken: " in why and "secret" not in why.partition(": ")[2]


def test_every_variable_of_the_exporter_is_taken_or_named_with_a_reason() -> None:
    """The names are those that OpenTelemetry's own SDK knows."""
    about = re.compile(r"OTEL_(EXPORTER_OTLP_(?!TRACES_|LOGS_)|METRIC|RESOURCE|SERVICE|SDK_DIS)")
    known = {name for name in vars(sdk) if about.match(name)}
    assert len(known) > 15
    ours = {*TAKEN, *NOT_TAKEN}
    providers = {name for name in known if "CREDENTIAL_PROVIDER" in name}
    assert known - ours - providers == set()


def test_no_variable_of_the_sdk_is_ignored_without_a_word() -> None:
    """Those that choose classes of the Python SDK mean nothing to another program."""
    known = {name for name in vars(sdk) if name.startswith("OTEL_")}
    known = {name for name in known if not re.search("_PYTHON_|CREDENTIAL_PROVIDER", name)}
    told = {*TAKEN, *NOT_TAKEN}
    for signal in (span_environment, event_log_environment):
        told |= {*signal.TAKEN, *signal.NOT_TAKEN}
    assert len(known) > 60 and known - told == set()


def test_the_page_names_every_variable() -> None:
    page = PAGE.read_text()
    for name in (*TAKEN, *NOT_TAKEN):
        short = name.replace("OTEL_EXPORTER_OTLP_METRICS_", "OTEL_EXPORTER_OTLP_")
        assert f"`{name}`" in page or f"`{short}`" in page, name
    for why in NOT_TAKEN.values():
        assert why in page
