# SPDX-License-Identifier: Apache-2.0
"""OpenTelemetry's environment variables for the export of metrics, over `[otlp]` of config.toml.

Names and meanings: OpenTelemetry specification 1.50, "OTLP exporter configuration" and "SDK
environment variables". Pure. Invariant: a value that is not taken changes nothing and has a
sentence that says why, as the specification wants it; a process's environment never prevents a
node's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from stoker.agent.state.otlp_config import (
    HEADERS_MAX,
    INTERVAL_S_MIN,
    PATH,
    OtlpConfig,
    target,
)
from stoker.native.errors import BadRequest

RESOURCE_MAX = 32
"""The most resource attributes of the environment."""
_ONE = "OTEL_EXPORTER_OTLP_"
_OWN = "OTEL_EXPORTER_OTLP_METRICS_"
EXEMPLAR_FILTERS: Mapping[str, bool] = {
    "always_on": True,
    "trace_based": True,
    "always_off": False,
}
"""A filter -> True if it lets exemplars be. Each belongs to a trace, so two are the same here."""
NOT_TAKEN: Mapping[str, str] = {
    "OTEL_METRIC_EXPORT_TIMEOUT": "each try has a timeout and there are three: see _TIMEOUT",
    "OTEL_EXPORTER_PROMETHEUS_HOST": "the page has an address of its own: stoker up --metrics",
    "OTEL_EXPORTER_PROMETHEUS_PORT": "the page has an address of its own: stoker up --metrics",
    "OTEL_PROPAGATORS": "no context comes with a job",
    "OTEL_ATTRIBUTE_COUNT_LIMIT": "series have the attributes of the table, no others",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": "names have lengths of their own",
    "OTEL_CONFIG_FILE": "config.toml has the settings",
    "OTEL_LOG_LEVEL": "the agent's log is whole",
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "see OTEL_RESOURCE_ATTRIBUTES",
}
"""Variables that have no effect, and why."""

Change = dict[str, Any]


class Variable(NamedTuple):
    """A variable that is taken: its end, whether `_METRICS` may stand before that, and the changes
    of the configuration that follow from a value; ValueError for a wrong one."""

    end: str
    change: Callable[[str], Change]


def _choice(field: str, *allowed: str) -> Callable[[str], Change]:
    def change(text: str) -> Change:
        if text.lower() not in allowed:
            raise ValueError(f"it is one of {', '.join(allowed)}")
        return {field: text.lower()}

    return change


def _milliseconds(field: str, least_s: float) -> Callable[[str], Change]:
    def change(text: str) -> Change:
        if not text.isascii() or not text.isdecimal() or int(text) / 1000 < least_s:
            raise ValueError(f"it is a number of milliseconds, at least {least_s * 1000:g}")
        return {field: int(text) / 1000}

    return change


def _pairs(text: str, most: int) -> dict[str, str]:
    """Return `a=1,b=2`, with values as in a URL, as W3C Baggage has it."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, value = part.partition("=")
        if not sign or not name.strip():
            raise ValueError("it is a list of NAME=VALUE with commas between")
        found[unquote(name.strip())] = unquote(value.strip())
    if len(found) > most:
        raise ValueError(f"it has more than {most} entries")
    return found


def _exponential(text: str) -> Change:
    if text.lower() != "base2_exponential_bucket_histogram":
        raise ValueError("histograms are exponential ones (base2_exponential_bucket_histogram)")
    return {}


def _exemplar_filter(text: str) -> Change:
    if text.lower() not in EXEMPLAR_FILTERS:
        raise ValueError(f"it is one of {', '.join(EXEMPLAR_FILTERS)}")
    return {"exemplars": EXEMPLAR_FILTERS[text.lower()]}


