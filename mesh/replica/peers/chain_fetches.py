# SPDX-License-Identifier: Apache-2.0
"""The entries that one replica requests of another, and those that it sends to one that does.

Without I/O; used by `ReplicaPeers`. Owns whose entries are taken: a candidate takes those of its
voters, a follower those of the leader that it follows and of a witness that it chose. A candidate
that cannot hold what a voter has stands down, since a majority may have confirmed it.
"""

from __future__ import annotations

from collections.abc import Callable

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.log.held_tail import HeldTail
from stoker.mesh.replica.log.roster import Roster
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.replica_actions import ReplicaActions
from stoker.mesh.replica.peers.snapshot_exchange import SnapshotExchange
from stoker.mesh.replica.peers.voter import Voter
from stoker.mesh.replica.peers.witnesses import Witnesses
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import FETCHED_BYTES_MAX, Fetched, FetchRequest, Message

FETCH_NS = 500_000_000
"""A candidate that fetches requests again what did not come in this time."""


class ChainFetches:
    """Both sides of one replica; `acknowledge` stores what it took and tells the leader."""

    def __init__(
        self,
        state: ReplicaState,
        *,
        roster: Roster,
        tail: HeldTail,
        voter: Voter,
        pledges: Pledges,
        leadership: Leadership,
        exchange: SnapshotExchange,
        witnesses: Witnesses,
        outbox: Outbox,
        actions: ReplicaActions,
        send: Callable[[int, Message], None],
        acknowledge: Callable[[], None],
    ) -> None:
        self._state = state
        self._roster, self._tail = roster, tail
        self._voter, self._pledges = voter, pledges
        self._leadership = leadership
        self._exchange, self._witnesses = exchange, witnesses
        self._outbox, self._actions = outbox, actions
        self._send, self._acknowledge = send, acknowledge
        self._fetched_ns = 0

    def want(self, replica: int, now: Instant) -> None:
        """Request what another replica holds beyond the state of this one."""
        self._fetched_ns = now.boot_ns
        self._send(replica, FetchRequest(self._state.index))

    def again(self, now: Instant) -> None:
        """Request again what did not come, from the voter that has the best chain now."""
        if self._leadership.role == "fetching" and now.boot_ns - self._fetched_ns >= FETCH_NS:
            self._leadership.role = "reading"
            self._actions.repair(now)

    def requested(self, sender: int, message: FetchRequest, now: Instant) -> None:
        """Send what this replica holds behind an entry, as much as a message may have."""
        found, more = self._tail.part(message.after, FETCHED_BYTES_MAX)
        first = max(self._tail.first, message.after + 1)
        self._send(sender, Fetched(message.after, first, found, more))

    def came(self, sender: int, message: Fetched, now: Instant) -> None:
        """Hold what another replica sent, if its entries are to be taken."""
        candidate = self._leadership.role == "fetching"
        counts = candidate or sender == self._roster.owner(self._voter.promised, self._state)
        if not candidate and self._leadership.role != "following":
            return
        if not counts and sender != self._witnesses.source:
            self._outbox.count("fetched_unasked")
            return
        if message.first > self._tail.end.index + 1:
            self._outbox.count("behind_the_log")
            if counts:  # a file needs more than the word of a witness
                self._exchange.want(sender, now.boot_ns)
            return
        before = self._tail.end
        self._actions.adopt(message.entries, replaces=counts)
        self._acknowledge()
        if message.more and (counts or self._tail.end.index > before.index):
            self._send(sender, FetchRequest(self._tail.end.index))
        elif candidate:
            self._took(sender, now, in_vain=self._tail.end == before)
        self._actions.apply_ready(now)

    def _took(self, voter: int, now: Instant, *, in_vain: bool) -> None:
        """Go on as a candidate, or stand down."""
        if in_vain and self._pledges.best(self._tail.end) is not None:
            why = f"scheduler {voter} has more, of which nothing can be held here"
            self._actions.step_down(why, now)
        else:
            self._leadership.role = "reading"
            self._actions.repair(now)
