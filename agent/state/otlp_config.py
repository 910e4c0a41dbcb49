# SPDX-License-Identifier: Apache-2.0
"""The destination of metrics, from `[otlp]` of config.toml.

An invalid destination is refused at the start by name.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import SplitResult, urlsplit

import msgspec

from stoker.native.errors import BadRequest
from stoker.probes.otlp import metric_names

PATH = "/v1/metrics"
INTERVAL_S_MIN = 0.1
HEADERS_MAX = 16


class OtlpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[otlp]` of config.toml. With an empty endpoint nothing is exported."""

    endpoint: str = ""
    """`http://collector:4318` or https; a missing path becomes `/v1/metrics`."""
    interval_s: float = 10.0
    temporality: Literal["cumulative", "delta"] = "cumulative"
    compression: Literal["none", "gzip"] = "gzip"
    headers: dict[str, str] = {}


def resource(cluster: str, node: str) -> dict[str, str]:
    """Return the attributes of everything that this node pushes."""
    return {
        "host.name": node,
        "service.name": "stoker-agent",
        "service.instance.id": f"{cluster}/{node}",
        "stoker.metrics.version": metric_names.VERSION,
    }


def target(config: OtlpConfig) -> SplitResult:
    """Return the URL to push to; BadRequest if it is invalid."""
    url = urlsplit(config.endpoint)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise BadRequest(f"otlp.endpoint {config.endpoint!r} is not http(s)://host:port")
    if config.interval_s < INTERVAL_S_MIN:
        raise BadRequest(f"otlp.interval_s is {config.interval_s:g}, at least {INTERVAL_S_MIN:g}")
    if len(config.headers) > HEADERS_MAX:
        raise BadRequest(f"otlp.headers has more than {HEADERS_MAX} entries")
    path = url.path.rstrip("/")
    return url._replace(path=path or PATH)
