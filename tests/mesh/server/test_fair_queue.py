# SPDX-License-Identifier: Apache-2.0
"""Fair queues: round-robin service, rates, and bounds in number and bytes."""

from __future__ import annotations

import pytest

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.server.fair_queue import NS, FairQueue
from stoker.native.errors import Busy


def drained(queue: FairQueue[str], now_ns: int = 0) -> list[str]:
    found: list[str] = []
    while (following := queue.next(now_ns)).item is not None:
        found.append(following.item)
    return found


def test_one_users_flood_costs_another_one_request() -> None:
    queue: FairQueue[str] = FairQueue(Budgets())
    for number in range(100):
        queue.offer("mallory", f"m{number}", 10)
    queue.offer("alice", "a0", 10)
    queue.offer("alice", "a1", 10)
    queue.offer("bob", "b0", 10)
    assert drained(queue)[:6] == ["m0", "a0", "b0", "m1", "a1", "m2"]


def test_refusals_have_a_rate_per_user() -> None:
    queue: FairQueue[str] = FairQueue(Budgets(refusals_per_s=10))
    assert sum(queue.answers_refusal("mallory", 0) for _ in range(100)) == 11
    assert queue.answers_refusal("alice", 0)
    assert sum(queue.answers_refusal("mallory", NS) for _ in range(100)) == 10


def test_requests_of_one_user_keep_their_order() -> None:
    queue: FairQueue[str] = FairQueue(Budgets())
    for number in range(50):
        queue.offer("alice", str(number), 1)
    assert drained(queue) == [str(number) for number in range(50)]


def test_a_full_queue_refuses_its_own_user_alone() -> None:
    queue: FairQueue[str] = FairQueue(Budgets(queued=3, queued_bytes=100))
    for _ in range(3):
        queue.offer("mallory", "m", 10)
    with pytest.raises(Busy, match=r"mallory has 3 requests waiting.*budget queued\)"):
        queue.offer("mallory", "m", 10)
    queue.offer("alice", "a", 1000)  # the first may be of any size
    with pytest.raises(Busy, match="budget queued_bytes"):
        queue.offer("alice", "a", 1)
    queue.offer("bob", "b", 10)
    assert queue.refused == 2


def test_a_rate_delays_only_its_own_user() -> None:
    queue: FairQueue[str] = FairQueue(Budgets(requests_per_s=10))
    for _ in range(30):
        queue.offer("mallory", "m", 1)
    assert len(drained(queue)) == 11  # one second's worth, and the one that exceeds it
    queue.offer("alice", "a", 1)
    following = queue.next(0)
    assert following.item == "a"
    at_ns = queue.next(0).at_ns
    assert 0 < at_ns <= NS
    assert queue.next(at_ns - 1).item is None
    assert queue.next(at_ns).item == "m"


def test_replies_are_paid_for_by_who_gets_them() -> None:
    queue: FairQueue[str] = FairQueue(Budgets(reply_bytes_per_s=1000))
    queue.offer("mallory", "m", 1)
    queue.replied("mallory", 5000, 0)
    assert queue.next(0) == (None, 4 * NS)
    queue.offer("alice", "a", 1)
    assert queue.next(0).item == "a"
    assert queue.next(4 * NS).item == "m"


def test_requests_in_flight_are_bounded_per_user() -> None:
    queue: FairQueue[str] = FairQueue(Budgets(in_flight=2))
    for user in ("mallory", "mallory", "alice"):
        queue.begin(user, 100)
    for user in ("mallory", "alice"):
        queue.offer(user, user, 1)
    assert drained(queue) == ["alice"]
    queue.end("mallory", 100)
    assert drained(queue) == ["mallory"]


def test_users_who_are_gone_are_forgotten() -> None:
    queue: FairQueue[str] = FairQueue(Budgets())
    for number in range(1000):
        queue.offer(f"u{number}", "x", 1)
    queue.begin("busy", 1)
    assert len(drained(queue)) == 1000
    assert queue.next(10 * NS).item is None
    assert len(queue) == 1
