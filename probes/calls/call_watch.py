# SPDX-License-Identifier: Apache-2.0
"""The thread that keeps the call probes attached where they are wanted.

Measuring costs, loading, attaching and detaching wait for the kernel, tens of milliseconds a time,
so no thread that drains a ring does any of it. Owns the invariant that a failed look does not
affect the next one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from stoker.probes.calls.call_probes import CallProbes

CLOSE_S = 5.0
"""The longest wait for a look under way; after it, attachments end with the process."""
PAUSE_S = (0.02, 0.5)
"""Shortest and longest time between two looks."""
HURRY_S = 0.1
"""Looks that were asked for are so far apart: each reads the processes of all jobs, and in a burst
of short jobs one starts every millisecond."""
AFTER_FAILURE_S = 1.0

_log = structlog.get_logger("calls")


class CallWatch:
    """One thread, from `start` to `close`."""

    def __init__(self, make: Callable[[], CallProbes], before: Callable[[CallProbes], int]) -> None:
        """`make` loads the probes; `before` is called before each look and returns the time on
        CLOCK_MONOTONIC (ns) at which it has something to do again. Both run in the thread."""
        self._make, self._before = make, before
        self._end = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="calls", daemon=True)
        self.probes: CallProbes | None = None
        """The probes; None until they are made."""
        self.failures = 0

    def start(self) -> None:
        """Start the thread and return at once."""
        self._thread.start()

    def close(self) -> None:
        """Stop and detach; waits a bounded time for a look that is under way."""
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
                wait_s = self._look()
            except Exception as error:
                self.failures += 1
                wait_s = AFTER_FAILURE_S
                _log.exception("a look at calls failed", error=str(error))
        if self.probes is not None:
            self.probes.close()

    def _look(self) -> float:
        if self.probes is None:
            self.probes = self._make()
        next_ns = min(self._before(self.probes), self.probes.look())
        left_s = (next_ns - time.monotonic_ns()) / 1e9
        return min(PAUSE_S[1], max(PAUSE_S[0], left_s))
