# SPDX-License-Identifier: Apache-2.0
"""The leader's count of which replica holds which entry: what a majority holds is confirmed.

Without I/O. Guarantees that acknowledgements of one term never count in another.
"""

from __future__ import annotations

from stoker.mesh.replica.peers.quorum import Quorum


class Confirmations:
    """The acknowledgements of one term, the leader's own among them."""

    def __init__(self, quorum: Quorum) -> None:
        self.term = 0
        self._quorum = quorum
        self._held: dict[int, int] = {}

    def begin(self, term: int) -> None:
        """Begin to count for a term."""
        self.term = term
        self._held.clear()

    def held(self, replica: int, index: int) -> None:
        """Note that a replica holds the leader's chain up to `index`."""
        self._held[replica] = max(index, self._held.get(replica, 0))

    @property
    def index(self) -> int:
        """The index up to which a majority holds the leader's chain; 0 if none does."""
        return self._quorum.reached(self._held)
