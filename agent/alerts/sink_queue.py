# SPDX-License-Identifier: Apache-2.0
"""One way by which changes of alerts leave the node: a bounded queue, a thread, and tries.

Invariant: whoever does not take a change delays nobody but itself, every change that it never took
is counted, and the next one says how many these were.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable

import msgspec

from stoker.agent.alerts.alert import AlertEvent
from stoker.agent.export.otlp_sender import Tried
from stoker.native.structured_log import structlog

WAITING_MAX = 256
"""The most changes that wait for one sink; beyond it the oldest is lost."""
TRIES = 4
PAUSE_S, PAUSE_MAX_S = 0.5, 5.0
"""Seconds before the second try, doubled each time, and the longest, Retry-After included."""

_log = structlog.get_logger("alerts")


class SinkQueue:
    """The queue of one sink. `send` tries once; it runs in this sink's own thread. Changes that it
    does not `want` pass it by."""

    def __init__(
        self,
        name: str,
        send: Callable[[AlertEvent], Tried],
        wants: Callable[[AlertEvent], bool] = lambda event: True,
    ) -> None:
        self.name, self._send, self._wants = name, send, wants
        self._waiting: deque[AlertEvent] = deque()
        self._changed = threading.Condition()
        self._stopped = False
        self._lost = 0
        """Changes that were lost since the last one that was taken."""
        self.counters: Counter[str] = Counter({f"alert_{name}_lost": 0, f"alert_{name}_told": 0})
        self._thread = threading.Thread(target=self._run, name=f"alert-{name}", daemon=True)
        self._thread.start()

    def put(self, event: AlertEvent) -> None:
        """Queue a change; never waits."""
        if not self._wants(event):
            return
        with self._changed:
            if len(self._waiting) >= WAITING_MAX:
                self._waiting.popleft()
                self._lose()
            self._waiting.append(event)
            self._changed.notify()

    def close(self) -> None:
        """End; a try that is under way ends by its own limit, and what waits is lost."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while (event := self._next()) is not None:
            said = self._lost
            taken = self._told(msgspec.structs.replace(event, dropped=said))
            with self._changed:
                if taken:
                    self.counters[f"alert_{self.name}_told"] += 1
                    self._lost -= said
                else:
                    self._lose()

    def _next(self) -> AlertEvent | None:
        with self._changed:
            while not self._waiting and not self._stopped:
                self._changed.wait()
            return None if self._stopped else self._waiting.popleft()

    def _lose(self) -> None:
        self._lost += 1
        self.counters[f"alert_{self.name}_lost"] += 1

    def _told(self, event: AlertEvent) -> bool:
        """Try until it is taken, while the sink's answer allows it."""
        pause_s = PAUSE_S
        for left in range(TRIES - 1, -1, -1):
            tried = self._send(event)
            if not tried.why:
                return True
            if not tried.retry or not left or self._stopped:
                _log.warning("an alert was not taken", sink=self.name, why=tried.why)
                return False
            time.sleep(min(max(pause_s, tried.after_s), PAUSE_MAX_S))
            pause_s *= 2
        return False
