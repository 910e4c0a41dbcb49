# SPDX-License-Identifier: Apache-2.0
"""An OTLP collector on loopback, which keeps what is pushed to it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2


class Collector:
    """Answers with given statuses, then with 200, and records the requests."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.taken: list[Any] = []
        self.headers: list[Any] = []
        self.requests = 0
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector.hear(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def hear(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        data = handler.rfile.read(int(handler.headers["Content-Length"]))
        status = self.answers.pop(0) if self.answers else 200
        if status == 200:
            if handler.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            message = metrics_service_pb2.ExportMetricsServiceRequest()
            message.ParseFromString(data)
            self.taken.append(message)
            self.headers.append((handler.path, dict(handler.headers)))
        handler.send_response(status)
        if status == 301:
            handler.send_header("Location", self.url)
        handler.end_headers()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
