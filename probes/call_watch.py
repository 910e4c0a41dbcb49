# SPDX-License-Identifier: Apache-2.0
"""The thread that keeps the probes over calls attached where they should be.

Relied on by the agent. Attaching and detaching wait for the kernel, tens of milliseconds a time, so
no thread that drains a ring does it. Owns the invariant that one look that fails costs that look.
"""

from __future__ import annotations

import threading
import time

import structlog

from stoker.probes.calls import CallProbes

CLOSE_S = 5.0
"""Longest wait for a look that goes on; what is attached then ends with the process."""
PAUSE_S = (0.02, 0.5)
"""Shortest and longest time between two looks."""

_log = structlog.get_logger("calls")


class CallWatch:
    """The thread that looks; ended by `close`, which also detaches."""

    def __init__(self, probes: CallProbes) -> None:
        self._probes = probes
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="calls", daemon=True)
        self.failures = 0

    def start(self) -> None:
        """Begin; the programs were loaded before."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking and detach; waits for a look that goes on."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(timeout=CLOSE_S)
        if not self._thread.is_alive():
            self._probes.close()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._end.wait(wait_s):
            try:
                left_s = (self._probes.look() - time.monotonic_ns()) / 1e9
                wait_s = min(PAUSE_S[1], max(PAUSE_S[0], left_s))
            except Exception as error:
                self.failures += 1
                wait_s = 1.0
                _log.exception("a look at calls failed", error=str(error))
