# SPDX-License-Identifier: Apache-2.0
"""The entries about snapshots that a leader appends: where all take one, and that one is durable.

Without I/O. Owns the condition of the second: among several schedulers a majority has the snapshot,
so that the log can be trimmed behind it.
"""

from __future__ import annotations

from stoker.mesh.log.entry import SnapshotBlob, SnapshotPointBlob
from stoker.mesh.log.log_outage import LogOutage
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.log.log_compaction import LogCompaction
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.peers.replica_peers import ReplicaPeers
from stoker.mesh.replica.works.work import SnapshotWork


class SnapshotRecords:
    """The entries of one replica about its snapshots."""

    def __init__(
        self,
        compaction: LogCompaction,
        peers: ReplicaPeers,
        leadership: Leadership,
        appends: AppendPipeline,
        outage: LogOutage,
    ) -> None:
        self._compaction = compaction
        self._peers = peers
        self._leadership = leadership
        self._appends = appends
        self._outage = outage

    def take_if_due(self) -> None:
        """Take a snapshot; among several schedulers, state the point at which all take one."""
        if self._compaction.is_due():
            if self._peers.alone:
                self._compaction.start()
            else:
                self._compaction.begin()
                self._appends.put_first(SnapshotWork(SnapshotPointBlob()))

    def saved(self, event: events.SnapshotSaved, now: Instant) -> None:
        """Record a snapshot of this replica that is durable, or tell the leader of it."""
        blob = SnapshotBlob(event.seq, event.digest, event.place, event.agreed)
        if self._peers.alone:
            self._compaction.saved(blob, full=bool(self._outage.full))
            self._appends.enqueue(SnapshotWork(blob), now)
        else:
            self._peers.saved(blob)
            self.record_agreed(now)

    def record_agreed(self, now: Instant) -> None:
        """Record in the log that a majority has the newest snapshot, so that it can be trimmed."""
        if (blob := self._peers.take_agreed()) is not None and self._leadership.leads:
            self._compaction.saved(blob, full=bool(self._outage.full))
            self._appends.enqueue(SnapshotWork(blob), now)
