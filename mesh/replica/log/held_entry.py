# SPDX-License-Identifier: Apache-2.0
"""An entry that a replica holds, and its place in the chain of entries.

Owns the order of the ends of chains: by term, then by length.
"""

from __future__ import annotations

import msgspec

from stoker.mesh.log.entry import Opened


class ChainPlace(msgspec.Struct, frozen=True, gc=False):
    """A place in the chain of entries: the entry of `index`, of this term and hash."""

    term: int
    index: int
    hash: bytes

    @property
    def rank(self) -> tuple[int, int]:
        """The order of ends of chains: the one of the newest term is best, then the longest."""
        return self.term, self.index


class HeldEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry with its place to read it."""

    index: int
    seq: int
    """The sequence in the log; 0 if the log has not shown it since the last `forget_places`."""
    data: bytes
    opened: Opened
    place: ChainPlace
    """The place of this entry in the chain."""

    def repair_name(self, tail: int) -> str:
        """Return the name under which this entry is appended again at this tail of the log.

        The log's servers know the names of two minutes. After a second loss they would answer a
        name that they know with a place that is gone, and the entry would never be there.
        """
        return f"again-{self.index:x}-{tail:x}-{self.opened.hash[:8].hex()}"
