# SPDX-License-Identifier: Apache-2.0
"""The moment at which one replica stands for leadership, for `ReplicaPeers`.

Without I/O; times are CLOCK_BOOTTIME in ns. Owns the rule that a replica stands only while its own
vote is free, and never again once its process is to end.
"""

from __future__ import annotations

import random

from stoker.mesh.replica.peers.voter import DRIFT_NS, PLEDGE_NS, Voter

CAMPAIGN_NS = (50_000_000, 500_000_000)
"""After the leader's pledges ran out, a follower waits a random time between these two."""
NEXT_NS = 200_000_000
"""After a leader has resigned, each further follower waits this much longer than the one before, so
that they do not stand against each other."""

TRIES = 3
"""A candidate that has not won so often makes room: whoever pledged to it cannot stand meanwhile,
and may be the only one whom a majority hears."""
ROOM_NS = PLEDGE_NS + DRIFT_NS + CAMPAIGN_NS[1]
"""The time for which it does: those who pledged last are free then, and one of them stands."""


class Candidacy:
    """The plans of the replica `number` to stand; `voter` is its own vote."""

    def __init__(self, seed: int, number: int, voter: Voter) -> None:
        self.is_over = False
        """True once this process is to end: it stands no more."""
        self._chance = random.Random(seed)
        self._number = number
        self._voter = voter
        self._due_ns: int | None = None
        self._lost = 0
        """The campaigns that were lost since the last one that was won."""

    def rest(self, now_ns: int) -> None:
        """Stand again only after a random time, so that two candidates do not meet for ever."""
        self._due_ns = now_ns + self._chance.randint(*CAMPAIGN_NS)

    def lost(self, now_ns: int) -> None:
        """Note that no majority pledged; each third time, leave the others room to stand."""
        self._lost += 1
        if self._lost % TRIES == 0:
            self.rest(now_ns + ROOM_NS)

    def won(self) -> None:
        """Note that a majority pledged."""
        self._lost = 0

    def stand_at(self, due_ns: int) -> None:
        """Stand at this moment, if the vote is free then."""
        self._due_ns = due_ns

    def put_off(self) -> None:
        """Forget when to stand: another one leads, or stands."""
        self._due_ns = None

    def is_due(self, now_ns: int, *, fit: bool) -> bool:
        """True if the replica may stand now; `fit` is true if it could lead."""
        waits = self._voter.wait_ns(self._number, now_ns)  # the first look begins its abstention
        if self.is_over or not fit or waits:
            self._due_ns = None
            return False
        if self._due_ns is None:
            self.rest(now_ns)
        return self._due_ns is not None and now_ns >= self._due_ns
