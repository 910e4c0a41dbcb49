# SPDX-License-Identifier: Apache-2.0
"""A vote is free for another candidate only when the last one's pledge ran out by every clock."""

from __future__ import annotations

from stoker.mesh.replica.peers.pledges import Pledges
from stoker.mesh.replica.peers.voter import PLEDGE_NS, Voter
from stoker.mesh.wire.peer_messages import NotPledged, Pledge
from tests.mesh.replica.peers.rosters import quorum

NS = 1_000_000_000
PPM = 1_000_000


def voter(now_ns: int = 0) -> Voter:
    """A voter whose abstention is over at `now_ns`."""
    made = Voter("cluster", 1, 0)
    made.wait_ns(1, now_ns - 2 * PLEDGE_NS)
    return made


def test_a_voter_that_has_just_started_abstains() -> None:
    made = Voter("cluster", 1, 0)
    assert isinstance(made.grant(2, 2, 0, b"", 10 * NS), NotPledged)
    assert isinstance(made.grant(2, 2, 0, b"", 10 * NS + PLEDGE_NS), NotPledged)
    assert isinstance(made.grant(2, 2, 0, b"", 11 * NS + PLEDGE_NS), Pledge)


def test_a_voter_pledges_to_another_only_after_the_last_pledge_ran_out() -> None:
    made = voter()
    assert isinstance(made.grant(2, 2, 0, b"", 0), Pledge)
    refused = made.grant(3, 3, 0, b"", NS)
    assert isinstance(refused, NotPledged) and refused.wait_ns >= PLEDGE_NS - NS
    assert isinstance(made.grant(2, 2, 0, b"", NS), Pledge)
    assert isinstance(made.grant(3, 3, 0, b"", PLEDGE_NS + NS + NS), Pledge)


def test_a_voter_pledges_to_no_older_term() -> None:
    made = voter()
    made.promise(9)
    refused = made.grant(2, 2, 0, b"", NS)
    assert isinstance(refused, NotPledged) and refused.term == 9


def test_a_majority_shows_since_when_no_other_scheduler_had_one() -> None:
    """Every voter of it has waited for the end of its last pledge to another."""
    before, here = Pledges(1, quorum(1, 2, 3)), Pledges(1, quorum(1, 2, 3))
    there = [voter(), voter()]
    before.begin(2)
    for number, each in enumerate(there, 1):
        each._number = number
        answer = each.grant(2, 2, NS, b"", NS)
        assert isinstance(answer, Pledge) and before.take(answer, b"", NS)
    here.begin(3)
    now_ns = NS
    while not here.won_ns:
        now_ns += NS // 100
        for each in there:
            answer = each.grant(3, 3, now_ns, b"", now_ns)
            if isinstance(answer, Pledge):
                here.take(answer, b"", now_ns)
    assert NS <= here.others_ns <= NS + NS // 50
    here.begin(4)
    assert here.won_ns == 0


def test_clocks_that_drift_apart_by_1000_ppm_never_let_two_hold_one_vote() -> None:
    made, first = voter(), Pledges(1, quorum(1))
    first.begin(2)
    answer = made.grant(2, 2, 0, b"", 0)
    assert isinstance(answer, Pledge) and first.take(answer, b"", 0)
    asked_ns = 0
    while not isinstance(made.grant(3, 3, 0, b"", asked_ns), Pledge):
        asked_ns += NS // 10_000
    slow_ns = asked_ns * (PPM - 1000) // PPM
    assert not first.hold(slow_ns)


def test_a_vote_that_is_set_free_is_free_at_once_and_says_that_it_is_early() -> None:
    made = voter()
    made.grant(2, 2, 0, b"", 0)
    made.free(2, 2, NS)
    assert isinstance(made.grant(3, 3, NS, b"", NS), Pledge)
    assert made.is_early(NS) and made.is_early(PLEDGE_NS)
    assert not made.is_early(PLEDGE_NS + NS // 10)


def test_only_the_holder_sets_it_free_and_only_from_its_last_term() -> None:
    made = voter()
    made.grant(2, 5, 0, b"", 0)
    made.free(3, 5, NS)
    made.free(2, 2, NS)
    assert made.wait_ns(3, NS) > 0 and not made.is_early(NS)


def test_nobody_sets_free_a_voter_that_has_just_started() -> None:
    made = Voter("cluster", 1, 0)
    made.wait_ns(1, NS)
    made.free(0, 0, NS)
    made.free(2, 2, NS)
    assert made.wait_ns(2, NS) > 0


def test_a_majority_with_an_early_pledge_shows_nothing_from_before_it() -> None:
    for early in (False, True):
        made = Pledges(1, quorum(1, 2, 3))
        made.begin(3)
        for number in (1, 2):
            pledge = Pledge("cluster", number, 3, 3, 9 * NS)
            assert made.take(pledge, b"", 9 * NS, early=early and number == 1)
        assert made.others_ns == (9 * NS if early else 9 * NS - PLEDGE_NS)
    made.begin(4)
    assert made.take(Pledge("cluster", 1, 4, 4, 10 * NS), b"", 10 * NS)
    assert made.take(Pledge("cluster", 2, 4, 4, 10 * NS), b"", 10 * NS)
    assert made.others_ns == 10 * NS - PLEDGE_NS


def test_a_voter_that_voted_last_for_itself_abstains_from_others_alone() -> None:
    made = Voter("cluster", 1, 9)
    made.voted_for_itself()
    assert made.wait_ns(1, 0) == 0 and made.wait_ns(2, 0) > PLEDGE_NS
    assert isinstance(made.grant(2, 10, 0, b"", 1), NotPledged)
    assert isinstance(made.grant(1, 17, 0, b"", 1), Pledge)
    assert made.is_early(1), "another one may have resigned to the process before this one"
