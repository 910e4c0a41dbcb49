# SPDX-License-Identifier: Apache-2.0
"""The sinks of alerts over HTTP and OTLP: one try each, which raises nothing.

Invariants: no wait of a try is longer than its timeout, none follows a redirect, and its failure is
a sentence without a secret of the URL or the headers.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from stoker.agent.alerts.alert import Alert, AlertEvent
from stoker.agent.alerts.rule import AlertSettings
from stoker.agent.export import otlp_sender
from stoker.agent.export.otlp_sender import RETRYABLE, Tried
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.probes.otlp import otlp_encoder
from stoker.probes.otlp.otlp_encoder import EventRecord, Value

SCOPE = "stoker.alerts"
WARN, INFO = (13, "WARN"), (9, "INFO")
ANSWER_MAX = 4096
"""The most bytes of an answer that are read."""

Send = Callable[[AlertEvent], Tried]


def body(event: AlertEvent) -> dict[str, Any]:
    """Return a change as JSON for whoever is told of it."""
    alert = event.alert
    return {
        "schema": "stoker/v1",
        "node": event.node,
        "t_ns": event.t_ns,
        "change": event.change,
        "dropped": event.dropped,
        "alert": row(alert),
    }


def row(alert: Alert) -> dict[str, Any]:
    """Return an alert as JSON, with its series as names and values."""
    found: dict[str, Any] = msgspec.to_builtins(alert)
    return {**found, "series": dict(alert.series)}


def webhook(settings: AlertSettings) -> Send:
    """Return what sends a change to the webhook."""
    url = urlsplit(settings.webhook)
    headers = {"Content-Type": "application/json", **settings.webhook_headers}
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")

    def send(event: AlertEvent) -> Tried:
        connection = _connection(url, settings.timeout_s)
        try:
            connection.request("POST", path, json.dumps(body(event)).encode(), headers)
            answer = connection.getresponse()
            answer.read(ANSWER_MAX)
        except (OSError, http.client.HTTPException) as error:
            return Tried(str(error) or repr(error), True)
        except ValueError:  # its text may have the header
            return Tried("its path or a header of it cannot be sent")
        finally:
            connection.close()
        if 200 <= answer.status < 300:
            return Tried()
        after = answer.headers.get("Retry-After", "")
        after_s = float(after) if after.isdigit() else 0.0
        moved = ", and redirects are not followed" if 300 <= answer.status < 400 else ""
        return Tried(f"it answered {answer.status}{moved}", answer.status in RETRYABLE, after_s)

    return send


def _connection(url: Any, timeout_s: float) -> http.client.HTTPConnection:
    if url.scheme == "https":
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(
            url.hostname, url.port, timeout=timeout_s, context=context
        )
    return http.client.HTTPConnection(url.hostname, url.port, timeout=timeout_s)


def otel_logs(config: OtlpConfig, resource: Mapping[str, Value], version: str) -> Send:
    """Return what sends a change to the collector of metrics as a log record."""
    sender = otlp_sender.logs_sender(config)

    def send(event: AlertEvent) -> Tried:
        records = (log_record(event),)
        request = otlp_encoder.log_request(resource, (SCOPE, version), records, time.time_ns())
        return sender.send(request)

    return send


def log_record(event: AlertEvent) -> EventRecord:
    """Return a change as a record: an event of its own name, with the series' attributes."""
    alert = event.alert
    severity, word = WARN if event.change == "firing" else INFO
    own: dict[str, Value] = {
        **dict(alert.series),
        "stoker.alert.id": alert.id,
        "stoker.alert.rule": alert.rule,
        "stoker.alert.metric": alert.metric,
        "stoker.alert.value": float(alert.value),
        "stoker.alert.dropped": event.dropped,
    }
    return EventRecord(
        event.t_ns,
        f"stoker.alert.{event.change}",
        severity,
        word,
        f"{alert.rule}: {alert.reason}",
        tuple(sorted(own.items())),
    )
