# SPDX-License-Identifier: Apache-2.0
"""The public messages about telemetry that is kept for some minutes: its kinds and their reading.

Owns the cursor of a reader: `after` and `after_t_ns` of the last message that it had.
"""

from __future__ import annotations

from typing import Any

from stoker.mesh.wire.schema_cluster import Int, Message, Part, ReplyMessage
from stoker.mesh.wire.telemetry import TelemetryKind

MESSAGES_MAX = 500
"""The most messages of one TelemetryView."""


class TelemetryRequest(Message, frozen=True):
    """`telemetry.list`: the kinds of telemetry that are kept, their bounds and what they hold."""


class TelemetryReadRequest(Message, frozen=True):
    """`telemetry.read`: kept messages of one kind, oldest first; users read those about their own
    jobs, administrators read all.

    Without `after`, reading begins `since_s` ago. With it, it goes on behind that message.
    """

    kind: TelemetryKind
    since_s: float = 600.0
    after: Int | None = None
    after_t_ns: Int = 0
    limit: Int = 100


class TelemetryMessage(Part, frozen=True):
    """One kept message; `data` is what was published. Of an observation, its fields by name."""

    seq: int
    t_ns: int
    subject: str
    data: Any


class TelemetryView(ReplyMessage, frozen=True):
    """The messages that were found. `more`: the next reading finds more at once."""

    kind: TelemetryKind
    messages: tuple[TelemetryMessage, ...] = ()
    more: bool = False
    gap: bool = False
    """True if messages between `after` and these may be gone: discarded, or kept anew since the
    broker began again."""


class TelemetryStreamView(Part, frozen=True):
    """One kind of telemetry. Figures are null where nothing is kept, for the reason in `why`."""

    kind: TelemetryKind
    subject: str
    """The subject on which it is live, for whoever may hear all of it."""
    stream: str
    max_bytes: int
    max_age_s: int
    messages: int | None = None
    bytes: int | None = None
    oldest_t_ns: int | None = None
    discarded: int | None = None
    """Messages that had to go before their time, to make room, since this scheduler watches."""
    why: str = ""


class TelemetryList(ReplyMessage, frozen=True):
    """All kinds. `dropped`: rows that the scheduler could not publish."""

    streams: tuple[TelemetryStreamView, ...]
    dropped: int = 0
