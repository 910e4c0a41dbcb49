# SPDX-License-Identifier: Apache-2.0
"""The messages of telemetry that the scheduler publishes, and of kernel summaries: JSON for anyone.

Owns what a subscriber learns of losses: `number` grows by one in each subject from a publisher's
`origin` on, so a jump is messages that were lost; `dropped` counts rows that were never sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from stoker.mesh.wire.schema_cluster import VERSION
from stoker.native.errors import BadRequest

TelemetryKind = Literal["observations", "kernels", "decisions", "outcomes", "events", "alerts"]


class GivenShare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a device that a decision gives."""

    device: str
    milli: int


class DecisionRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The place of one task of a job and why; `observations` are the ids that were read for it."""

    id: int
    t_ns: int
    job: int
    attempt: int
    task: int = 0
    node: str
    devices: tuple[GivenShare, ...] = ()
    reason: str
    latency_ns: int
    observations: tuple[int, ...] = ()


class OutcomeRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a command at its node, as the log has it; `decision` is that of the attempt."""

    t_ns: int
    job: int
    attempt: int
    task: int = 0
    decision: int
    state: str
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    started_ns: int | None = None
    device_ns: int | None = None
    cpu_ns: int | None = None
    memory_peak_bytes: int | None = None


class ChangeRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change: of a job (`job`, and `state` is its new one), or of the cluster (`node`,
    `device`)."""

    t_ns: int
    what: str
    job: int | None = None
    attempt: int | None = None
    node: str = ""
    device: str = ""
    reason: str = ""


class TelemetryBatch(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the scheduler: rows of one kind about one user's jobs, or the cluster."""

    schema: str = VERSION
    kind: TelemetryKind
    user: str
    """Empty for what belongs to no user."""
    origin: str
    """The process that numbers the messages; another one begins at 0."""
    number: int
    dropped: int
    """Rows of this subject that this process dropped so far, since its queue was full."""
    index: int
    """The newest entry of the log that the rows are of."""
    rows: Sequence[Any]


_encoder = msgspec.json.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Encode one message."""
    return _encoder.encode(message)


def decode_batch(data: bytes) -> TelemetryBatch:
    """Decode a message of the scheduler, with its rows as plain objects."""
    try:
        return _batches.decode(data)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"not a batch of telemetry: {error}") from None


_batches = msgspec.json.Decoder(TelemetryBatch)
