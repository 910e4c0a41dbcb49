# SPDX-License-Identifier: Apache-2.0
"""The right of one replica to answer requests, without I/O.

Guarantees that no two replicas have it at one moment, so that no refusal comes before the leader's
answer, and that a read has everything that was acknowledged.
"""

from __future__ import annotations

from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.peers.replica_peers import ReplicaPeers
from stoker.native.errors import NotLeader, Unavailable


class AnswerRight:
    """The right of the replica with these peers and this role; `now_ns` is CLOCK_BOOTTIME."""

    def __init__(self, peers: ReplicaPeers, leadership: Leadership) -> None:
        self._peers = peers
        self._leadership = leadership

    @property
    def alone(self) -> bool:
        """True in a cluster of one scheduler."""
        return self._peers.alone

    def may_answer(self, now_ns: int) -> bool:
        """True if no other scheduler can lead now, so that an answer from here is the only one."""
        return self._peers.has_right(now_ns)

    def serves(self, now_ns: int) -> bool:
        """True if the state has everything that was acknowledged up to now."""
        if self.alone:
            return self._leadership.has_led
        return self._leadership.leads and self.may_answer(now_ns)

    def not_serving(self) -> Unavailable:
        """Return the answer to a request while this replica does not serve."""
        if self.alone:
            return Unavailable("the scheduler is still reading its log")
        return self.not_leader()

    def not_leader(self) -> NotLeader:
        """Return the answer to a request that another scheduler must take."""
        leader = self._leadership.leader
        if leader:
            return NotLeader("this scheduler does not lead", hint=f"Ask scheduler {leader:016x}")
        return NotLeader("no scheduler leads now", hint="Try again in a second")

    @property
    def is_beyond(self) -> bool:
        """True if the cluster has a feature level that this replica does not support."""
        return bool(self._leadership.beyond)
