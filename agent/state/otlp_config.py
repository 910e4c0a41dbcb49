# SPDX-License-Identifier: Apache-2.0
"""The destination of metrics, from `[otlp]` of config.toml and from OpenTelemetry's variables.

An invalid destination is refused at the start by name.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from stoker.native.errors import BadRequest
from stoker.native.setting import mark, shown_url
from stoker.probes.otlp import metric_names

PATH = "/v1/metrics"
INTERVAL_S_MIN = 0.1
HEADERS_MAX = 16
TIMEOUT_S_MAX = 60.0
_HEADER_NAME = re.compile(r"[0-9A-Za-z!#$%&'*+.^_`|~-]+")
"""A token of RFC 9110, section 5.6.2."""


class OtlpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[otlp]` of config.toml. With an empty endpoint nothing is exported."""

    endpoint: str = ""
    """`http://collector:4318` or https; a missing path becomes `/v1/metrics`."""
    interval_s: float = 10.0
    """Seconds between two exports."""
    temporality: Literal["cumulative", "delta", "lowmemory"] = "cumulative"
    """Points tell the sum since the start, or what was added since the last export; with
    `lowmemory` only those of histograms do the latter."""
    compression: Literal["none", "gzip"] = "gzip"
    """Compression of what is sent."""
    headers: Annotated[dict[str, str], mark(secret=True)] = {}
    """Headers of each request, such as those that let it in."""
    protocol: Literal["http/protobuf", "grpc"] = "http/protobuf"
    """The protocol of the collector; gRPC needs stoker[grpc]."""
    timeout_s: float = 5.0
    """Seconds for one try."""
    certificate: str = ""
    """A file with the certificates that a collector's may be signed by; empty: the system's."""
    client_certificate: str = ""
    """A file with the certificate that the agent shows."""
    client_key: str = ""
    """A file with that certificate's key."""
    insecure: bool = False
    """True: there is no TLS, where the endpoint of a gRPC collector has no scheme."""
    resource: dict[str, str] = {}
    """More resource attributes; they go before the node's own."""
    trace_ratio: float = 1.0
    """The share of jobs whose traces are sent, by the leader's node; 0: none."""
    events: bool = False
    """Each event of the cluster is a log record, sent by the leader's node."""
    exemplars: bool = True
    """Each kernel's durations name its slowest launch of late, and the span of that attempt."""


def resource(cluster: str, node: str, more: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes of everything that this node tells."""
    return {
        "host.name": node,
        "service.name": "stoker-agent",
        "service.instance.id": f"{cluster}/{node}",
        **more,
        "stoker.metrics.version": metric_names.VERSION,
    }


def target(config: OtlpConfig) -> SplitResult:
    """Return the URL to push to; BadRequest if it is invalid."""
    text = config.endpoint
    if config.protocol == "grpc":
        if importlib.util.find_spec("grpc") is None:
            raise BadRequest(
                "otlp.protocol is grpc, and grpcio is not installed",
                hint="pip install 'stoker[grpc]', or take http/protobuf",
            )
        if "://" not in text:
            text = f"{'http' if config.insecure else 'https'}://{text}"
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise BadRequest(f"otlp.endpoint {shown_url(text)!r} is not http(s)://host:port")
    if config.interval_s < INTERVAL_S_MIN:
        raise BadRequest(f"otlp.interval_s is {config.interval_s:g}, at least {INTERVAL_S_MIN:g}")
    if not 0 <= config.trace_ratio <= 1:
        raise BadRequest(f"otlp.trace_ratio is {config.trace_ratio:g}, from 0 to 1")
    if not 0 < config.timeout_s <= TIMEOUT_S_MAX:
        raise BadRequest(f"otlp.timeout_s is {config.timeout_s:g}, more than 0 and at most 60")
    if bool(config.client_certificate) != bool(config.client_key):
        raise BadRequest("otlp.client_certificate and otlp.client_key belong together")
    if len(config.headers) > HEADERS_MAX:
        raise BadRequest(f"otlp.headers has more than {HEADERS_MAX} entries")
    for name, value in config.headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise BadRequest(f"otlp.headers: {name!r} is no name of a header")
        if not value.isprintable() or not value.isascii():  # the value may be a secret
            raise BadRequest(
                f"otlp.headers: the value of {name} has a character that none may have"
            )
    path = url.path.rstrip("/")
    return url._replace(path=path or PATH)
