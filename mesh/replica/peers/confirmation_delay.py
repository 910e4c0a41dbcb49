# SPDX-License-Identifier: Apache-2.0
"""The time for which the end of a leader's chain has waited for a majority, for `ReplicaPeers`.

Without I/O. Owns the bound of that time: a deposed stream leader acknowledges what no other server
has, and only reading the log again shows it.
"""

from __future__ import annotations

from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.nodes.leadership import Leadership

UNCONFIRMED_NS = 2_000_000_000
"""A leader whose entries no majority confirms for this long reads the log again."""


class ConfirmationDelay:
    """The wait of one replica, which holds `tail` in the role of `leadership`."""

    def __init__(self, tail: HeldTail, leadership: Leadership) -> None:
        self._tail = tail
        self._leadership = leadership
        self._confirmed = self._since_ns = 0
        """The confirmed index for which this leader waits, and since when."""

    def is_too_long(self, now_ns: int) -> bool:
        """True if what this leader or candidate appended has waited for a majority too long."""
        tail = self._tail
        waits = self._leadership.role in ("electing", "leading") and tail.end.index > tail.confirmed
        if not waits or tail.confirmed != self._confirmed:
            self._confirmed, self._since_ns = tail.confirmed, now_ns
        return now_ns - self._since_ns >= UNCONFIRMED_NS
