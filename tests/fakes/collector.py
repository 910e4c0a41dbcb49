# SPDX-License-Identifier: Apache-2.0
"""An OTLP collector on loopback, which keeps the metrics, spans and log records that it gets."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import Any

from fakes.post_server import PostServer, body_of
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2


class Collector(PostServer):
    """Answers with given statuses, then with 200, and records the requests."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.taken: list[Any] = []
        self.spans: list[Any] = []
        self.logs: list[Any] = []
        self.headers: list[Any] = []
        self.requests = 0
        super().__init__()

    def hear(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        data = body_of(handler)
        status = self.answers.pop(0) if self.answers else 200
        if status == 200 and handler.path == "/v1/traces":
            traces = trace_service_pb2.ExportTraceServiceRequest()
            traces.ParseFromString(data)
            for resource in traces.resource_spans:
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        elif status == 200 and handler.path == "/v1/logs":
            logs = logs_service_pb2.ExportLogsServiceRequest()
            logs.ParseFromString(data)
            for each in logs.resource_logs:
                self.logs += [record for scope in each.scope_logs for record in scope.log_records]
        elif status == 200:
            message = metrics_service_pb2.ExportMetricsServiceRequest()
            message.ParseFromString(data)
            self.taken.append(message)
            self.headers.append((handler.path, dict(handler.headers)))
        handler.send_response(status)
        if status == 301:
            handler.send_header("Location", self.url)
        handler.end_headers()
