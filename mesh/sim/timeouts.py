# SPDX-License-Identifier: Apache-2.0
"""The calls of one simulated process that wait for an answer, all for equally long.

Owns the moment: a call that is still open after the wait is late exactly then. One event waits for
all of them, since nearly every call is answered in time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container

from stoker.mesh.sim.timeline import Timeline


class Timeouts:
    """The timeouts of the calls in `open_calls`, by their numbers; `late` takes one of them."""

    def __init__(
        self,
        timeline: Timeline,
        wait_ns: int,
        open_calls: Container[int],
        late: Callable[[int], None],
    ) -> None:
        self._timeline = timeline
        self._wait_ns = wait_ns
        self._open = open_calls
        self._late = late
        self._due: deque[tuple[int, int]] = deque()
        """Calls as (time, number), the earliest first, those with an answer included."""
        self._waits = False

    def begin(self, number: int) -> None:
        """Begin to wait for the answer to a call."""
        self._due.append((self._timeline.now + self._wait_ns, number))
        if not self._waits:
            self._waits = True
            self._timeline.after(self._wait_ns, self._look, None)

    def _look(self, _: None) -> None:
        """Tell what is late now, and wait for the next call that is still open."""
        due = self._due
        while due and (due[0][0] <= self._timeline.now or due[0][1] not in self._open):
            number = due.popleft()[1]
            if number in self._open:
                self._late(number)
        self._waits = bool(due)
        if due:
            self._timeline.at(due[0][0], self._look, None)
