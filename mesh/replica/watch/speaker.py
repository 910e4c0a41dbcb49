# SPDX-License-Identifier: Apache-2.0
"""One node that speaks of its ranks: when its words were true, and how late they were.

Pure. The judge of gangs relies on it. Invariant: words are never taken for younger than they are by
more than the way of the fastest of them.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

S = 1_000_000_000
PERIOD_NS = S
"""The time between two samples of one node, unless it has no CPU."""
CLOCK_WORDS = 64
"""The words by which the clock of a node is known: in a minute two clocks do not drift apart."""
WORDS_MAX = 256


class Speaker:
    """The times at which one node spoke, by its own clock and by the judge's.

    The clocks have nothing in common but their pace, so the word that was fastest of late gives the
    difference: by that, others were true at the earliest before they came.
    """

    def __init__(self) -> None:
        self._apart: deque[int] = deque(maxlen=CLOCK_WORDS)
        self._spoke: deque[int] = deque(maxlen=WORDS_MAX)
        """The times of which it spoke, by the judge's clock."""
        self._told_ns = self._came_ns = 0

    def is_new(self, told_ns: int) -> bool:
        """Return whether these words are not those of the time before."""
        return not told_ns or told_ns != self._told_ns

    def spoke(self, told_ns: int, came_ns: int) -> int:
        """Take in new words; return when they were true by the judge's clock. A node that has told
        no time (0) is believed to have spoken at once."""
        self._told_ns, self._came_ns = told_ns, came_ns
        if told_ns:
            self._apart.append(came_ns - told_ns)
        at_ns = self.here(told_ns) if told_ns else came_ns
        self._spoke.append(at_ns)
        return at_ns

    def here(self, its_ns: int) -> int:
        """Return a time of the node's clock by that of the judge."""
        return its_ns + min(self._apart, default=0)

    def lag_ns(self, since_ns: int, now_ns: int) -> int:
        """Return the time since then in which it should have been heard and was not: the pauses
        between its words beyond a period each, and the way of the last one."""
        times = [since_ns, *(at_ns for at_ns in self._spoke if at_ns > since_ns)]
        pauses = sum(max(0, b - a - PERIOD_NS) for a, b in pairwise(times))
        way_ns = max(0, self._came_ns - times[-1])
        return pauses + way_ns + max(0, now_ns - max(self._came_ns, times[-1]) - PERIOD_NS)
