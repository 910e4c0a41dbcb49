# SPDX-License-Identifier: Apache-2.0
"""Counts what streams discarded to make room, apart from what grew old, from figures over time.

Pure. JetStream counts neither. What a full stream loses while its oldest message is young was
discarded. A stream with room has lost only what grew old, however young the next message is.
"""

from __future__ import annotations

from collections import Counter

from stoker.mesh.telemetry.stream_owner import StreamFigures
from stoker.mesh.telemetry.stream_reader import NS, nanoseconds
from stoker.mesh.wire.telemetry_streams import (
    STREAM_AGE_S,
    STREAM_BYTES,
    STREAM_MESSAGE_BYTES,
)

YOUNG_S = STREAM_AGE_S * 0.98
"""The broker removes a message some seconds late; one that is older than this went for its age."""
FULL_BYTES = STREAM_BYTES - 4 * STREAM_MESSAGE_BYTES
"""A stream that discards to make room for its largest message keeps more than this."""


class StreamHistory:
    """The figures of all streams since the start of the process."""

    def __init__(self) -> None:
        self.discarded: Counter[str] = Counter()
        """Messages that went before their time, by kind."""
        self._first: dict[str, int] = {}

    def note(self, kind: str, now: StreamFigures, now_ns: int) -> None:
        """Take new figures of a stream. One that began anew has a smaller first number."""
        self.discarded[kind] += 0
        gone = now.first_seq - self._first.get(kind, 1)
        self._first[kind] = max(now.first_seq, 1)
        if gone <= 0 or not now.messages or now.bytes < FULL_BYTES:
            return
        if (now_ns - nanoseconds(now.first_ts)) / NS < YOUNG_S:
            self.discarded[kind] += gone
