# SPDX-License-Identifier: Apache-2.0
"""A name means the node that had it at an entry, and removed nodes are known when they return."""

from __future__ import annotations

from stoker.scheduler import departures
from stoker.scheduler.departures import Departure, Departures
from stoker.scheduler.nouns import NodeReport


def departure(node: str, index: int, key: str = "", instance: int = 0) -> Departure:
    return Departure(node, key, instance, index, index * 10, "worn out")


def report(node: str, key: str = "", instance: int = 0) -> NodeReport:
    return NodeReport(node, "boot", 1, 1, 1, instance=instance, key=key)


def test_a_name_means_the_node_that_had_it_at_an_entry() -> None:
    known = Departures([departure("b", 10), departure("a", 15), departure("b", 20)])
    assert [known.after("b", index) for index in (1, 9)] == [departure("b", 10)] * 2
    assert known.after("b", 10) == known.after("b", 19) == departure("b", 20)
    assert known.after("b", 20) is None and known.after("c", 1) is None
    assert known.newest("b") == departure("b", 20) and known.newest("c") is None


def test_a_removed_node_is_known_by_its_key_or_its_instance() -> None:
    known = Departures([departure("b", 10, "K1", 7)])
    assert known.of(report("b", "K1", 8)) is not None, "its host has booted again"
    assert known.of(report("b", "K2", 7)) is not None, "its key has changed meanwhile"
    assert known.of(report("b", "K2", 8)) is None, "another host has its name"
    assert known.of(report("a", "K1", 7)) is None, "no node can remove another by its key"
    keyless = Departures([departure("b", 10, "", 7)])
    assert keyless.of(report("b", "", 7)) is not None
    assert keyless.of(report("b", "", 8)) is None


def test_the_newest_are_kept() -> None:
    known = Departures()
    for index in range(departures.KEPT + 2):
        known.note(departure("b", index))
    assert len(list(known)) == departures.KEPT
    assert next(iter(known)).index == 2
