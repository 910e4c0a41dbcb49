# SPDX-License-Identifier: Apache-2.0
"""The leader's answers to lease requests: which nodes it answers, when, and when it last did.

Without I/O. Guarantees that once `withhold` has returned, no answer for that node is made any more
and `answered_ns` says when the request came that was answered last.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stoker.mesh.identity.identity import Signs
from stoker.mesh.replica.authority import LEASE_MS, SILENT_NS, Authority, NodePlace
from stoker.mesh.replica.events import NodeHeard
from stoker.mesh.wire import lease_messages
from stoker.mesh.wire.lease_messages import GRANTS_MAX, LeaseAnswer, LeaseGrant, LeaseRequest
from stoker.native.errors import BadRequest

BATCH_NS = 50_000_000
"""Requests wait this long at most for others to be answered by one signature, and two answers are
at least this far apart."""
REQUESTS_MAX = 4
"""The most requests of one node that wait to be covered; the oldest are dropped."""
WAITING_MAX = 16_384
"""The most nodes whose requests wait; more nodes may not connect to a broker either."""


class SealedAnswer(NamedTuple):
    """A signed answer and the nodes it is for."""

    nodes: tuple[str, ...]
    data: bytes


class LeaseAnswers:
    """The answers of one process. `grant`, `withhold` and `resume` may be called from another
    thread than the rest. Times are the scheduler's CLOCK_BOOTTIME ns."""

    def __init__(self, signer: Signs) -> None:
        self.counters: Counter[str] = Counter()
        self._signer = signer
        self._lock = threading.Lock()
        self._authority: Authority | None = None
        self._granted_ns = 0
        self._places: dict[str, NodePlace] = {}
        self._withheld: set[str] = set()
        self._answered_ns: dict[str, int] = {}
        self._heard: dict[str, LeaseRequest] = {}
        """The newest request of each node."""
        self._rows: dict[str, NodeHeard] = {}
        """The rows of `heard`, one for each node in `_heard`, made anew when it changes."""
        self._waiting: dict[str, list[_Waiting]] = {}
        """The newest requests of each node, in the order in which they came."""
        self._since_ns = 0
        """The time since which a request has waited."""
        self._batched_ns: int | None = None

    # --- called by the replica's loop -------------------------------------------------------------

    def grant(self, authority: Authority | None, now_ns: int) -> None:
        """Set the authority from now on; None ends it."""
        found = authority.places if authority is not None else ()
        places = {place.node: place for place in found}
        with self._lock:
            self._authority, self._granted_ns, self._places = authority, now_ns, places

    def withhold(self, node: str) -> None:
        """Answer no request of this node, as from the proposal of its eviction on."""
        with self._lock:
            self._withheld.add(node)

    def resume(self, node: str) -> None:
        """Answer this node again: its fate is settled."""
        with self._lock:
            self._withheld.discard(node)

    def answered_ns(self, node: str) -> int | None:
        """Return when the request of this node came that was answered last, before which its lease
        counts; None if there was none."""
        with self._lock:
            return self._answered_ns.get(node)

    def heard(self) -> tuple[NodeHeard, ...]:
        """Return when the newest request of each node came, and the newest that was answered."""
        with self._lock:
            return tuple(self._rows.values())

    # --- called by the thread that answers --------------------------------------------------------

    def receive(self, data: bytes, node: str, now_ns: int) -> None:
        """Note a request that came on the subject of `node`; a bad one is counted."""
        try:
            request = lease_messages.open_request(data, node)
        except BadRequest:
            self.counters["lease_request_refused"] += 1
            return
        with self._lock:
            refused = self._note_heard(request, now_ns)
        if refused:
            self.counters[refused] += 1
            return
        if node not in self._waiting and len(self._waiting) >= WAITING_MAX:
            self.counters["lease_request_dropped"] += 1
            return
        self.counters["lease_request_frozen"] += request.frozen
        if not self._waiting:
            self._since_ns = now_ns
        waiting = self._waiting.setdefault(node, [])
        waiting.append(_Waiting(request, now_ns))
        del waiting[:-REQUESTS_MAX]

    def _note_heard(self, request: LeaseRequest, now_ns: int) -> str:
        """Note a sign of life, or return the counter of the reason why the request is none: the log
        knows another instance of this node, whose lease it must not disturb, or the request is not
        newer than all before, since others may be repeated by anybody."""
        node = request.node
        place, before = self._places.get(node), self._heard.get(node)
        if place is not None and place.instance != request.instance:
            return "lease_request_instance"
        if before is None and len(self._heard) >= WAITING_MAX:
            return ""
        if before is None or before.instance != request.instance or _is_newer(request, before):
            self._heard[node] = request
            self._rows[node] = NodeHeard(node, now_ns, self._answered_ns.get(node))
            return ""
        return "lease_request_repeated"

    def due(self, now_ns: int) -> list[SealedAnswer]:
        """Return the answers that are due now, each for GRANTS_MAX nodes at most."""
        with self._lock:
            authority = self._authority
            if authority is None or not self._is_due(now_ns):
                return []
            if now_ns >= self._ends_ns(authority):
                self.counters["lease_withheld"] += 1
                return []
            self._batched_ns = now_ns
            found = list(self._covered(authority))
            chosen = [each for each in found if self._may_answer(each.request)]
            self.counters["lease_request_unanswered"] += len(found) - len(chosen)
            for each in chosen:
                self._note_answered(each.request.node, each.at_ns)
            requests = [each.request for each in chosen]
            batches = [requests[at : at + GRANTS_MAX] for at in range(0, len(requests), GRANTS_MAX)]
            return [self._seal(authority, batch) for batch in batches]

    def _note_answered(self, node: str, at_ns: int) -> None:
        self._answered_ns[node] = at_ns
        if (row := self._rows.get(node)) is not None:
            self._rows[node] = NodeHeard(node, row.heard_ns, at_ns)

    def _covered(self, authority: Authority) -> Iterator[_Waiting]:
        """Take the newest request of each node that may be answered, and leave those that came too
        lately: only a majority that pledges after a request came shows that no other leader has
        given its node up, however long this process stood still."""
        for node, waiting in list(self._waiting.items()):
            covers_ns = authority.covers_ns
            early = [each for each in waiting if covers_ns is None or each.at_ns < covers_ns]
            if late := waiting[len(early) :]:
                self._waiting[node] = late
            else:
                del self._waiting[node]
            if early:
                yield max(early, key=_stamp)

    def _ends_ns(self, authority: Authority) -> int:
        """Return when the authority ends: with the pledges, or when the replica is silent."""
        silent_ns = self._granted_ns + SILENT_NS
        return silent_ns if authority.until_ns is None else min(silent_ns, authority.until_ns)

    def _is_due(self, now_ns: int) -> bool:
        """True if requests have waited long enough, or no further node can join them."""
        if not self._waiting:
            return False
        if self._batched_ns is not None and now_ns - self._batched_ns < BATCH_NS:
            return False
        return now_ns - self._since_ns >= BATCH_NS or len(self._waiting) >= len(self._places)

    def _may_answer(self, request: LeaseRequest) -> bool:
        """True for the instance of the node that the log knows, unless its fate is undecided."""
        place = self._places.get(request.node)
        known = place is not None and place.instance == request.instance
        return known and request.node not in self._withheld

    def _seal(self, authority: Authority, batch: list[LeaseRequest]) -> SealedAnswer:
        answer = LeaseAnswer(
            lease_messages.FORMAT,
            authority.cluster,
            authority.term,
            authority.extend_only,
            LEASE_MS,
            authority.confirmed,
            tuple(map(self._grant_of, batch)),
        )
        data = lease_messages.seal_answer(answer, self._signer)
        self.counters["lease_answered"] += len(batch)
        return SealedAnswer(tuple(request.node for request in batch), data)

    def _grant_of(self, request: LeaseRequest) -> LeaseGrant:
        at = self._places[request.node].at
        return LeaseGrant(
            request.node, request.instance, request.stamp_ns, request.nonce, at.seq, at.hash
        )


class _Waiting(msgspec.Struct, frozen=True, gc=False):
    """A request and when it came."""

    request: LeaseRequest
    at_ns: int


def _stamp(waiting: _Waiting) -> int:
    return waiting.request.stamp_ns


def _is_newer(request: LeaseRequest, other: LeaseRequest) -> bool:
    """Return True if one request of an instance was made after another one."""
    return request.stamp_ns > other.stamp_ns
