# SPDX-License-Identifier: Apache-2.0
"""A simulated process: it runs, is stopped, or is dead.

Owns the rule of delivery: a stopped process gets what came meanwhile when it goes on, in order, and
a dead one gets nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class SimProcess:
    """One simulated process; `starts` tells a process from those before it."""

    def __init__(self) -> None:
        self.alive = False
        self.paused = False
        self.starts = 0
        self._backlog: list[tuple[Callable[[Any], None], Any]] = []

    def begin_process(self) -> None:
        """Run as a new process, which got no message yet."""
        self.starts += 1
        self.alive, self.paused = True, False
        self._backlog.clear()

    def is_absent(self, target: Callable[[Any], None], event: Any) -> bool:
        """True if the process gets nothing now; a stopped one gets the event later."""
        if self.paused and self.alive:
            self._backlog.append((target, event))
        return self.paused or not self.alive

    def end_pause(self) -> None:
        """Deliver everything that came while the process was stopped."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for target, event in backlog:
            target(event)
