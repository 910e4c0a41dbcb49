# SPDX-License-Identifier: Apache-2.0
"""A majority is one of the roster at the end of the chain, and pledges count with it."""

from __future__ import annotations

from stoker.mesh.log.genesis import VACANT, RosterMember
from stoker.mesh.replica.log.held_entry import ChainPlace
from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.quorum import Quorum
from stoker.mesh.replica.peers.voter import PLEDGE_NS
from stoker.mesh.wire.peer_messages import Pledge

A, B, C, D = (RosterMember(n, f"U{n}") for n in range(1, 5))
NS = 1_000_000_000


class Chain:
    """The end of a chain, at which the roster is what the test says."""

    def __init__(self, *members: RosterMember) -> None:
        self.members = members
        self.quorum = Quorum(lambda: self.members)


def test_a_vacant_place_counts_for_nothing() -> None:
    chain = Chain(A, VACANT, C)
    assert (chain.quorum.numbers, chain.quorum.majority) == ({1, 3}, 2)
    assert not chain.quorum.has((0, 2, 3)) and chain.quorum.has((1, 3))
    assert chain.quorum.reached({1: 7, 2: 9, 3: 8}) == 7
    assert chain.quorum.reached({1: 7, 2: 9}) == 0


def test_pledges_of_who_left_hold_no_longer() -> None:
    chain = Chain(A, B, C)
    pledges = Pledges(1, chain.quorum)
    pledges.begin(1)
    for voter, stamp in ((1, 3 * NS), (2, 2 * NS)):
        assert pledges.take(Pledge("c", voter, 1, 1, stamp), b"%d" % voter, 3 * NS)
    assert pledges.until_ns == 2 * NS + PLEDGE_NS and pledges.won_ns == 3 * NS
    assert pledges.sealed(1) == (b"2",)
    chain.members = (A, VACANT, C)
    assert pledges.until_ns == 0 and pledges.won_ns == 0 and pledges.sealed(1) == ()
    assert not pledges.hold(3 * NS)
    assert pledges.take(Pledge("c", 3, 1, 1, 4 * NS), b"3", 5 * NS)
    assert pledges.hold(5 * NS - 1) and pledges.won_ns == 5 * NS, "this majority was won anew"


def test_pledges_give_no_authority_to_a_scheduler_that_has_left() -> None:
    chain = Chain(A, B, C)
    pledges = Pledges(1, chain.quorum)
    pledges.begin(1)
    for voter in (1, 2, 3):
        assert pledges.take(Pledge("c", voter, 1, 1, NS), b"", NS)
    chain.members = (VACANT, B, C)
    assert pledges.count == 2 and not pledges.hold(NS)


def test_pledges_give_no_authority_while_a_voter_has_more() -> None:
    pledges, own = Pledges(1, Chain(A, B, C).quorum), ChainPlace(2, 9, b"own")
    pledges.begin(9)
    for voter in (1, 2):
        assert pledges.take(Pledge("c", voter, 1, 9, NS), b"", NS)
    pledges.names_end(2, ChainPlace(1, 30, b"of an older term"))
    assert pledges.best(own) is None and pledges.right_ns(own) == NS + PLEDGE_NS
    longer = ChainPlace(2, 10, b"longer")
    pledges.names_end(2, longer)
    assert pledges.hold(NS), "it may go on to read, and to request what it lacks"
    assert pledges.best(own) == (2, longer) and pledges.right_ns(own) == 0
    assert pledges.right_ns(longer) == NS + PLEDGE_NS
    pledges.names_end(2, ChainPlace(9, 11, b"read in the log"))
    assert pledges.right_ns(own) == NS + PLEDGE_NS, "nobody else appends in its own term"
    pledges.begin(17)
    assert pledges.best(own) is None


def test_a_leader_sees_whether_another_roster_would_let_it_lead() -> None:
    pledges = Pledges(1, Chain(A, B, C).quorum)
    pledges.begin(1)
    for voter in (1, 2):
        assert pledges.take(Pledge("c", voter, 1, 1, NS), b"", NS)
    assert pledges.lets(Chain(A, B).quorum, NS)
    assert not pledges.lets(Chain(A, VACANT, C).quorum, NS)
    assert not pledges.lets(Chain(A, B, C, D).quorum, NS), "three of four must answer"
    assert not pledges.lets(Chain(A, B).quorum, NS + PLEDGE_NS)
