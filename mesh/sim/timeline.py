# SPDX-License-Identifier: Apache-2.0
"""The event loop of a simulated world: a heap of (time, order, target, event).

Owns the order of events: by time, and among equal times in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

MS = 1_000_000
SECOND = 1_000_000_000

Target = Callable[[Any], None]


class Timeline:
    """Simulated time in ns since the beginning of the world, and everything that is to happen."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Target, Any]] = []
        self._order = 0

    def at(self, when_ns: int, target: Target, event: Any) -> None:
        """Call `target(event)` at this time, or now if that is past."""
        self._order += 1
        heappush(
            self._heap, (when_ns if when_ns > self.now else self.now, self._order, target, event)
        )

    def after(self, wait_ns: int, target: Target, event: Any) -> None:
        """Call `target(event)` after this wait."""
        self._order += 1
        heappush(self._heap, (self.now + wait_ns, self._order, target, event))

    def run(self, until_ns: int) -> None:
        """Let everything happen that is due up to this time, and move the time there."""
        heap = self._heap
        while heap and heap[0][0] <= until_ns:
            self.now, _, target, event = heappop(heap)
            target(event)
        self.now = until_ns

    @property
    def delivered(self) -> int:
        """The number of events that have happened."""
        return self._order - len(self._heap)

    def __len__(self) -> int:
        return len(self._heap)
