# SPDX-License-Identifier: Apache-2.0
"""The destination of spans, from `[otlp]` of config.toml and from OpenTelemetry's variables.

Pure. Invariant: a value that is not taken changes nothing and has a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stoker.agent.state import signal_environment
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.signal_environment import OtlpSignal

TRACES = OtlpSignal("TRACES", "traces", "/v1/traces")
SAMPLER, ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_BATCHES = "ended jobs wait in telemetry, and 64 of them go in one request"
_OTLP = "traces are sent by OTLP alone"
TAKEN: tuple[str, ...] = (*TRACES.taken, SAMPLER, ARGUMENT)
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
    "OTEL_EXPORTER_ZIPKIN_ENDPOINT": _OTLP,
    "OTEL_EXPORTER_ZIPKIN_TIMEOUT": _OTLP,
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
    ratio = _ratio(file.trace_ratio, environment, refused)
    found = signal_environment.destination(TRACES, file, environment, refused)
    wanted = signal_environment.chosen(TRACES, environment, refused, usual=True)
    if found is None or not ratio or not wanted:
        return None, tuple(refused)
    return SpanTarget(found.config, found.path, ratio), tuple(refused)


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
