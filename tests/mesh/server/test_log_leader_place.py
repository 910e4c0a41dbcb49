# SPDX-License-Identifier: Apache-2.0
"""The log's leader moves off the host of the leading scheduler, and only while all is well."""

from __future__ import annotations

from stoker.mesh.server.log_leader_place import AGAIN_NS, SETTLED_NS, LogLeaderPlace
from stoker.mesh.wire.schema_cluster import LogCopy, LogView

NAMES = ("first", "second", "third")


def log_of(leader: str, *behind: str) -> LogView:
    copies = (LogCopy(server=name, current=name not in behind) for name in NAMES)
    return LogView(leader=leader, copies=tuple(copies))


def settled() -> LogLeaderPlace:
    """The view of a scheduler that leads since moment 0."""
    made = LogLeaderPlace("first")
    assert not made.is_due(log_of("first"), 0, leads=True)
    return made


def test_a_log_that_the_leading_schedulers_broker_leads_moves_once() -> None:
    made = settled()
    assert not made.is_due(log_of("first"), SETTLED_NS - 1, leads=True)
    assert made.is_due(log_of("first"), SETTLED_NS, leads=True)
    assert not made.is_due(log_of("first"), SETTLED_NS + AGAIN_NS - 1, leads=True)
    assert made.is_due(log_of("first"), SETTLED_NS + AGAIN_NS, leads=True)


def test_a_log_that_another_broker_leads_or_nobody_stays() -> None:
    for found in (log_of("second"), log_of(""), None):
        assert not settled().is_due(found, SETTLED_NS, leads=True)


def test_a_log_with_a_copy_that_is_behind_stays_since_an_election_might_follow() -> None:
    assert not settled().is_due(log_of("first", "third"), SETTLED_NS, leads=True)


def test_one_broker_alone_keeps_its_log() -> None:
    alone = LogView(leader="first", copies=(LogCopy(server="first", current=True),))
    assert not settled().is_due(alone, SETTLED_NS, leads=True)


def test_a_follower_moves_nothing_and_a_leader_waits_from_its_beginning() -> None:
    made = settled()
    assert not made.is_due(log_of("first"), SETTLED_NS, leads=False)
    assert not made.is_due(log_of("first"), 2 * SETTLED_NS, leads=True)
    assert made.is_due(log_of("first"), 3 * SETTLED_NS, leads=True)
