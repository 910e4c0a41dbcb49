# SPDX-License-Identifier: Apache-2.0
"""A log in memory with the four calls of `Log`, for simulations and tests.

Owns the semantics that an engine must have: a sequence is taken once and never reused, and a full
log refuses before it stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from stoker.mesh.log.jetstream_log import LogFull, LogGap, WrongTail
from stoker.native.errors import Denied

BATCH = 64


class ModelLog:
    """A log in memory; the async methods are the `Log` interface over the synchronous ones."""

    def __init__(self, max_bytes: int = 1 << 62) -> None:
        self.entries: dict[int, bytes] = {}
        self.last = 0
        self.max_bytes = max_bytes
        self.sealed = False

    @property
    def size(self) -> int:
        """The bytes of all entries."""
        return sum(map(len, self.entries.values()))

    def append(self, tail: int, entry: bytes) -> int:
        """Append as `append_at` does."""
        if self.sealed:
            raise Denied("the log is sealed")
        if tail > self.last:
            raise LogGap(f"the log ends at entry {self.last}, though it confirmed entry {tail}")
        if tail != self.last:
            raise WrongTail(f"append at {tail}, the log ends at {self.last}", last=self.last)
        if self.size + len(entry) > self.max_bytes:
            raise LogFull(f"append at {tail}: maximum bytes exceeded")
        self.last += 1
        self.entries[self.last] = entry
        return self.last

    def read(self, seq: int) -> list[tuple[int, bytes]]:
        """Return all that `read_from` yields."""
        found = range(seq, self.last + 1)
        return [(at, self.entries[at]) for at in found if at in self.entries]

    def tear(self) -> None:
        """Count an entry that cannot be read, as after a write that a full disk cut off."""
        self.last += 1

    def drop(self, seq: int) -> None:
        """Trim as `trim` does."""
        for old in [at for at in self.entries if at <= seq]:
            del self.entries[old]

    async def append_at(self, tail: int, entry: bytes, name: str) -> int:
        return self.append(tail, entry)

    async def read_from(self, seq: int) -> AsyncIterator[list[tuple[int, bytes]]]:
        entries = self.read(seq)
        for at in range(0, len(entries), BATCH):
            yield entries[at : at + BATCH]

    async def trim(self, seq: int) -> None:
        self.drop(seq)

    async def seal(self) -> None:
        self.sealed = True
