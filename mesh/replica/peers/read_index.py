# SPDX-License-Identifier: Apache-2.0
"""The leader's side of reads at followers: the position that a read must reflect at least.

Without I/O. Owns one rule: a position is told only under pledges of a majority that were requested
after the question for it came. So no other scheduler had confirmed anything newer by then, whatever
the clocks show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import Message, ReadIndexReply, ReadIndexRequest

ROUND_NS = 100_000_000
"""Pledges that were requested for reads and did not come are requested again after this time."""


class _Pending(NamedTuple):
    """A request whose proof is awaited."""

    number: int
    after_ns: int
    """The stamp of the newest request for pledges that was sent before this request came."""
    term: int
    at: int
    """The last entry that this leader had applied when the request came."""


class ReadIndexes:
    """The requests for a read index that came to one replica, at most one of each scheduler."""

    def __init__(
        self,
        state: ReplicaState,
        leadership: Leadership,
        pledges: Pledges,
        send: Callable[[int, Message], None],
        request_pledges: Callable[[Instant], None],
    ) -> None:
        self._state = state
        self._leadership = leadership
        self._pledges = pledges
        self._send = send
        self._request_pledges = request_pledges
        self._pending: dict[int, _Pending] = {}
        self._round_ns = 0
        """When pledges were last requested for reads."""

    def requested(self, sender: int, message: ReadIndexRequest, now: Instant) -> None:
        """Answer a scheduler as soon as a majority has pledged again; at once if nobody leads here.

        A newer request of the same scheduler takes the place of the one before.
        """
        if not self._leadership.leads:
            self._refuse(sender, message.number)
            return
        term, at = self._state.term, self._state.index
        waits = bool(self._pending)
        self._pending[sender] = _Pending(message.number, self._pledges.requested_ns, term, at)
        if not waits or now.boot_ns - self._round_ns >= ROUND_NS:
            self._begin_round(now)

    def look(self, now: Instant) -> None:
        """Answer what is proven by now, and refuse all if this replica leads no more."""
        if not self._pending:
            return
        for sender, pending in list(self._pending.items()):
            if not self._leadership.leads:
                del self._pending[sender]
                self._refuse(sender, pending.number)
            elif self._is_proven(pending):
                del self._pending[sender]
                self._send(sender, ReadIndexReply(pending.number, pending.term, pending.at))
        is_over = self._pledges.since_ns >= self._round_ns
        if self._pending and (is_over or now.boot_ns - self._round_ns >= ROUND_NS):
            self._begin_round(now)

    def _is_proven(self, pending: _Pending) -> bool:
        """True if a majority has answered a request for pledges that was sent after this came.

        Stamps are compared, not times: a clock that stands still gives two requests one stamp, and
        such a pledge proves nothing.
        """
        return self._pledges.since_ns > pending.after_ns

    def _begin_round(self, now: Instant) -> None:
        self._round_ns = now.boot_ns
        self._request_pledges(now)

    def _refuse(self, sender: int, number: int) -> None:
        role = self._leadership.role
        why = self._leadership.why or f"its role is {role}"
        self._send(sender, ReadIndexReply(number, 0, 0, f"it does not lead: {why}"))
