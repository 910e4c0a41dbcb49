# SPDX-License-Identifier: Apache-2.0
"""One try to give an encoded request to a collector, over HTTP or gRPC.

The exporter retries. Invariant: a try ends within the timeout of the configuration, follows no
redirect and raises nothing; its failure is a sentence without a secret of the headers.
"""

from __future__ import annotations

import gzip
import http.client
import ssl
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from stoker.agent.state.otlp_config import PATH, OtlpConfig, target

RETRYABLE = frozenset({429, 502, 503, 504})
"""Statuses of a collector after which a retry may succeed (OTLP specification)."""
RETRYABLE_CODES = frozenset(
    {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}
)
"""Codes of gRPC after which a retry may succeed (OTLP specification)."""
METHOD = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
LOGS_METHOD = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
LOGS_PATH = "/v1/logs"
TRACES_METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


class Tried(NamedTuple):
    """The end of a try: the failure or "", whether a retry may help, and from when on."""

    why: str = ""
    retry: bool = False
    after_s: float = 0.0


class OtlpSender(Protocol):
    """The way to one collector."""

    def send(self, body: bytes) -> Tried:
        """Try once to send a request, as bytes."""

    def close(self) -> None:
        """Give up the connection."""


def sender(config: OtlpConfig, method: str = METHOD, path: str = "") -> OtlpSender:
    """Return the sender that the configuration wants, to a method of gRPC or a path of HTTP: those
    of metrics, or others. gRPC's code is loaded for it alone."""
    if config.protocol == "grpc":
        return GrpcSender(config, method)
    return HttpSender(config, path or target(config).path)


def logs_sender(config: OtlpConfig) -> OtlpSender:
    """Return the sender of log records to the collector of metrics."""
    return sender(config, LOGS_METHOD, target(config).path.removesuffix(PATH) + LOGS_PATH)


class HttpSender:
    """OTLP over HTTP, a connection for each request."""

    def __init__(self, config: OtlpConfig, path: str) -> None:
        self._config, self._path = config, path
        self._url = target(config)

    def send(self, body: bytes) -> Tried:
        headers = {"Content-Type": "application/x-protobuf", **self._config.headers}
        if self._config.compression == "gzip":
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, compresslevel=1)
        connection: http.client.HTTPConnection | None = None
        try:
            connection = self._connect()
            connection.request("POST", self._path, body, headers)
            answer = connection.getresponse()
            answer.read(4096)
            if 200 <= answer.status < 300:
                return Tried()
            after = answer.headers.get("Retry-After", "")
            after_s = float(after) if after.isdigit() else 0.0
            return Tried(f"it answered {answer.status}", answer.status in RETRYABLE, after_s)
        except (OSError, http.client.HTTPException) as error:
            return Tried(str(error) or repr(error), True)
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    def _connect(self) -> http.client.HTTPConnection:
        host, port, timeout_s = self._url.hostname, self._url.port, self._config.timeout_s
        assert host is not None
        if self._url.scheme == "https":
            context = ssl.create_default_context(cafile=self._config.certificate or None)
            if self._config.client_certificate:
                context.load_cert_chain(self._config.client_certificate, self._config.client_key)
            return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout_s)


class GrpcSender:
    """OTLP over gRPC. The request is bytes already, so no message classes are needed."""

    def __init__(self, config: OtlpConfig, method: str = METHOD) -> None:
        import grpc

        self._method = method

        self._grpc: Any = grpc
        self._config = config
        self._metadata = tuple((name.lower(), value) for name, value in config.headers.items())
        packed = config.compression == "gzip"
        self._compression = grpc.Compression.Gzip if packed else grpc.Compression.NoCompression
        self._channel: Any = None

    def send(self, body: bytes) -> Tried:
        try:
            if self._channel is None:
                self._channel = self._open()
            call = self._channel.unary_unary(self._method)
            call(
                body,
                timeout=self._config.timeout_s,
                metadata=self._metadata,
                compression=self._compression,
            )
        except self._grpc.RpcError as error:
            code, details = error.code().name, error.details()
            return Tried(f"{code}: {details}", code in RETRYABLE_CODES)
        except (OSError, ValueError) as error:
            return Tried(str(error) or repr(error))
        return Tried()

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _open(self) -> Any:
        url = target(self._config)
        where = f"{url.hostname}:{url.port or 4317}"
        if url.scheme == "http":
            return self._grpc.insecure_channel(where)
        files = (self._config.certificate, self._config.client_key, self._config.client_certificate)
        read = [Path(name).read_bytes() if name else None for name in files]
        return self._grpc.secure_channel(where, self._grpc.ssl_channel_credentials(*read))
