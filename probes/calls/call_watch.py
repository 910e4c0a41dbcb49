# SPDX-License-Identifier: Apache-2.0
"""The thread that keeps the call probes attached where they are wanted.

Measuring costs, loading, attaching and detaching wait for the kernel, from tens of milliseconds to
more than a second, so nothing that must be on time runs in this thread.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.probes.calls.call_probes import LOOK_MAX_NS, CallProbes
from stoker.probes.calls.look_thread import LookThread


class CallWatch(LookThread):
    """The probes and their thread; attachments that outlast `close` end with the process."""

    def __init__(self, make: Callable[[], CallProbes], before: Callable[[CallProbes], int]) -> None:
        """`make` loads the probes; `before` is called before each look and returns the time on
        CLOCK_MONOTONIC (ns) at which it has something to do again. Both run in the thread."""
        super().__init__("calls", self._look_at_calls, self._close_probes, most_s=LOOK_MAX_NS / 1e9)
        self._make, self._before = make, before
        self.probes: CallProbes | None = None
        """The probes; None until they are made."""

    def _look_at_calls(self) -> int:
        if self.probes is None:
            self.probes = self._make()
        return min(self._before(self.probes), self.probes.look())

    def _close_probes(self) -> None:
        if self.probes is not None:
            self.probes.close()
