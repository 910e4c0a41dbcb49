# SPDX-License-Identifier: Apache-2.0
"""The leader's side of reads at followers: the position that a read must reflect at least.

Without I/O. Owns one rule: a position is told only if a majority had followed no later leader when
the follower requested it. Then no later leader had confirmed anything, whatever the clocks show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica.nodes.leadership import Leadership
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.voter import Voter
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire.peer_messages import Message, ReadIndexReply, ReadIndexRequest

ROUND_NS = 100_000_000
"""Pledges that were requested for reads and did not come are requested again after this time."""


class _Pending(NamedTuple):
    """A request whose proof is awaited."""

    sender: int
    number: int
    term: int
    """The newest term that the sender had promised when it sent this."""
    led: int
    """The term in which this leader led when the request came."""
    after_ns: int
    """The stamp of the newest request for pledges that was sent before this request came."""
    at: int
    """The last entry that this leader had applied when the request came."""


class ReadIndexes:
    """The requests for a read index that came to one replica, at most one of each scheduler."""

    def __init__(
        self,
        state: ReplicaState,
        leadership: Leadership,
        pledges: Pledges,
        voter: Voter,
        *,
        number: int,
        send: Callable[[int, Message], None],
        request_pledges: Callable[[Instant], None],
    ) -> None:
        self._number = number
        self._state = state
        self._leadership = leadership
        self._pledges = pledges
        self._voter = voter
        self._send = send
        self._request_pledges = request_pledges
        self._pending: dict[int, _Pending] = {}

    def requested(self, sender: int, message: ReadIndexRequest, now: Instant) -> None:
        """Answer a scheduler as soon as there is proof; at once if there is, or nobody leads here.

        A newer request of the same scheduler takes the place of the one before.
        """
        if not self._leadership.leads:
            self._refuse(sender, message.number)
            return
        waits = bool(self._pending)
        self._pending[sender] = _Pending(
            sender,
            message.number,
            message.term,
            led=self._pledges.term,
            after_ns=self._pledges.requested_ns,
            at=self._state.index,
        )
        self._answer_proven()
        if self._pending and not waits:
            self._request_pledges(now)

    def look(self, now: Instant) -> None:
        """Answer what is proven by now, and refuse all if this replica leads no more.

        New pledges are requested for what came after the last request for some, once that one had
        its answers or its time.
        """
        if not self._pending:
            return
        for pending in list(self._pending.values()):
            if not self._leadership.leads or pending.led != self._pledges.term:
                del self._pending[pending.sender]
                self._refuse(pending.sender, pending.number)
        answered = self._answer_proven()
        late = now.boot_ns - self._pledges.requested_ns >= ROUND_NS
        if self._pending and (answered or late):
            self._request_pledges(now)

    def _answer_proven(self) -> bool:
        """Answer what is proven; True if anything was."""
        proven = [each for each in self._pending.values() if self._is_proven(each)]
        for pending in proven:
            del self._pending[pending.sender]
            self._send(pending.sender, ReadIndexReply(pending.number, pending.at))
        return bool(proven)

    def _is_proven(self, pending: _Pending) -> bool:
        """True if a majority had followed no later leader when this request was sent.

        Those that pledge on a later request show it as well as those that say so. Stamps are
        compared, not times: a clock that stands still gives two requests one stamp, and a pledge
        on such a request proves nothing.
        """
        voters = self._pledges.since(pending.after_ns)
        if pending.term == pending.led:
            voters.add(pending.sender)
        if self._voter.promised == pending.led:
            voters.add(self._number)
        return self._pledges.quorum.has(voters)

    def _refuse(self, sender: int, number: int) -> None:
        role = self._leadership.role
        why = self._leadership.why or f"its role is {role}"
        self._send(sender, ReadIndexReply(number, 0, f"it does not lead: {why}"))
