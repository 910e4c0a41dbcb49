# SPDX-License-Identifier: Apache-2.0
"""The rosters behind all entries that any simulated scheduler appended, for the auditors.

It reads the changes from the entries themselves, and trusts no scheduler's opinion of who counts.
Owns that an entry which is no change of one scheduler leaves the roster as it was.
"""

from __future__ import annotations

from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Opened, RosterBlob

Numbers = frozenset[int]


class RosterBook:
    """The rosters as numbers of schedulers, each of which has its place one below its number."""

    def __init__(self, count: int, kept: int = 2) -> None:
        self._kept = kept
        """The number of schedulers that stay, whoever leaves."""
        self._after: dict[bytes, Numbers] = {entries.NO_HASH: frozenset(range(1, count + 1))}
        self.smallest = self.largest = count
        """The fewest and the most schedulers that any roster had."""

    def note(self, opened: Opened) -> None:
        """Note an entry that a scheduler appends."""
        entry = opened.entry
        numbers = self.after(entry.prev_hash)
        for blob in entry.blobs:
            if isinstance(blob, RosterBlob):
                numbers = self._changed(numbers, blob)
                break
        self._after[opened.hash] = numbers
        self.smallest = min(self.smallest, len(numbers))
        self.largest = max(self.largest, len(numbers))

    def after(self, digest: bytes) -> Numbers:
        """Return the schedulers behind the entry of this hash, or those of the genesis."""
        return self._after.get(digest, self._after[entries.NO_HASH])

    def majority(self, digest: bytes) -> int:
        """Return how many of them are a majority."""
        return len(self.after(digest)) // 2 + 1

    def _changed(self, numbers: Numbers, change: RosterBlob) -> Numbers:
        here = change.place + 1
        if change.member.number == here:
            return numbers | {here}
        leaves = change.member.number == 0 and len(numbers) > self._kept
        return numbers - {here} if leaves else numbers