COMMON: tuple[Variable, ...] = (
    Variable("PROTOCOL", _choice("protocol", "http/protobuf", "grpc")),
    Variable("HEADERS", lambda text: {"headers": _pairs(text, HEADERS_MAX)}),
    Variable("TIMEOUT", _milliseconds("timeout_s", 0.001)),
    Variable("COMPRESSION", _choice("compression", "gzip", "none")),
    Variable("CERTIFICATE", lambda text: {"certificate": text}),
    Variable("CLIENT_CERTIFICATE", lambda text: {"client_certificate": text}),
    Variable("CLIENT_KEY", lambda text: {"client_key": text}),
    Variable("INSECURE", lambda text: {"insecure": text.lower() == "true"}),
)
"""Variables of all signals and, with `METRICS_` before their end, of metrics alone: these win."""
SINGLE: Mapping[str, Callable[[str], Change]] = {
    f"{_OWN}TEMPORALITY_PREFERENCE": _choice("temporality", "cumulative", "delta", "lowmemory"),
    f"{_OWN}DEFAULT_HISTOGRAM_AGGREGATION": _exponential,
    "OTEL_METRICS_EXEMPLAR_FILTER": _exemplar_filter,
    "OTEL_METRIC_EXPORT_INTERVAL": _milliseconds("interval_s", INTERVAL_S_MIN),
}
ENDPOINTS = (f"{_ONE}ENDPOINT", f"{_OWN}ENDPOINT")
SWITCHES = ("OTEL_SDK_DISABLED", "OTEL_METRICS_EXPORTER")
RESOURCE = ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME")
TAKEN: tuple[str, ...] = (
    *ENDPOINTS,
    *(start + each.end for each in COMMON for start in (_ONE, _OWN)),
    *SINGLE,
    *SWITCHES,
    *RESOURCE,
)
PASSED = frozenset({*TAKEN, *NOT_TAKEN})
"""Variables that a node passes on to its agent, which takes them or says why not."""


def configured(
    config: OtlpConfig, environment: Mapping[str, str]
) -> tuple[OtlpConfig, tuple[str, ...]]:
    """Return the configuration with the environment over it, and why some values are not taken."""
    changes: Change = {"resource": dict(config.resource)}
    refused: list[str] = []
    for name, change in _changes():
        text = environment.get(name, "").strip()
        try:
            made = change(text) if text else {}
        except ValueError as error:
            refused.append(f"{name} is not taken: {error}")
            continue
        changes |= {**made, "resource": {**changes["resource"], **made.get("resource", {})}}
    refused += [
        f"{name} is not taken: {NOT_TAKEN[name]}" for name in NOT_TAKEN if environment.get(name)
    ]
    if endpoint := _endpoint(environment, changes.get("protocol", config.protocol)):
        changes["endpoint"] = endpoint
    if _is_off(environment, refused):
        changes["endpoint"] = ""
    return _checked(config, msgspec.structs.replace(config, **changes), refused)


def _checked(
    before: OtlpConfig, made: OtlpConfig, refused: list[str]
) -> tuple[OtlpConfig, tuple[str, ...]]:
    """Return the configuration if it is a valid one, else the one that was there before."""
    try:
        if made.endpoint:
            target(made)
    except BadRequest as error:
        return before, (*refused, f"OTEL_EXPORTER_OTLP_* is not taken: {error.message}")
    return made, tuple(refused)


def _changes() -> Iterator[tuple[str, Callable[[str], Change]]]:
    """Yield each variable with its change; those of metrics alone go after those of all signals."""
    for start in (_ONE, _OWN):
        for each in COMMON:
            yield start + each.end, each.change
    yield from SINGLE.items()
    yield RESOURCE[0], _resource
    yield RESOURCE[1], lambda text: {"resource": {"service.name": text}}


def _resource(text: str) -> Change:
    return {"resource": _pairs(text, RESOURCE_MAX)}


def _is_off(environment: Mapping[str, str], refused: list[str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return True
    exporters = [each.strip() for each in environment.get("OTEL_METRICS_EXPORTER", "").split(",")]
    others = [each for each in exporters if each not in ("", "otlp", "none")]
    if others:
        refused.append(f"OTEL_METRICS_EXPORTER is not taken: {others[0]!r} is not otlp or none")
    return "none" in exporters


def _endpoint(environment: Mapping[str, str], protocol: str) -> str:
    """Return the endpoint of the environment: that of metrics as it is, and the one of all signals
    with the path of metrics, which gRPC has not."""
    one, own = (environment.get(name, "").strip() for name in ENDPOINTS)
    if own or not one or protocol == "grpc":
        return own or one
    return one.rstrip("/") + PATH
