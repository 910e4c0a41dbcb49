# SPDX-License-Identifier: Apache-2.0
"""Lease answers: who is answered, when, under which authority, and who is withheld."""

from __future__ import annotations

from typing import Any

from fakes.orders import Seal

from stoker.mesh.replica.authority import LEASE_MS, SILENT_NS, Authority, NodePlace
from stoker.mesh.replica.events import NodeHeard
from stoker.mesh.replica.nodes.lease_answers import BATCH_NS, WAITING_MAX, LeaseAnswers
from stoker.mesh.wire.command import Position
from stoker.mesh.wire.lease_messages import (
    FORMAT,
    GRANTS_MAX,
    LeaseAnswer,
    LeaseGrant,
    LeaseRequest,
    encode_request,
    open_answer,
)

BEGIN = 10**12
AT = Position(3, 100, b"h" * 32)


def authority(*nodes: str, term: int = 3, **changes: Any) -> Authority:
    return Authority("c1", term, tuple(NodePlace(node, AT, 7) for node in nodes), 90, **changes)


class Desk:
    """The answers of one scheduler under an authority over nodes, and a clock."""

    def __init__(self, *nodes: str) -> None:
        self.now_ns = BEGIN
        self.answers = LeaseAnswers(Seal())
        self.answers.grant(authority(*nodes), BEGIN)

    def request(self, node: str, stamp_ns: int = 50, instance: int = 7) -> None:
        nonce = stamp_ns + 1
        data = encode_request(LeaseRequest(FORMAT, node, instance, stamp_ns, nonce, AT))
        self.answers.receive(data, node, self.now_ns)

    def due(self, wait_ns: int = BATCH_NS) -> list[LeaseAnswer]:
        self.now_ns += wait_ns
        return [open_answer(each.data, [Seal()]) for each in self.answers.due(self.now_ns)]


def test_the_only_node_is_answered_at_once() -> None:
    desk = Desk("n1")
    desk.request("n1")
    (answer,) = desk.due(0)
    grant = LeaseGrant("n1", 7, 50, 51, AT.seq, AT.hash)
    assert answer == LeaseAnswer(FORMAT, "c1", 3, False, LEASE_MS, 90, (grant,))
    assert desk.due() == []
    assert desk.answers.counters["lease_answered"] == 1


