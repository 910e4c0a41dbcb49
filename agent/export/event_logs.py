# SPDX-License-Identifier: Apache-2.0
"""The events of a cluster as OpenTelemetry's log records, each within the trace of its job.

Pure. Invariant: one event makes one record with one `log.record.uid`, whoever sends it and however
often, so that a backend can drop what it has already. Times are CLOCK_REALTIME ns.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from stoker.probes.otlp import trace_identity
from stoker.probes.otlp.otlp_encoder import EventRecord, Value

SCOPE: Final = "stoker.events"
INFO: Final = (9, "INFO")
WARN: Final = (13, "WARN")
WARNS: Final = frozenset(
    ["failed", "timeout", "lost", "node.evicted", "node.flooded", "device.cordoned", "key.refused"]
)
"""The events that somebody may want to be told of."""
_ATTRIBUTES: Final = (
    ("stoker.job.id", "job"), ("stoker.job.attempt", "attempt"), ("stoker.job.user", "user"),
    ("stoker.node", "node"), ("hw.id", "device"), ("stoker.event.reason", "reason"),
)  # fmt: skip
"""(attribute, field of the event's row); a field that is empty or missing is none."""


class EventLogSource(NamedTuple):
    """The maker of records: the unique id of the cluster, and the share of jobs with a trace."""

    cluster: str
    trace_ratio: float

    def record(self, row: Mapping[str, Any], told_ns: int) -> EventRecord:
        """Return the record of an event; `told_ns` is its time if the row has none."""
        what, job = str(row.get("what", "")), row.get("job")
        severity, word = WARN if what in WARNS else INFO
        time_ns = int(row.get("t_ns") or told_ns)
        trace, span = self._span(job)
        return EventRecord(
            time_ns,
            f"stoker.job.{what}" if job is not None else f"stoker.{what}",
            severity,
            word,
            _sentence(row, what),
            tuple(sorted(self._attributes(row, time_ns, what).items())),
            trace,
            span,
        )

    def _attributes(self, row: Mapping[str, Any], time_ns: int, what: str) -> dict[str, Value]:
        told = ((name, row.get(field)) for name, field in _ATTRIBUTES)
        found = {name: value for name, value in told if value not in ("", None)}
        parts = (self.cluster, time_ns, what, *(row.get(field) for _, field in _ATTRIBUTES))
        uid = blake2b(repr(parts).encode(), digest_size=16, person=b"stoker.event").hexdigest()
        return {**found, "log.record.uid": uid}

    def _span(self, job: int | None) -> tuple[bytes, bytes]:
        """Return the ids of a job's trace and span, empty for a job that has no trace."""
        if job is None:
            return b"", b""
        trace = trace_identity.trace_id(self.cluster, job)
        if not trace_identity.is_sampled(trace, self.trace_ratio):
            return b"", b""
        return trace, trace_identity.job_span(self.cluster, job)


def _sentence(row: Mapping[str, Any], what: str) -> str:
    """Return what happened as `stoker events` says it."""
    who = f" of {row['user']}" if row.get("user") else ""
    about = f"job {row['job']}{who}" if row.get("job") is not None else ""
    parts = (about, row.get("node", ""), row.get("device", ""), what)
    said = " ".join(str(part) for part in parts if part)
    return f"{said}: {row['reason']}" if row.get("reason") else said
