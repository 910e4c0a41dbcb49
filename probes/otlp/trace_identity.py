# SPDX-License-Identifier: Apache-2.0
"""The ids of the trace of a job and of its spans, which everyone can compute who knows the job.

Pure. The exporter of spans and every node's exemplars rely on it: they name the same span, and no
message carries ids. Invariant: ids depend on what they name alone, so a span that is sent again
after a crash is the same span. The ids have the form of W3C Trace Context: 16 and 8 bytes.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8
KEPT: Final = 1024
"""The most ids that are kept: those of an export are mostly those of the last."""


def trace_id(cluster: str, job: int) -> bytes:
    """Return the id of a job's trace. `cluster` is the unique id of its cluster."""
    return _digest(TRACE_BYTES, cluster, "job", job)


def job_span(cluster: str, job: int) -> bytes:
    """Return the id of the span of a whole job, which has no parent."""
    return _digest(SPAN_BYTES, cluster, "job", job)


def attempt_span(cluster: str, job: int, attempt: int, task: int) -> bytes:
    """Return the id of the span of one attempt of one task."""
    return _digest(SPAN_BYTES, cluster, f"attempt/{job}/{attempt}", task)


def decision_span(cluster: str, job: int, attempt: int, task: int) -> bytes:
    """Return the id of the span of the decision that placed an attempt."""
    return _digest(SPAN_BYTES, cluster, f"decision/{job}/{attempt}", task)


def phase_span(parent: bytes, phase: str, from_ns: int) -> bytes:
    """Return the id of the span of a phase of a job or attempt, which may have several of it."""
    return _digest(SPAN_BYTES, parent.hex(), phase, from_ns)


def is_sampled(trace: bytes, ratio: float) -> bool:
    """True if a trace is among the share `ratio` of all; OpenTelemetry's TraceIdRatioBased says the
    same of it."""
    return int.from_bytes(trace[8:], "big") < round(ratio * (1 << 64))


@lru_cache(maxsize=KEPT)
def _digest(size: int, whole: str, kind: str, number: int) -> bytes:
    """Return a digest that is not zero, as no valid id is."""
    made = blake2b(f"{whole}/{kind}/{number}".encode(), digest_size=size, person=b"stoker.trace")
    return made.digest() if any(made.digest()) else b"\x01" * size