def test_several_nodes_share_a_signature() -> None:
    desk = Desk("n1", "n2", "n3")
    desk.request("n1")
    assert desk.due(BATCH_NS // 2) == []
    desk.request("n2")
    (answer,) = desk.due(BATCH_NS // 2)
    assert [grant.node for grant in answer.grants] == ["n1", "n2"]


def test_a_large_batch_becomes_several_answers() -> None:
    nodes = [f"n{number}" for number in range(GRANTS_MAX + 3)]
    desk = Desk(*nodes)
    for node in nodes:
        desk.request(node)
    desk.now_ns += BATCH_NS
    sealed = desk.answers.due(desk.now_ns)
    assert [len(each.nodes) for each in sealed] == [GRANTS_MAX, 3]
    assert [node for each in sealed for node in each.nodes] == nodes


def test_only_the_newest_request_of_a_node_is_answered() -> None:
    desk = Desk("n1")
    for stamp_ns, instance in ((60, 7), (90, 7), (50, 7), (100, 8)):
        desk.request("n1", stamp_ns, instance)
    (answer,) = desk.due()
    assert [(grant.instance, grant.stamp_ns) for grant in answer.grants] == [(7, 90)]
    assert desk.answers.counters["lease_request_instance"] == 1


def test_only_new_requests_of_the_known_node_are_signs_of_life() -> None:
    desk = Desk("n1")
    desk.request("n1", 60)
    first = desk.now_ns
    desk.due()
    for stamp_ns, instance in ((60, 7), (50, 7), (100, 8)):
        desk.request("n1", stamp_ns, instance)
    assert desk.answers.heard() == (NodeHeard("n1", first, first),)
    assert desk.answers.counters["lease_request_repeated"] == 2
    assert desk.answers.counters["lease_request_instance"] == 1
    desk.request("n1", 61)
    assert desk.answers.heard() == (NodeHeard("n1", desk.now_ns, first),)


def test_the_row_of_a_node_stays_the_same_until_something_is_new() -> None:
    desk = Desk("n1", "n2")
    desk.request("n1", 60)
    desk.request("n2", 60)
    one, two = desk.answers.heard()
    desk.now_ns += 1
    desk.request("n2", 60)
    assert desk.answers.heard() == (one, two)
    desk.request("n2", 61)
    again, newer = desk.answers.heard()
    assert again is one
    assert newer.heard_ns > two.heard_ns


def test_a_flood_of_one_node_is_answered_once_per_batch() -> None:
    desk, answered = Desk("n1"), 0
    for stamp_ns in range(1, 200):
        desk.request("n1", stamp_ns)
        answered += len(desk.due(BATCH_NS // 10))
    assert answered == 20


def test_a_node_that_is_withheld_is_not_answered() -> None:
    desk = Desk("n1", "n2")
    desk.request("n1")
    last = desk.now_ns
    desk.due()
    desk.answers.withhold("n1")
    desk.request("n1", 60)
    desk.request("n2")
    (answer,) = desk.due()
    assert [grant.node for grant in answer.grants] == ["n2"]
    assert desk.answers.answered_ns("n1") == last < desk.now_ns
    assert desk.answers.answered_ns("n3") is None
    desk.answers.resume("n1")
    desk.request("n1", 70)
    (answer,) = desk.due()
    assert [grant.stamp_ns for grant in answer.grants] == [70]
    assert desk.answers.answered_ns("n1") == desk.now_ns - BATCH_NS, "since its request came"


def test_a_node_that_the_log_does_not_know_is_not_answered() -> None:
    desk = Desk("n1")
    desk.request("n9")
    assert desk.due() == []
    assert desk.answers.counters["lease_request_unanswered"] == 1


def test_without_authority_requests_wait() -> None:
    desk = Desk("n1")
    desk.answers.grant(None, desk.now_ns)
    desk.request("n1")
    assert desk.due() == []
    desk.answers.grant(authority("n1", term=4), desk.now_ns)
    (answer,) = desk.due()
    assert answer.term == 4


def test_a_candidate_says_that_it_only_extends() -> None:
    desk = Desk("n1")
    desk.answers.grant(authority("n1", extend_only=True), BEGIN)
    desk.request("n1")
    (answer,) = desk.due()
    assert answer.extend_only


def test_a_replica_that_has_gone_silent_is_not_spoken_for() -> None:
    desk = Desk("n1")
    desk.now_ns += SILENT_NS - 1
    desk.request("n1")
    assert len(desk.due(0)) == 1
    desk.request("n1", 60)
    assert desk.due() == []
    assert desk.answers.counters["lease_withheld"] == 1
    desk.answers.grant(authority("n1"), desk.now_ns)
    assert len(desk.due(0)) == 1


def test_the_end_of_the_pledges_ends_the_authority() -> None:
    desk = Desk("n1")
    desk.answers.grant(authority("n1", until_ns=BEGIN + 2 * BATCH_NS), BEGIN)
    desk.request("n1")
    assert len(desk.due(2 * BATCH_NS - 1)) == 1
    desk.request("n1", 60)
    assert desk.due() == []
    assert desk.answers.counters["lease_withheld"] == 1


def test_bad_requests_are_counted_and_waiting_ones_bounded() -> None:
    desk = Desk("n1")
    desk.answers.receive(b"\xc1", "n1", BEGIN)
    assert desk.answers.counters["lease_request_refused"] == 1
    for number in range(WAITING_MAX + 2):
        desk.request(f"m{number}")
    assert desk.answers.counters["lease_request_dropped"] == 2


def test_a_request_waits_until_a_majority_has_pledged_after_it_came() -> None:
    """A process that stood still together with its clock cannot know how old its pledges are."""
    desk = Desk("n1")
    desk.answers.grant(authority("n1", until_ns=BEGIN + 10**9, covers_ns=BEGIN), BEGIN)
    desk.request("n1", 50)
    assert desk.due() == [] and desk.answers.answered_ns("n1") is None
    came = desk.now_ns
    desk.request("n1", 60)
    later = came + 10**9
    desk.answers.grant(authority("n1", until_ns=later, covers_ns=came), came)
    (answer,) = desk.due()
    assert [grant.stamp_ns for grant in answer.grants] == [50]
    desk.answers.grant(authority("n1", until_ns=later, covers_ns=came + 1), came)
    (answer,) = desk.due()
    assert [grant.stamp_ns for grant in answer.grants] == [60]
