# SPDX-License-Identifier: Apache-2.0
"""The simulated network between schedulers, agents, users and the log's servers.

Messages are late, lost, doubled and overtake each other; links are cut in one direction or both.
Owns the rule that a message is lost only by chance or by a cut, and that both are counted.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, NamedTuple

from stoker.mesh.sim.timeline import MS, Target, Timeline

DELAY_NS = (MS // 5, 3 * MS)
LATE_NS = (20 * MS, 1500 * MS)
LINK_NS = (MS // 10, MS)
LINK_SPAN_NS = LINK_NS[1] - LINK_NS[0]


class NetworkFaults(NamedTuple):
    """The probability that a message is lost, doubled or very late."""

    lost: float = 0.0
    twice: float = 0.0
    late: float = 0.0


NO_FAULTS = NetworkFaults()


class SimNetwork:
    """Carries messages between endpoints, which are names."""

    def __init__(self, timeline: Timeline, chance: random.Random, faults: NetworkFaults) -> None:
        self.faults = faults
        self.counts: Counter[str] = Counter()
        self._after = timeline.after
        self._random = chance.random
        self._cuts: set[tuple[str, str]] = set()

    def cut(self, sender: str, receiver: str) -> None:
        """Lose everything from `sender` to `receiver` from now on."""
        self._cuts.add((sender, receiver))

    def mend(self, sender: str, receiver: str) -> None:
        """End one cut."""
        self._cuts.discard((sender, receiver))

    def mend_all(self) -> None:
        """End all cuts."""
        self._cuts.clear()

    def is_cut(self, sender: str, receiver: str) -> bool:
        """True while nothing goes from `sender` to `receiver`."""
        return (sender, receiver) in self._cuts

    def post(self, sender: str, receiver: str, target: Target, event: Any) -> None:
        """Send a message that may be lost, doubled or late."""
        if (sender, receiver) in self._cuts:
            self.counts["cut"] += 1
            return
        random_of = self._random
        lost, twice, late = self.faults
        if lost and random_of() < lost:
            self.counts["lost"] += 1
            return
        low, high = DELAY_NS
        if late and random_of() < late:
            self.counts["late"] += 1
            low, high = LATE_NS
        self._after(low + int((high - low) * random_of()), target, event)
        if twice and random_of() < twice:
            self.counts["twice"] += 1
            self._after(low + int(2 * (high - low) * random_of()), target, event)

    def link(self, sender: str, receiver: str, target: Target, event: Any) -> None:
        """Send over a connection that is reliable while it is not cut."""
        if (sender, receiver) in self._cuts:
            self.counts["cut"] += 1
            return
        self._after(LINK_NS[0] + int(LINK_SPAN_NS * self._random()), target, event)
