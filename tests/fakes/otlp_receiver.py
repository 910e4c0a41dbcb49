# SPDX-License-Identifier: Apache-2.0
"""A collector in a process of its own, over HTTP and gRPC, that imports nothing of the product.

`python otlp_receiver.py FILE [REFUSALS]` prints its two ports, answers the first REFUSALS requests
that it is busy, and appends a line of JSON to FILE for each request that it takes.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.metrics.v1 import (
    metrics_service_pb2,
    metrics_service_pb2_grpc,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

FILE = Path(sys.argv[1])
LEFT = [int(sys.argv[2]) if len(sys.argv) > 2 else 0]
LOCK = threading.Lock()


def busy() -> bool:
    with LOCK:
        LEFT[0] -= 1
        return LEFT[0] >= 0


def keep(message: Any, way: str, headers: dict[str, str]) -> None:
    told = {"way": way, "headers": headers, "request": MessageToDict(message)}
    with LOCK, FILE.open("a") as file:
        file.write(json.dumps(told) + "\n")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        refused = busy()
        if not refused:
            if self.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            traces = self.path.endswith("/v1/traces")
            message = (
                trace_service_pb2.ExportTraceServiceRequest()
                if traces
                else metrics_service_pb2.ExportMetricsServiceRequest()
            )
            message.ParseFromString(data)
            headers = {name.lower(): value for name, value in self.headers.items()}
            keep(message, self.path, headers)
        self.send_response(503 if refused else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


class Service(metrics_service_pb2_grpc.MetricsServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        if busy():
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        keep(request, "grpc", dict(context.invocation_metadata()))
        return metrics_service_pb2.ExportMetricsServiceResponse()


class Traces(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request: Any, context: Any) -> Any:
        if busy():
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        keep(request, "grpc", dict(context.invocation_metadata()))
        return trace_service_pb2.ExportTraceServiceResponse()


def main() -> None:
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = grpc.server(ThreadPoolExecutor(2))
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Service(), server)
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(http.server_port, port, flush=True)
    http.serve_forever()


if __name__ == "__main__":
    assert not [name for name in sys.modules if name.partition(".")[0] == "stoker"]
    main()
