# SPDX-License-Identifier: Apache-2.0
"""Reading the log forward: the judgement of each entry, and of the end of the log.

Owns the trust in the end of the log: a log without an acknowledged entry is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Opened
from stoker.mesh.log.unreadable_entry import UnreadableEntry
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.log.held_tail import AGAIN, HeldTail
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import Corrupt


class LogFollower:
    """One replica's reading of the log.

    `loaded` is the log entry and the digest of the snapshot that the state was restored from, or
    (0, b""). `known_tail` is an entry that was acknowledged before the process started.
    """

    def __init__(
        self,
        state: ReplicaState,
        tail: HeldTail,
        loaded: tuple[int, bytes],
        known_tail: int,
        outbox: Outbox,
        *,
        unseal: Callable[[int, bytes], Opened] = entries.unseal,
    ) -> None:
        self.unreadable = UnreadableEntry()
        self._state = state
        self._tail = tail
        self._loaded = loaded
        self._known_tail = known_tail
        self._outbox = outbox
        self._unseal = unseal

    def read(self, seq: int, data: bytes) -> bool:
        """Hold the entry if it counts and is new; else count it and pass over it.

        Raises Corrupt if the log is damaged or has a gap.
        """
        verdict = self._tail.offer(seq, data, self._unseal(seq, data))
        if verdict and verdict != AGAIN:
            self._state.refuse(verdict)
            self._outbox.count(verdict)
        return not verdict

    def adopt(self, data: bytes, *, replaces: bool = True) -> bool:
        """Hold an entry that another replica holds, if it counts; errors are as in `read`."""
        return not self._tail.adopt(data, self._unseal(0, data), replaces=replaces)

    def apply(self, opened: Opened) -> Applied:
        """Apply an entry that another process appended.

        Raises Corrupt if it records another snapshot than the one that was loaded.
        """
        applied = self._state.apply(opened.entry, opened.hash)
        saved, (loaded_seq, digest) = applied.snapshot, self._loaded
        alone = saved is not None and not saved.agreed
        if alone and saved is not None and saved.seq == loaded_seq and saved.digest != digest:
            raise Corrupt(f"the snapshot of log entry {saved.seq} is not the one that was taken")
        return applied

    def end(self) -> None:
        """Check the end of the log; Corrupt if it is before `known_tail`."""
        seen = self._state.seen
        if not self._tail.is_founded and self._state.refused:
            raise Corrupt("the log does not begin with the genesis of this cluster")
        if seen < self._known_tail:
            known = f"entry {self._known_tail} was acknowledged"
            raise Corrupt(f"the log ends at entry {seen}, though {known}")
        self.pass_unreadable()

    def pass_unreadable(self) -> None:
        """Pass over a number at the end of the log that cannot be read, if readings agree on it."""
        behind = self.unreadable.passes(self._state.seen)
        if behind is not None:  # every acknowledged entry was read, so this one is not needed
            self._outbox.count("log_hole")
            self._state.pass_over(behind)
