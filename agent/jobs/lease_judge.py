# SPDX-License-Identifier: Apache-2.0
"""The node's judge of lease answers: what it requested, and what an answer to it is worth.

Pure. Owns the arithmetic of a lease: it never lasts longer than the stamp that this process noted
for an answered request, plus the lease. So no delay, order, repetition or forgery lengthens it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stoker.mesh.identity.identity import Checks
from stoker.mesh.wire import lease_messages
from stoker.mesh.wire.command import Position
from stoker.mesh.wire.lease_messages import LeaseAnswer, LeaseGrant, LeaseRequest
from stoker.native.errors import BadRequest, Denied

UNKNOWN = "lease_signature"
"""The counter of answers that no scheduler signed who is known here."""
OUTSTANDING_MAX = 64
"""The most requests that may still be answered; the oldest are given up."""
CALM_NS = 1_000_000_000
HURRY_NS = 250_000_000
"""The time between two requests: as long as the lease lasts CALM_LEFT_NS more, and else."""
CALM_LEFT_NS = 3_000_000_000


class Freeze(NamedTuple):
    """A freeze of the node's jobs: its number, and when it began (CLOCK_BOOTTIME ns)."""

    epoch: int
    since_ns: int


class LeaseHolder(NamedTuple):
    """The node that holds the lease; `instance` is as in `NodeReport`."""

    cluster: str
    node: str
    instance: int


class LeaseExtended(NamedTuple):
    """An answer that counts."""

    expiry_ns: int
    """The end of the lease (CLOCK_BOOTTIME), which never moves back."""
    at: Position
    """The last command that the leader has sent to this node."""
    stamp_ns: int
    """The stamp of the request that it answers."""


class LeaseRefused(NamedTuple):
    """An answer that counts for nothing; `counter` names the reason."""

    counter: str


class LeaseJudge:
    """The requests and answers of one process. Times are CLOCK_BOOTTIME ns.

    `members` are the keys of the schedulers by position in the roster, `new_nonce` draws a random
    number below 2**63, and `expiry_ns` is the end of the lease that an earlier process held.
    """

    def __init__(
        self,
        holder: LeaseHolder,
        members: Sequence[Checks | None],
        new_nonce: Callable[[], int],
        expiry_ns: int = 0,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.expiry_ns = expiry_ns
        self._holder = holder
        self._members = members
        self._new_nonce = new_nonce
        self._outstanding: dict[int, int] = {}
        """The stamp of each request without an answer, by nonce, oldest first."""
        self._requested_ns: int | None = None
        self._term = 0

    def due_ns(self) -> int:
        """Return when the next request is due; 0 before the first one."""
        if self._requested_ns is None:
            return 0
        calm_ns = min(self._requested_ns + CALM_NS, self.expiry_ns - CALM_LEFT_NS)
        return max(self._requested_ns + HURRY_NS, calm_ns)

    def request(self, now_ns: int, position: Position, *, frozen: bool) -> bytes:
        """Note a new request, made now, and return its bytes."""
        if len(self._outstanding) >= OUTSTANDING_MAX:
            del self._outstanding[next(iter(self._outstanding))]
            self.counters["lease_unanswered"] += 1
        nonce = self._new_nonce()
        self._outstanding[nonce] = self._requested_ns = now_ns
        holder = self._holder
        return lease_messages.encode_request(
            LeaseRequest(
                lease_messages.FORMAT,
                holder.node,
                holder.instance,
                now_ns,
                nonce,
                position,
                frozen,
            )
        )

    def judge(
        self, data: bytes, now_ns: int, position: Position, freeze: Freeze | None
    ) -> LeaseExtended | LeaseRefused:
        """Judge an answer for a node that follows its commands up to `position`.

        `freeze` is the freeze of its jobs at this moment, or None while they run.
        """
        verdict = self._judge(data, now_ns, position, freeze)
        counter = "lease_renewed" if isinstance(verdict, LeaseExtended) else verdict.counter
        self.counters[counter] += 1
        return verdict

    def _judge(
        self, data: bytes, now_ns: int, position: Position, freeze: Freeze | None
    ) -> LeaseExtended | LeaseRefused:
        answer = self._open(data, position)
        if isinstance(answer, LeaseRefused):
            return answer
        grant = self._own(answer)
        if grant is None:
            return LeaseRefused("lease_node")
        stamp_ns = self._outstanding.get(grant.nonce)
        if stamp_ns is None or stamp_ns != grant.stamp_ns:
            return LeaseRefused("lease_nonce")
        expiry_ns = stamp_ns + answer.lease_ms * 1_000_000
        if why := self._worthless(answer, stamp_ns, expiry_ns, now_ns, freeze):
            return LeaseRefused(why)
        self._settle(answer.term, stamp_ns)
        self.expiry_ns = max(self.expiry_ns, expiry_ns)
        at = Position(answer.term, grant.seq, grant.hash)
        return LeaseExtended(self.expiry_ns, at, stamp_ns)

    def _open(self, data: bytes, position: Position) -> LeaseAnswer | LeaseRefused:
        """Return an answer of this cluster whose term is not below the newest one known here."""
        try:
            answer = lease_messages.open_answer(data, self._members)
        except Denied:
            return LeaseRefused(UNKNOWN)
        except BadRequest:
            return LeaseRefused("lease_format")
        if answer.cluster != self._holder.cluster:
            return LeaseRefused("lease_cluster")
        if answer.term < max(self._term, position.term):
            return LeaseRefused("lease_term")
        return answer

    def _own(self, answer: LeaseAnswer) -> LeaseGrant | None:
        """Return the newest grant of the answer for this node."""
        own = (self._holder.node, self._holder.instance)
        grants = [grant for grant in answer.grants if (grant.node, grant.instance) == own]
        return max(grants, key=lambda grant: grant.stamp_ns, default=None)

    def _worthless(
        self, answer: LeaseAnswer, stamp_ns: int, expiry_ns: int, now_ns: int, freeze: Freeze | None
    ) -> str:
        """Return the counter of the reason why an answer to an own request renews nothing."""
        if expiry_ns <= now_ns:
            return "lease_late"
        if freeze is not None and stamp_ns <= freeze.since_ns:
            return "lease_before_freeze"
        if answer.extend_only and (freeze is not None or self.expiry_ns <= now_ns):
            return "lease_extend_only"
        return ""

    def _settle(self, term: int, stamp_ns: int) -> None:
        """Note an answer that counts. Older requests are given up, so only rising stamps count."""
        self._term = term
        rest = {nonce: at for nonce, at in self._outstanding.items() if at > stamp_ns}
        self._outstanding = rest
