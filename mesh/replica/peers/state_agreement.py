# SPDX-License-Identifier: Apache-2.0
"""The comparison of replicas: equal entries must have led to equal states.

Without I/O. Owns two rules: the log is trimmed only behind a snapshot that a majority has with one
digest, and a replica that differs from a majority begins again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from stoker.mesh.log.entry import SnapshotBlob
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.quorum import Quorum
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import Diverged, Held, Message

TRAILS_MAX = 4096
"""The number of entries whose digests are kept for replicas that are behind."""
SNAPSHOTS_MAX = 8


class StateAgreement:
    """One replica's part. `number` is its own, `send` sends a message to another scheduler.

    `install` has the replica begin again with a snapshot file, or with nothing.
    """

    def __init__(
        self,
        number: int,
        quorum: Quorum,
        state: ReplicaState,
        *,
        send: Callable[[int, Message], None],
        outbox: Outbox,
        install: Callable[[bytes, str], None],
    ) -> None:
        self._number = number
        self._quorum = quorum
        self._state = state
        self._send = send
        self._outbox = outbox
        self._install = install
        self._trails: dict[int, bytes] = {}
        """The digest of all effects after each of the newest entries."""
        self._equal: dict[int, bool] = {}
        """True for each other replica that was equal when it was last compared."""
        self._snapshots: dict[int, dict[int, bytes]] = {}
        """The digest of each replica's snapshot, by index."""
        self.own: SnapshotBlob | None = None
        """The newest durable snapshot of this replica."""
        self.agreed: SnapshotBlob | None = None
        """The own snapshot that a majority was found to have, until somebody takes it."""
        self._recorded = 0
        """The index of the newest snapshot that a majority has."""

    # --- effects ----------------------------------------------------------------------------------

    def applied(self) -> None:
        """Note that the state has the next entry."""
        self._trails[self._state.index] = self._state.trail
        if len(self._trails) > TRAILS_MAX:
            del self._trails[next(iter(self._trails))]

    def compare(self, sender: int, message: Held) -> None:
        """Compare the effects of another replica with those of this leader."""
        own = self._trails.get(message.applied)
        if own is None:
            return
        self._equal[sender] = own == message.trail
        if self._equal[sender]:
            return
        self._outbox.count("replica_differs")
        equal = [self._number, *(each for each, is_equal in self._equal.items() if is_equal)]
        if self._quorum.has(equal):
            self._send(sender, Diverged(message.applied))
        elif self._quorum.has({*self._equal} - {*equal}):
            self.begin_again()

    def begin_again(self) -> None:
        """Forget this state, which differs from a majority's, and take it from the others."""
        self._outbox.count("began_again")
        self._install(b"", "its state differs from that of a majority")

    # --- snapshots --------------------------------------------------------------------------------

    def count(self, replica: int, index: int, digest: bytes) -> None:
        """Note a snapshot of a replica; `agreed` becomes the own one once a majority has it."""
        own, is_of_majority = self.own, self._taken(replica, index, digest)
        is_new = own is not None and own.index == index > self._recorded
        if is_of_majority and is_new:
            self._recorded, self.agreed = index, own

    def _taken(self, replica: int, index: int, digest: bytes) -> bool:
        """Note a snapshot; True if this replica's own is the one of a majority."""
        votes = self._snapshots.setdefault(index, {})
        votes[replica] = digest
        while len(self._snapshots) > SNAPSHOTS_MAX:
            del self._snapshots[min(self._snapshots)]
        if self._number not in votes:
            return False
        agreed, _ = Counter(votes.values()).most_common(1)[0]
        if not self._quorum.has(each for each, found in votes.items() if found == agreed):
            return False
        for other, found in votes.items():
            if found != agreed and other != self._number:
                self._send(other, Diverged(index))
        if votes[self._number] != agreed:
            self.begin_again()
            return False
        return True
