# SPDX-License-Identifier: Apache-2.0
"""Reads kept telemetry of one kind from where it was left: for the live view, `events`, recordings.

Owns the cursor: nothing is told twice, and what may be missing is told as such.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema_telemetry
from stoker.mesh.wire.telemetry import TelemetryKind


class Told(NamedTuple):
    """One row of a kept message, or with `lost` what may be missing before the next one."""

    t_ns: int
    kind: TelemetryKind
    row: dict[str, Any]
    lost: str = ""


class LastRead(NamedTuple):
    """The last message that was read of a kind: its number in the stream, and its time."""

    seq: int
    t_ns: int


class KindReader:
    """The reading of one kind: its cursor, and the messages that were read and not yet told."""

    def __init__(
        self, kind: TelemetryKind, since_s: float, position: LastRead | None = None
    ) -> None:
        """It reads on from `position`, or without one it looks `since_s` seconds back."""
        self.kind = kind
        self._since_s = since_s
        self.position = position
        """The last message that was read; a later reader can go on from it."""
        self._numbers: dict[tuple[str, str], tuple[int, int]] = {}
        self.told: deque[Told] = deque()
        self.more = True
        """True if the next reading finds something at once."""

    async def read(self, client: Client) -> None:
        """Read one page."""
        after = self.position
        view = await client.telemetry(
            schema_telemetry.TelemetryReadRequest(
                kind=self.kind,
                since_s=self._since_s,
                after=after.seq if after is not None else None,
                after_t_ns=after.t_ns if after is not None else 0,
            )
        )
        if view.gap:
            why = "messages may be gone: the broker discarded them, or began anew"
            self.told.append(Told(view.messages[0].t_ns, self.kind, {}, why))
        for message in view.messages:
            self.position = LastRead(message.seq, message.t_ns)
            self.told += self._told(message)
        self.more = view.more

    def _told(self, message: schema_telemetry.TelemetryMessage) -> Iterator[Told]:
        data = message.data if isinstance(message.data, dict) else {"data": message.data}
        lost = self._lost(message.subject, data)
        if lost:
            yield Told(message.t_ns, self.kind, {}, lost)
        if "rows" not in data:
            yield Told(message.t_ns, self.kind, data)
            return
        for row in data["rows"]:
            about = {"user": data["user"]} if data["user"] else {}
            yield Told(message.t_ns, self.kind, {**about, **row})

    def _lost(self, subject: str, data: dict[str, Any]) -> str:
        """Return what the publisher's numbers say of losses; empty for none."""
        if "number" not in data:
            return ""
        origin = str(data.get("origin", (data.get("attempt"), data.get("task"))))
        number, dropped = data["number"], data.get("dropped", data.get("left_out", 0))
        known = self._numbers.get((subject, origin))
        self._numbers[subject, origin] = number, dropped
        if known is None:
            return ""
        parts = []
        if number - known[0] > 1:
            parts.append(f"{number - known[0] - 1} messages lost")
        if dropped > known[1]:
            parts.append(f"{dropped - known[1]} dropped before they were sent")
        return ", ".join(parts)
