# SPDX-License-Identifier: Apache-2.0
"""The agent's reports to the supervisor and its log file: status, signs of life, notes, counters.

Nobody can fill the log from outside: the same line is written once a second at most, and suppressed
lines are counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from stoker.mesh.server import notify
from stoker.native.structured_log import structlog

BEAT_EVERY_S = 5.0
"""Seconds between two signs to the supervisor that the loop runs."""
COUNT_EVERY_S = 60.0
"""Seconds between two log lines of counters that have changed."""
NOTE_EVERY_S = 1.0
NOTES_KEPT = 256

_log = structlog.get_logger("agent")

Counters = Callable[[], Sequence[Mapping[str, int]]]
"""Returns the counters of every part."""


class StatusReporter:
    """The status and notes of one agent."""

    def __init__(self) -> None:
        self._status = ""
        self._ready = False
        self._noted: dict[str, float] = {}
        self.counters: Counter[str] = Counter()

    def status(self, text: str, ready: bool) -> None:
        """Report the agent's state in one line; the first one with `ready` announces readiness."""
        if text == self._status:
            return
        self._status = text
        if ready and not self._ready:
            self._ready = True
            notify.ready(text)
        else:
            notify.status(text)

    def note(self, text: str) -> None:
        """Log a line, unless the same was logged less than a second ago."""
        now_s = time.monotonic()
        if self._noted.get(text, -NOTE_EVERY_S) + NOTE_EVERY_S > now_s:
            self.counters["notes_suppressed"] += 1
            return
        if len(self._noted) >= NOTES_KEPT:
            self._noted.clear()
        self._noted[text] = now_s
        _log.warning(text)

    async def beat(self) -> None:
        """Report for ever that the loop runs."""
        while True:
            notify.alive()
            await asyncio.sleep(BEAT_EVERY_S)

    async def count(self, counters: Counters) -> None:
        """Log for ever the counters of losses, refusals and retries whenever they have changed."""
        before: Counter[str] = Counter()
        while True:
            await asyncio.sleep(COUNT_EVERY_S)
            now: Counter[str] = Counter(self.counters)
            for part in counters():
                now.update(part)
            if now != before:
                _log.info("counters", **{name: count for name, count in now.items() if count})
            before = now
