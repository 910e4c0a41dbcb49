# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's variables of logs over config.toml, and the values that are not taken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opentelemetry.sdk import environment_variables as sdk

from stoker.agent.state.event_log_environment import NOT_TAKEN, TAKEN, event_log_target
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.signal_environment import Destination

PAGE = Path(__file__).resolve().parents[3] / "docs/operator/metrics.md"
FILE = OtlpConfig("http://file:4318", events=True)


def taken(file: OtlpConfig = FILE, **variables: str) -> Destination | None:
    """Return the target from variables that are all taken."""
    given = {f"OTEL_{name}": text for name, text in variables.items()}
    found, refused = event_log_target(file, given)
    assert refused == ()
    return found


def test_events_are_sent_where_the_file_or_a_variable_says_so() -> None:
    off = OtlpConfig("http://file:4318")
    assert taken() == Destination(FILE, "/v1/logs")
    assert taken(off) is None
    assert taken(off, LOGS_EXPORTER="otlp") == Destination(off, "/v1/logs")
    assert taken(LOGS_EXPORTER="none") is None
    assert taken(SDK_DISABLED="true") is None
    assert taken(OtlpConfig(events=True)) is None, "there is no collector"


@pytest.mark.parametrize(
    ("variables", "endpoint", "path"),
    [
        ({"ENDPOINT": "http://c:4318/otlp/"}, "http://c:4318/otlp/", "/otlp/v1/logs"),
        ({"LOGS_ENDPOINT": "http://l:1/x"}, "http://l:1/x", "/x"),
        ({"ENDPOINT": "http://c:4318", "LOGS_ENDPOINT": "http://l:1"}, "http://l:1", "/"),
        ({"TRACES_ENDPOINT": "http://t:1/x"}, "http://file:4318", "/v1/logs"),
    ],
)
def test_an_endpoint_of_logs_is_taken_as_it_is(
    variables: dict[str, str], endpoint: str, path: str
) -> None:
    found = taken(**{f"EXPORTER_OTLP_{name}": text for name, text in variables.items()})
    assert found is not None and (found.config.endpoint, found.path) == (endpoint, path)


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"LOGS_EXPORTER": "console"}, "console"),
        ({"EXPORTER_OTLP_LOGS_TIMEOUT": "-1"}, "LOGS_TIMEOUT"),
        *(({name.removeprefix("OTEL_"): "9"}, name) for name in NOT_TAKEN),
    ],
)
def test_a_value_that_is_not_taken_changes_nothing_and_has_one_sentence(
    variables: dict[str, str], word: str
) -> None:
    given = {f"OTEL_{name}": text for name, text in variables.items()}
    found, (why,) = event_log_target(FILE, given)
    assert found == Destination(FILE, "/v1/logs")
    assert word in why and "is not taken: " in why


def test_every_variable_of_logs_is_taken_or_named_with_a_reason() -> None:
    """The names are those that OpenTelemetry's own SDK knows, and the page names each."""
    about = re.compile(r"OTEL_(EXPORTER_OTLP_LOGS|LOGS|BLRP|LOGRECORD)_")
    known = {name for name in vars(sdk) if about.match(name) and "CREDENTIAL" not in name}
    assert len(known) > 10 and known - {*TAKEN, *NOT_TAKEN} == set()
    page = PAGE.read_text()
    for name in (*TAKEN, *NOT_TAKEN):
        short = name.replace("OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_")
        assert f"`{name}`" in page or f"`{short}`" in page, name
    for why in NOT_TAKEN.values():
        assert why in page
