# SPDX-License-Identifier: Apache-2.0
"""What the agent says of itself to the supervisor and to its log: status, beat, notes, counters.

Owns the rule that nobody can fill the log from outside: one line is written once a second at most,
and what is left out is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import structlog

from stoker.mesh.server import notify

BEAT_EVERY_S = 5.0
"""How often the supervisor hears that the loop still turns."""
COUNT_EVERY_S = 60.0
"""How often counters that changed are logged."""
NOTE_EVERY_S = 1.0
NOTES_KEPT = 256

_log = structlog.get_logger("agent")

Counters = Callable[[], Sequence[Mapping[str, int]]]
"""Every part's counters."""


class StatusReporter:
    """Status and notes of one agent."""

    def __init__(self) -> None:
        self._status = ""
        self._ready = False
        self._noted: dict[str, float] = {}
        self.counters: Counter[str] = Counter()

    def status(self, text: str, ready: bool) -> None:
        """The agent's state in one line; the first one with `ready` says that it serves."""
        if text == self._status:
            return
        self._status = text
        if ready and not self._ready:
            self._ready = True
            notify.ready(text)
        else:
            notify.status(text)

    def note(self, text: str) -> None:
        """A line for the log, unless it was written less than a second ago."""
        now_s = time.monotonic()
        if self._noted.get(text, -NOTE_EVERY_S) + NOTE_EVERY_S > now_s:
            self.counters["notes_suppressed"] += 1
            return
        if len(self._noted) >= NOTES_KEPT:
            self._noted.clear()
        self._noted[text] = now_s
        _log.warning(text)

    async def beat(self) -> None:
        """For ever: the loop still turns."""
        while True:
            notify.alive()
            await asyncio.sleep(BEAT_EVERY_S)

    async def count(self, counters: Counters) -> None:
        """For ever: losses, refusals and retries by name, whenever they grew."""
        before: Counter[str] = Counter()
        while True:
            await asyncio.sleep(COUNT_EVERY_S)
            now: Counter[str] = Counter(self.counters)
            for part in counters():
                now.update(part)
            if now != before:
                _log.info("counters", **{name: count for name, count in now.items() if count})
            before = now
