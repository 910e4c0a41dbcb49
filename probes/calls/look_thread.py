# SPDX-License-Identifier: Apache-2.0
"""A thread that looks at something again and again, at times that each look says itself.

`CallWatch` and the agent's `HiddenWatch` rely on it. Owns the invariant that a failed look is
counted and does not affect the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from stoker.native.structured_log import structlog

CLOSE_S = 5.0
"""The longest wait for a look under way."""
PAUSE_S = (0.02, 0.5)
"""Shortest time between two looks, and the longest where changes are not told by `hurry`."""
HURRY_S = 0.1
"""Looks that were asked for are so far apart: each reads the processes of all jobs, and in a burst
of short jobs one starts every millisecond."""
AFTER_FAILURE_S = 1.0


class LookThread:
    """One thread, from `start` to `close`."""

    def __init__(
        self,
        name: str,
        look: Callable[[], int],
        at_end: Callable[[], None] = lambda: None,
        *,
        most_s: float | None = None,
    ) -> None:
        """`look` returns the time on CLOCK_MONOTONIC (ns) at which it is due again; `at_end` is
        called after the last look. Both run in the thread. `most_s` is the longest time between
        two looks."""
        self._look, self._at_end, self._most_s = look, at_end, most_s
        self._end = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._log = structlog.get_logger(name)
        self.failures = 0

    def start(self) -> None:
        """Start the thread and return at once."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; waits a bounded time for a look that is under way."""
        self._end.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=CLOSE_S)

    def hurry(self) -> None:
        """Look soon, because something has changed: at once, or HURRY_S after the last look."""
        self._wake.set()

    def _run(self) -> None:
        wait_s = looked_s = 0.0
        while not self._end.is_set():
            if self._wake.wait(wait_s):
                since_s = time.monotonic() - looked_s
                self._end.wait(max(0.0, min(HURRY_S, wait_s) - since_s))
            self._wake.clear()
            if self._end.is_set():
                break
            looked_s = time.monotonic()
            try:
                left_s = (self._look() - time.monotonic_ns()) / 1e9
                most_s = self._most_s if self._most_s is not None else PAUSE_S[1]
                wait_s = min(most_s, max(PAUSE_S[0], left_s))
            except Exception as error:
                self.failures += 1
                wait_s = AFTER_FAILURE_S
                self._log.exception("a look failed", error=str(error))
        self._at_end()
