# SPDX-License-Identifier: Apache-2.0
"""Rows of telemetry on their way out, collected into one message for each subject.

Pure. Owns the bounds of what may wait: beyond them the newest rows are dropped, counted for their
subject, and the next message of that subject says how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stoker.mesh.wire import telemetry
from stoker.mesh.wire.telemetry import TelemetryBatch, TelemetryKind
from stoker.mesh.wire.telemetry_streams import STREAM_MESSAGE_BYTES

ROWS_OF_MESSAGE = 128
"""The most rows of one message."""
ROWS_OF_SUBJECT = 4096
"""The most rows that wait for one subject."""
ROWS_MAX = 32_768
"""The most rows that wait for all subjects together."""
SUBJECTS_MAX = 4096
"""The most subjects whose numbers are remembered; beyond that the idle ones begin anew."""


class Topic(NamedTuple):
    """The goal of rows: a subject, their kind, and the user they are about or an empty name."""

    subject: str
    kind: TelemetryKind
    user: str


class _Queue:
    __slots__ = ("dropped", "index", "number", "origin", "rows")

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.rows: list[msgspec.Struct] = []
        self.number = 0
        self.dropped = 0
        self.index = 0


class OutgoingBatches:
    """The rows that wait. `origin` names this process."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._queues: dict[Topic, _Queue] = {}
        self._ready: dict[Topic, _Queue] = {}
        self._begun = 0
        self._rows = 0
        self.dropped = 0
        """Rows that were never sent."""

    def __bool__(self) -> bool:
        return self._rows > 0

    def put(self, topic: Topic, row: msgspec.Struct, index: int) -> None:
        """Add a row that the log's entry `index` states."""
        queue = self._queues.get(topic)
        if queue is None:
            queue = self._begin(topic)
        if len(queue.rows) >= ROWS_OF_SUBJECT or self._rows >= ROWS_MAX:
            queue.dropped += 1
            self.dropped += 1
            return
        queue.rows.append(row)
        queue.index = index
        self._rows += 1
        self._ready[topic] = queue

    def take(self) -> Iterator[tuple[str, bytes]]:
        """Yield (subject, message) for all rows that wait, and forget them."""
        ready, self._ready, self._rows = self._ready, {}, 0
        for topic, queue in ready.items():
            rows, queue.rows = queue.rows, []
            for first in range(0, len(rows), ROWS_OF_MESSAGE):
                yield from self._messages(topic, queue, rows[first : first + ROWS_OF_MESSAGE])

    def lose(self) -> None:
        """Count a message that `take` gave and that could not be sent; its number is missing."""
        self.dropped += 1

    def _begin(self, topic: Topic) -> _Queue:
        """Begin to number a subject; an idle one that was forgotten has another origin then."""
        if len(self._queues) >= SUBJECTS_MAX:
            self._queues = dict(self._ready)
        self._begun += 1
        queue = self._queues[topic] = _Queue(f"{self._origin}-{self._begun:x}")
        return queue

    def _messages(
        self, topic: Topic, queue: _Queue, rows: list[msgspec.Struct]
    ) -> Iterator[tuple[str, bytes]]:
        """Yield one message, or several smaller ones where one would be too large."""
        batch = TelemetryBatch(
            kind=topic.kind,
            user=topic.user,
            origin=queue.origin,
            number=queue.number,
            dropped=queue.dropped,
            index=queue.index,
            rows=rows,
        )
        data = telemetry.encode(batch)
        if len(data) <= STREAM_MESSAGE_BYTES // 2:
            queue.number += 1
            yield topic.subject, data
        elif len(rows) > 1:
            half = len(rows) // 2
            yield from self._messages(topic, queue, rows[:half])
            yield from self._messages(topic, queue, rows[half:])
        else:
            queue.dropped += 1
            self.dropped += 1
