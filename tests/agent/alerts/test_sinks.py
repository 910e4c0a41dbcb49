# SPDX-License-Identifier: Apache-2.0
"""Webhook and log record against real servers on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fakes.post_server import PostServer
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2

from stoker.agent.alerts import sinks
from stoker.agent.alerts.alert import Alert, AlertEvent
from stoker.agent.alerts.rule import AlertSettings
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.probes.otlp import otlp_encoder

ALERT = Alert(
    id=7,
    rule="hot",
    metric="hw.temperature",
    series=(("hw.id", "GPU-1"), ("n", 3)),
    state="firing",
    value=91.5,
    reason="hw.temperature is 91.5 Cel, above 85",
    fired_ns=5,
)
EVENT = AlertEvent("node-a", 1_700_000_000_000_000_000, "firing", ALERT, dropped=2)


@pytest.fixture
def server() -> Iterator[PostServer]:
    made = PostServer()
    yield made
    made.close()


def test_a_webhook_gets_the_change_as_json(server: PostServer) -> None:
    settings = AlertSettings(webhook=f"{server.url}/hook?key=1", webhook_headers={"X-Key": "s3"})
    assert sinks.webhook(settings)(EVENT).why == ""
    ((path, headers, body),) = server.heard
    assert (path, headers["X-Key"], headers["Content-Type"]) == (
        "/hook?key=1", "s3", "application/json",
    )  # fmt: skip
    told = json.loads(body)
    assert (told["schema"], told["node"], told["change"], told["dropped"]) == (
        "stoker/v1", "node-a", "firing", 2,
    )  # fmt: skip
    assert told["alert"]["series"] == {"hw.id": "GPU-1", "n": 3}
    assert (told["alert"]["value"], told["alert"]["reason"]) == (91.5, ALERT.reason)


def test_a_webhook_that_redirects_is_not_followed(server: PostServer) -> None:
    server.status = 302
    tried = sinks.webhook(AlertSettings(webhook=f"{server.url}/hook"))(EVENT)
    assert tried.why == "it answered 302, and redirects are not followed"
    assert not tried.retry
    assert [path for path, _, _ in server.heard] == ["/hook"]


def test_a_busy_webhook_is_tried_again_when_it_says(server: PostServer) -> None:
    server.status = 503
    tried = sinks.webhook(AlertSettings(webhook=server.url))(EVENT)
    assert (tried.why, tried.retry, tried.after_s) == ("it answered 503", True, 3.0)


def test_a_webhook_that_cannot_be_reached_or_sent_to_is_a_sentence_without_secrets() -> None:
    tried = sinks.webhook(AlertSettings(webhook="http://127.0.0.1:1/s3cret"))(EVENT)
    assert tried.retry
    assert "refused" in tried.why
    settings = AlertSettings(webhook="http://127.0.0.1:1/", webhook_headers={"A": "s3cret\r\nB: c"})
    tried = sinks.webhook(settings)(EVENT)
    assert tried.why
    assert "s3cret" not in tried.why


def test_a_change_is_a_log_record_at_the_collector(server: PostServer) -> None:
    config = OtlpConfig(endpoint=server.url, compression="none", headers={"K": "v"})
    assert sinks.otel_logs(config, {"host.name": "node-a"}, "1.2")(EVENT).why == ""
    ((path, headers, body),) = server.heard
    assert (path, headers["K"]) == ("/v1/logs", "v")
    request = logs_service_pb2.ExportLogsServiceRequest()
    request.ParseFromString(body)
    (resource,) = request.resource_logs
    (scope,) = resource.scope_logs
    (record,) = scope.log_records
    assert [each.key for each in resource.resource.attributes] == ["host.name"]
    assert (scope.scope.name, scope.scope.version) == ("stoker.alerts", "1.2")
    assert (record.event_name, record.severity_text) == ("stoker.alert.firing", "WARN")
    assert (record.severity_number, record.time_unix_nano) == (13, EVENT.t_ns)
    assert record.observed_time_unix_nano > EVENT.t_ns
    assert record.body.string_value == f"hot: {ALERT.reason}"
    attributes = {each.key: each.value for each in record.attributes}
    assert attributes["hw.id"].string_value == "GPU-1"
    assert attributes["stoker.alert.value"].double_value == 91.5
    assert attributes["stoker.alert.dropped"].int_value == 2


def test_the_path_of_log_records_follows_that_of_metrics(server: PostServer) -> None:
    config = OtlpConfig(endpoint=f"{server.url}/otlp/v1/metrics", compression="none")
    assert sinks.otel_logs(config, {}, "1")(EVENT).why == ""
    assert server.heard[0][0] == "/otlp/v1/logs"


def test_a_record_of_a_resolved_alert_is_information() -> None:
    made = sinks.log_record(AlertEvent("node-a", 1, "resolved", ALERT))
    assert (made.event, made.severity_text) == ("stoker.alert.resolved", "INFO")
    assert otlp_encoder.log_request({}, ("a", "b"), [made], 1)
