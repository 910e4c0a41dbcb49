# SPDX-License-Identifier: Apache-2.0
"""A node is read up to its rate, and one that sends more takes nothing from the others."""

from __future__ import annotations

from collections import Counter

import pytest

from stoker.mesh.server import node_door
from stoker.mesh.server.node_door import TELL_NS, NodeDoor
from stoker.mesh.wire import subjects

S = 1_000_000_000
NOW = 50 * S
ONE, TWO = map(subjects.observation, ("n1", "n2"))


class Door:
    """A door for observations, and what it counted."""

    def __init__(self, per_s: int = 5) -> None:
        self.counted: Counter[str] = Counter()
        self.door = NodeDoor(lambda _: per_s, subjects.parse_observation, self._count)

    def _count(self, name: str) -> None:
        self.counted[name] += 1

    def read(self, subject: str, messages: int, now_ns: int) -> int:
        """Return the number of messages that are read, of so many at one moment."""
        return sum(self.door.admits(subject, now_ns) for _ in range(messages))


def test_what_a_node_sends_beyond_its_rate_is_dropped_and_counted() -> None:
    door = Door()
    assert door.read(ONE, 1000, NOW) == 6, "a second's worth, and the one that spends it"
    assert door.counted == {"node_message_unread": 994}
    assert door.read(ONE, 1000, NOW + S) == 5
    assert door.read(TWO, 3, NOW + S) == 3, "the other node has a rate of its own"


def test_who_stays_within_the_rate_is_always_read() -> None:
    door = Door()
    assert all(door.read(ONE, 1, NOW + tick * S // 5) for tick in range(500))
    assert not door.counted and list(door.door.due(NOW + 200 * S, NOW)) == []


def test_each_node_that_sends_too_much_is_told_once_in_a_while() -> None:
    door = Door()
    door.read(ONE, 100, NOW)
    (row,) = door.door.due(NOW, 7)
    assert (row.what, row.node, row.t_ns) == ("node.flooded", "n1", 7)
    assert row.reason == "it sends more than a node may: 94 messages on obs.n1 were not read"
    door.read(ONE, 100, NOW)
    assert list(door.door.due(NOW + TELL_NS - 1, 8)) == []
    (row,) = door.door.due(NOW + TELL_NS, 9)
    assert "100 messages" in row.reason


def test_of_messages_that_are_none_one_is_told_and_each_costs_a_seconds_worth() -> None:
    door = Door()
    assert door.read(ONE, 3, NOW) == 3
    assert [door.door.blame(ONE, NOW) for _ in range(9)] == [True] + [False] * 8
    assert door.read(ONE, 1, NOW + S // 2) == 0
    assert door.read(ONE, 1, NOW + 2 * S) == 1, "no node is kept out for long"


def test_the_subjects_that_are_told_apart_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_door, "SUBJECTS_MAX", 4)
    door = Door()
    for number in range(100):
        door.read(subjects.observation(f"n{number}"), 100, NOW)
        list(door.door.due(NOW, NOW))
        assert max(len(door.door._rates), len(door.door._told_ns)) <= 4
