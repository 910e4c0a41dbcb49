# SPDX-License-Identifier: Apache-2.0
"""Held replies are sent once, at the state or at the deadline, and are bounded."""

from __future__ import annotations

import random

import pytest

from stoker.mesh.replica.requests import waiters
from stoker.mesh.replica.requests.waiters import Waiters, reached
from stoker.native.errors import Busy


def tokens(over: list[waiters.Waiter]) -> list[object]:
    return [waiter.token for waiter in over]


def test_a_waiter_is_answered_when_the_state_comes() -> None:
    held = Waiters()
    held.add(1, "ended", 100, "a")
    held.add(1, "running", 100, "b")
    held.add(2, "ended", 100, "c")
    assert tokens(held.changed(1, "starting")) == []
    assert tokens(held.changed(1, "running")) == ["b"]
    assert tokens(held.changed(1, "failed")) == ["a"]
    assert tokens(held.changed(2, None)) == ["c"]
    assert (held.count, held.expired(1000)) == (0, [])


def test_a_waiter_is_answered_at_the_deadline() -> None:
    held = Waiters()
    for deadline in (30, 10, 20):
        held.add(1, "ended", deadline, deadline)
    assert tokens(held.expired(9)) == []
    assert tokens(held.expired(20)) == [10, 20]
    assert tokens(held.changed(1, "lost")) == [30]


def test_bounded_and_no_memory_of_the_answered() -> None:
    held = Waiters(each=8, limit=10)
    for n in range(8):
        held.add(n, "ended", 10**9, n, "alice")
    with pytest.raises(Busy, match=r"alice has 8 held requests.*budget waiters"):
        held.add(99, "ended", 10**9, 99, "alice")
    for n in (8, 9):
        held.add(n, "ended", 10**9, n, "bob")
    with pytest.raises(Busy, match="which is the limit"):
        held.add(99, "ended", 10**9, 99, "carol")
    held.add(99, "ended", 5, "node", "")  # another limit applies
    assert tokens(held.expired(5)) == ["node"]
    for n in range(1000):
        over = held.changed(n % 10, "failed")
        held.add(n % 10, "ended", 10**9, n, over[0].user)
        assert len(held._by_deadline) <= 42
    assert held.count == 10


def test_each_waiter_is_answered_exactly_once() -> None:
    chance = random.Random(5)
    held, told, added = Waiters(), [], 0
    for now in range(2000):
        if chance.random() < 0.6:
            held.add(chance.randrange(20), chance.choice(("running", "ended")), now + 30, added)
            added += 1
        state = chance.choice(("running", "failed", "starting", None))
        told += tokens(held.changed(chance.randrange(20), state))
        told += tokens(held.expired(now))
    told += tokens(held.expired(10**9))
    assert sorted(told) == list(range(added))


def test_states_that_count_as_reached() -> None:
    assert reached("pending", "")
    assert not reached("pending", "running")
    assert reached("running", "running")
    assert not reached("stopping", "ended")
    assert reached("cancelled", "running")
