# SPDX-License-Identifier: Apache-2.0
"""The end of one replica's leadership before its process ends, so that another leads at once.

Without I/O. Owns the order: nothing new is decided, the entry on its way is confirmed and answered,
no lease is renewed any more, and only then the others hear that this replica has resigned.
"""

from __future__ import annotations

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events
from stoker.mesh.replica.log.append_pipeline import AppendPipeline
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.replica_peers import ReplicaPeers

DRAIN_NS = 300_000_000
"""A leader that is to end waits so long at most for the entry that is on its way. Whoever waits for
an answer to it asks the next leader again."""


class Handover:
    """The handover of one replica: `begin` starts it, and `look` goes on after each event."""

    def __init__(
        self,
        leadership: Leadership,
        appends: AppendPipeline,
        peers: ReplicaPeers,
        outbox: Outbox,
    ) -> None:
        self._leadership = leadership
        self._appends = appends
        self._peers = peers
        self._outbox = outbox
        self._until_ns: int | None = None

    def begin(self, event: events.Leave, now: Instant) -> None:
        """Decide nothing new from now on."""
        if not self._peers.alone:
            self._leadership.leaves = True
        self._until_ns = now.boot_ns + DRAIN_NS

    def look(self, now: Instant) -> None:
        """Resign once no append is on its way, or after DRAIN_NS."""
        if self._until_ns is None:
            return
        waits = self._leadership.role == "leading" and not self._appends.idle
        if waits and now.boot_ns < self._until_ns and not self._peers.alone:
            return
        self._until_ns = None
        self._peers.resign(now)
        self._outbox.put(events.Left())
