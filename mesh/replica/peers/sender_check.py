# SPDX-License-Identifier: Apache-2.0
"""The check of a message between schedulers: who sent it, and whether that one may say it.

Without I/O. Owns that a server outside the roster is heard as a reader alone: it is told what it
lacks and tells how far it is, and no word of it counts for a majority.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.applicants import Applicants
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import peer_messages as wire
from stoker.mesh.wire.peer_messages import Message, PeerEnvelope
from stoker.native.errors import StokerError

ReadEnvelope = Callable[[bytes], PeerEnvelope]
READERS_SAY = (
    wire.FetchRequest,
    wire.SnapshotRequest,
    wire.WitnessRequest,
    wire.Witnessed,
    wire.RecallRequest,
    wire.Recalled,
    wire.Promised,
    wire.NotPledged,
)
"""The messages that a server outside the roster may send. It asks what it may have said, while it
was in, before it lost its memory. It answers one that has forgotten who is in, and that counts whom
the longest chain names. And it answers a single leader that requests the pledge which it needs from
the entry on that takes this server in; `ReplicaPeers` passes over all that was not requested."""


class SenderCheck:
    """The check of one replica."""

    def __init__(
        self,
        settings: ReplicaSettings,
        roster: Roster,
        applicants: Applicants,
        state: ReplicaState,
        *,
        outbox: Outbox,
        read_envelope: ReadEnvelope,
    ) -> None:
        self._cluster, self._number = settings.cluster, settings.leader
        self._roster = roster
        self._applicants = applicants
        self._state = state
        self._outbox = outbox
        self._read_envelope = read_envelope

    def opened(self, data: bytes) -> tuple[int, Message] | None:
        """Return the sender and the message; None, which is counted, if it is not to be heard."""
        try:
            envelope = self._read_envelope(data)
            sender = envelope.sender
            member = self._roster.key(sender, self._state)
            key = member or self._applicants.key(sender)
            if key is None or sender == self._number:
                self._outbox.count("peer_unknown")
                return None
            message = wire.verified(envelope, data, key, self._cluster, self._number)
        except StokerError:
            self._outbox.count("peer_refused")
            return None
        if member is None and not isinstance(message, READERS_SAY):
            self._outbox.count("peer_unknown")
            return None
        return sender, message
