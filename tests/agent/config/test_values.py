# SPDX-License-Identifier: Apache-2.0
"""The source of each value: default, file, variable, option; secrets are hidden."""

from __future__ import annotations

from typing import Any

from stoker.agent.config import values
from stoker.agent.config.values import Given, Setting
from stoker.native.setting import HIDDEN


def found(tables: dict[str, Any], **variables: str) -> dict[str, Setting]:
    given = values.of_variables(tables, variables)
    return {each.key: each for each in values.values(tables, {}, given)}


def test_every_value_has_a_source() -> None:
    all_ = found(
        {"retention": {"jobs": 5}, "otlp": {"interval_s": 3}},
        OTEL_METRIC_EXPORT_INTERVAL="500",
        STOKER_SCHEDULER_LOG_MAX_BYTES="8388608",
    )
    assert all_["retention.jobs"][1:] == (5, "file", 10_000)
    assert all_["retention.user_bytes"].source == "default"
    assert all_["otlp.interval_s"][1:] == (0.5, "OTEL_METRIC_EXPORT_INTERVAL", 10.0)
    assert all_["up.command_log_max_bytes"][1:] == (
        8388608, "STOKER_SCHEDULER_LOG_MAX_BYTES", None,
    )  # fmt: skip
    assert all_["up.port"].shown == "-"


def test_the_variable_that_counts_is_named_where_several_are_set() -> None:
    all_ = found(
        {},
        OTEL_EXPORTER_OTLP_ENDPOINT="http://a:1",
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT="http://b:2",
    )
    endpoint = all_["otlp.endpoint"]
    assert (endpoint.value, endpoint.source) == (
        "http://b:2",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    )


def test_secrets_are_hidden_wherever_they_are_from() -> None:
    tables = {"otlp": {"headers": {"Authorization": "31337"}, "endpoint": "https://u:31337@h/p"}}
    for all_ in (found(tables), found({}, OTEL_EXPORTER_OTLP_HEADERS="Authorization=31337")):
        assert all_["otlp.headers"].value == {"Authorization": HIDDEN}
        assert "31337" not in str(all_)
    assert found(tables)["otlp.endpoint"].value == f"https://{HIDDEN}@h/p"


def test_tables_that_occur_several_times_have_each_of_their_settings() -> None:
    all_ = found(
        {
            "device": [{"id": "a"}, {"id": "b", "numa": 1}],
            "models": {"NVIDIA L40S": {"idle_w": 1, "full_w": 2}},
            "power": {"cards": {"gpu-0": {"at_most_w": 3}}},
        }
    )
    assert (all_["device[2].id"].value, all_["device[2].numa"].value) == ("b", 1)
    assert all_['models."NVIDIA L40S".full_w'][1:3] == (2, "file")
    assert all_["power.cards.gpu-0.at_most_w"][1:3] == (3, "file")
    assert all_["power.cards.gpu-0.at_least_w"].source == "default"
    assert all_["power.tenants"][1:3] == ({}, "default")


def test_what_goes_before_the_file_is_named() -> None:
    tables = {"metrics": {"listen": "127.0.0.1:1"}}
    (listen,) = [
        each
        for each in values.values(tables, {}, {"metrics.listen": Given("off", "--metrics, kept")})
        if each.key == "metrics.listen"
    ]
    assert listen[1:3] == ("off", "--metrics, kept")
