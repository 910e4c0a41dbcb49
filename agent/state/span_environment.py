# SPDX-License-Identifier: Apache-2.0
"""The destination of spans, from `[otlp]` of config.toml and from OpenTelemetry's variables.

Names and meanings: OpenTelemetry specification 1.50, as in `otlp_environment.py`. Pure. Invariant:
a value that is not taken changes nothing and has a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stoker.agent.state.otlp_config import PATH, OtlpConfig, target
from stoker.agent.state.otlp_environment import COMMON, ENDPOINTS, Change
from stoker.native.errors import BadRequest

TRACES_PATH = "/v1/traces"
_ONE = "OTEL_EXPORTER_OTLP_"
_OWN = "OTEL_EXPORTER_OTLP_TRACES_"
EXPORTER = "OTEL_TRACES_EXPORTER"
SAMPLER, ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_BATCHES = "ended jobs wait in telemetry, and 64 of them go in one request"
TAKEN: tuple[str, ...] = (
    f"{_OWN}ENDPOINT",
    *(_OWN + each.end for each in COMMON),
    EXPORTER,
    SAMPLER,
    ARGUMENT,
)
NOT_TAKEN: Mapping[str, str] = {
    "OTEL_BSP_SCHEDULE_DELAY": _BATCHES,
    "OTEL_BSP_EXPORT_TIMEOUT": "each try has a timeout: see _TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE": _BATCHES,
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": _BATCHES,
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "spans have the attributes of the table, no others",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": "names and reasons have lengths of their own",
    "OTEL_SPAN_EVENT_COUNT_LIMIT": "spans have no events",
    "OTEL_SPAN_LINK_COUNT_LIMIT": "a job has links to 32 that it followed at most",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": "spans have no events",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT": "a link has one attribute",
}
"""Variables that have no effect, and why."""
SAMPLERS: Mapping[str, float | None] = {
    "always_on": 1.0,
    "always_off": 0.0,
    "traceidratio": None,
    "parentbased_always_on": 1.0,
    "parentbased_always_off": 0.0,
    "parentbased_traceidratio": None,
}
"""A sampler -> the share of jobs that have a trace; None: as its argument says."""


class SpanTarget(NamedTuple):
    """The destination: a collector, the path of its traces, and the share of jobs."""

    config: OtlpConfig
    path: str
    ratio: float


def span_target(
    file: OtlpConfig, environment: Mapping[str, str]
) -> tuple[SpanTarget | None, tuple[str, ...]]:
    """Return the destination of spans, None if there is none, and why some values are not taken."""
    refused = [
        f"{name} is not taken: {why}" for name, why in NOT_TAKEN.items() if name in environment
    ]
    changes = _changes(environment, refused)
    config = msgspec.structs.replace(file, **changes)
    ratio = _ratio(file.trace_ratio, environment, refused)
    config, path = _endpoint(config, environment)
    if not config.endpoint or not ratio or _is_off(environment, refused):
        return None, tuple(refused)
    try:
        found = target(config).path
    except BadRequest as error:
        return None, (*refused, f"traces are not exported: {error.message}")
    return SpanTarget(config, path or found.removesuffix(PATH) + TRACES_PATH, ratio), tuple(refused)


def _changes(environment: Mapping[str, str], refused: list[str]) -> Change:
    """Return what variables of all signals and of traces change; those of all signals are judged
    where metrics are configured."""
    changes: Change = {}
    for start in (_ONE, _OWN):
        for each in COMMON:
            text = environment.get(start + each.end, "").strip()
            try:
                changes |= each.change(text) if text else {}
            except ValueError as error:
                if start == _OWN:
                    refused.append(f"{start + each.end} is not taken: {error}")
    return changes


def _endpoint(config: OtlpConfig, environment: Mapping[str, str]) -> tuple[OtlpConfig, str]:
    """Return the configuration with its endpoint, and the path if the endpoint's own is taken as it
    is."""
    own = environment.get(f"{_OWN}ENDPOINT", "").strip()
    one = environment.get(ENDPOINTS[0], "").strip()
    made = msgspec.structs.replace(config, endpoint=own or one or config.endpoint)
    if not own or config.protocol == "grpc":
        return made, ""
    try:
        path = target(made).path
    except BadRequest:
        return made, ""
    return made, "/" if path == PATH and not own.endswith(PATH) else path


def _ratio(ratio: float, environment: Mapping[str, str], refused: list[str]) -> float:
    name = environment.get(SAMPLER, "").strip().lower()
    if not name:
        return ratio
    if name not in SAMPLERS:
        refused.append(f"{SAMPLER} is not taken: it is one of {', '.join(SAMPLERS)}")
        return ratio
    made = SAMPLERS[name]
    if made is not None:
        return made
    try:
        asked = float(environment.get(ARGUMENT, "").strip() or 1.0)
        if not 0 <= asked <= 1:
            raise ValueError
    except ValueError:
        refused.append(f"{ARGUMENT} is not taken: it is a number from 0 to 1")
        return ratio
    return asked


def _is_off(environment: Mapping[str, str], refused: list[str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return True
    names = [each.strip() for each in environment.get(EXPORTER, "").split(",")]
    others = [each for each in names if each not in ("", "otlp", "none")]
    if others:
        refused.append(f"{EXPORTER} is not taken: {others[0]!r} is not otlp or none")
    return "none" in names
