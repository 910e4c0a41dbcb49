# SPDX-License-Identifier: Apache-2.0
"""Log compaction: snapshots of the state, and trimming the log behind them.

Owns the order: a snapshot is durable before the log says so, and the log is trimmed only after.
"""

from __future__ import annotations

from stoker.mesh.log.entry import SnapshotBlob
from stoker.mesh.replica import events
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.log.snapshot_plan import SnapshotPlan
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.state import ReplicaState


class LogCompaction:
    """The snapshots of one replica; `plan` says when and how far, and `tail` what is beyond."""

    def __init__(
        self, plan: SnapshotPlan, state: ReplicaState, tail: HeldTail, outbox: Outbox
    ) -> None:
        self._plan = plan
        self._state = state
        self._tail = tail
        self._outbox = outbox

    def applied(self, size: int) -> None:
        """An entry of `size` bytes was applied."""
        self._plan.applied(size)

    def is_due(self) -> bool:
        """True if enough entries or bytes came since the last snapshot, and none is under way."""
        return self._plan.due()

    def begin(self) -> None:
        """Note that a snapshot is being taken."""
        self._plan.begin()

    def start(self) -> None:
        """Take a snapshot, unless one is under way."""
        if not self._plan.under_way:
            self._plan.begin()
            self._outbox.put(events.SaveSnapshot(self._state.snapshot()))

    def saved(self, blob: SnapshotBlob, *, full: bool) -> None:
        """Note that a snapshot is durable, and that a majority has it.

        A full log cannot record it first, so it is trimmed now: the file was read back.
        """
        self._outbox.count("snapshots")
        seq = self._plan.saved(blob.seq, full=full)
        if seq is not None and not self._tail.may_trim(seq, blob.index):
            self._plan.trim_failed()
            seq = None
        self._trim(seq)

    def failed(self) -> None:
        """Note that no snapshot was taken; the next is due after as many entries again."""
        self._plan.under_way = False
        self._outbox.count("snapshot_failed")

    def recorded(self, trim_to: int) -> None:
        """Note that the log has a snapshot and can be trimmed up to `trim_to`; 0 if not."""
        self._trim(self._plan.trim(trim_to))

    def trimmed(self, seq: int) -> None:
        """Note that the log was trimmed up to `seq`."""
        self._plan.trimmed(seq)

    def trim_failed(self) -> None:
        """Note that the log may not have been trimmed."""
        self._plan.trim_failed()
        self._outbox.count("trim_failed")

    def make_room(self) -> None:
        """Take a snapshot of a full log, so that it can be trimmed."""
        self._plan.refused()
        self._outbox.count("log_full")
        self.start()

    def _trim(self, seq: int | None) -> None:
        if seq is not None:
            self._outbox.put(events.Trim(seq))
