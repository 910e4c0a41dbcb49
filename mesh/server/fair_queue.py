# SPDX-License-Identifier: Apache-2.0
"""Fair queueing of requests: each user has a queue, and the queues are served round-robin.

Pure; time comes in as an argument. Guarantees that one user's flood delays another user by at most
the work of one request, and that every queue is bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, NamedTuple, TypeVar

from stoker.mesh.broker.budgets import REPLY_BYTES_PER_S, Budgets, busy
from stoker.scheduler.figures import size as size_of

T = TypeVar("T")
NS = 1_000_000_000
BURST_NS = NS
"""A user may run ahead of a rate by this much: one second's worth."""


class Rate:
    """A rate limit with a burst of one second's worth, kept as the moment until which it is
    spent."""

    __slots__ = ("_until_ns", "per_s")

    def __init__(self, per_s: int) -> None:
        self.per_s = per_s
        self._until_ns = 0

    def spend(self, amount: int, now_ns: int) -> None:
        """Spend this amount, also beyond the limit; later requests wait for it."""
        self._until_ns = max(self._until_ns, now_ns) + amount * NS // self.per_s

    def ready_ns(self) -> int:
        """Return the moment from which on something may be spent."""
        return self._until_ns - BURST_NS


class _Queue(Generic[T]):
    """One user's waiting requests, and the number and bytes of those in flight."""

    def __init__(self, budgets: Budgets) -> None:
        self.waiting: deque[tuple[T, int]] = deque()
        self.bytes = 0
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.requests = Rate(budgets.requests_per_s)
        self.refusals = Rate(budgets.refusals_per_s)
        self.replies = Rate(budgets.reply_bytes_per_s)

    def ready_ns(self) -> int:
        return max(self.requests.ready_ns(), self.replies.ready_ns())

    def idle(self, now_ns: int) -> bool:
        """Return True if this user's queue can be dropped without losing anything."""
        return not self.waiting and not self.in_flight and self.ready_ns() + BURST_NS <= now_ns


class Next(NamedTuple, Generic[T]):
    """The next request; None if there is none before `at_ns`, or before another event if that is
    0."""

    item: T | None
    at_ns: int = 0


class FairQueue(Generic[T]):
    """The queues of all users, in the order in which they are served."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets
        self._queues: OrderedDict[str, _Queue[T]] = OrderedDict()
        self._replies = Rate(max(REPLY_BYTES_PER_S, budgets.reply_bytes_per_s))
        self.refused = 0

    def __len__(self) -> int:
        return len(self._queues)

    def offer(self, user: str, item: T, size: int) -> None:
        """Queue a request of `size` bytes; Busy if too many requests of this user wait."""
        queue = self._queue(user)
        budgets = self._budgets
        if len(queue.waiting) >= budgets.queued:
            self.refused += 1
            raise busy(user, "queued", budgets.queued, "requests waiting to be served")
        if queue.waiting and queue.bytes + size > budgets.queued_bytes:
            self.refused += 1
            raise busy(user, "queued_bytes", size_of(budgets.queued_bytes), "of requests waiting")
        queue.waiting.append((item, size))
        queue.bytes += size

    def answers_refusal(self, user: str, now_ns: int) -> bool:
        """Return True if one more refusal is sent to this user; refusals have a rate too."""
        refusals = self._queue(user).refusals
        if refusals.ready_ns() > now_ns:
            return False
        refusals.spend(1, now_ns)
        return True

    def next(self, now_ns: int) -> Next[T]:
        """Take the next request; its user is then the last in the order."""
        soonest = 0
        floor_ns = self._replies.ready_ns()
        for user in list(self._queues):
            queue = self._queues[user]
            if not queue.waiting:
                if queue.idle(now_ns):
                    del self._queues[user]
                continue
            if self._is_full(queue):
                continue
            ready_ns = max(queue.ready_ns(), floor_ns)
            if ready_ns > now_ns:
                soonest = min(soonest or ready_ns, ready_ns)
                continue
            item, size = queue.waiting.popleft()
            queue.bytes -= size
            queue.requests.spend(1, now_ns)
            self._queues.move_to_end(user)
            return Next(item)
        return Next(None, soonest)

    def begin(self, user: str, size: int) -> None:
        """Count a request of this user on its way into the log."""
        queue = self._queue(user)
        queue.in_flight += 1
        queue.in_flight_bytes += size

    def end(self, user: str, size: int) -> None:
        """Subtract an answered request of this user."""
        queue = self._queue(user)
        queue.in_flight -= 1
        queue.in_flight_bytes -= size

    def replied(self, user: str, size: int, now_ns: int) -> None:
        """Charge a reply of `size` bytes to this user."""
        self._queue(user).replies.spend(size, now_ns)
        self._replies.spend(size, now_ns)

    def _is_full(self, queue: _Queue[T]) -> bool:
        budgets = self._budgets
        return (
            queue.in_flight >= budgets.in_flight or queue.in_flight_bytes >= budgets.in_flight_bytes
        )

    def _queue(self, user: str) -> _Queue[T]:
        queue = self._queues.get(user)
        if queue is None:
            queue = self._queues[user] = _Queue(self._budgets)
        return queue
