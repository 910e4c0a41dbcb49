# SPDX-License-Identifier: Apache-2.0
"""The destination of events as log records, from `[otlp]` and from OpenTelemetry's variables.

Pure. Invariant: a value that is not taken changes nothing and has a sentence that says why.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.agent.state import signal_environment
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.signal_environment import Destination, OtlpSignal

LOGS = OtlpSignal("LOGS", "events", "/v1/logs")
_BATCHES = "events wait in telemetry, and 512 of them go in one request"
TAKEN: tuple[str, ...] = LOGS.taken
NOT_TAKEN: Mapping[str, str] = {
    "OTEL_BLRP_SCHEDULE_DELAY": _BATCHES,
    "OTEL_BLRP_EXPORT_TIMEOUT": "each try has a timeout: see _TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE": _BATCHES,
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE": _BATCHES,
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT": "records have the attributes of the table, no others",
    "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT": "names and reasons have lengths of their own",
}
"""Variables that have no effect, and why."""


def event_log_target(
    file: OtlpConfig, environment: Mapping[str, str]
) -> tuple[Destination | None, tuple[str, ...]]:
    """Return the destination of events, None if there is none, and why some values are not
    taken."""
    refused = [
        f"{name} is not taken: {why}" for name, why in NOT_TAKEN.items() if name in environment
    ]
    found = signal_environment.destination(LOGS, file, environment, refused)
    wanted = signal_environment.chosen(LOGS, environment, refused, usual=file.events)
    return found if wanted else None, tuple(refused)
