# SPDX-License-Identifier: Apache-2.0
"""A replica stands when its vote is free, after a pause of its own, and not once it is to end."""

from __future__ import annotations

import pytest

from stoker.mesh.replica.peers.candidacy import CAMPAIGN_NS, ROOM_NS, TRIES, Candidacy
from stoker.mesh.replica.peers.voter import PLEDGE_NS, Voter

FREE_NS = 10 * PLEDGE_NS


@pytest.fixture
def candidacy() -> Candidacy:
    """The plans of a replica whose own vote is free at FREE_NS."""
    voter = Voter("cluster", 1, 0)
    voter.wait_ns(1, FREE_NS - 2 * PLEDGE_NS)
    return Candidacy(7, 1, voter)


def test_it_waits_for_a_chance_of_its_own(candidacy: Candidacy) -> None:
    assert not candidacy.is_due(FREE_NS, fit=True)
    assert not candidacy.is_due(FREE_NS + CAMPAIGN_NS[0] - 1, fit=True)
    assert candidacy.is_due(FREE_NS + CAMPAIGN_NS[1], fit=True)


def test_one_that_could_not_lead_begins_to_wait_when_it_can(candidacy: Candidacy) -> None:
    later = FREE_NS + 2 * CAMPAIGN_NS[1]
    assert not candidacy.is_due(FREE_NS, fit=True)
    assert not candidacy.is_due(later, fit=False)
    assert not candidacy.is_due(later, fit=True)
    assert candidacy.is_due(later + CAMPAIGN_NS[1], fit=True)


def test_a_vote_that_is_bound_puts_it_off() -> None:
    voter = Voter("cluster", 1, 0)
    made = Candidacy(7, 1, voter)
    made.stand_at(0)
    assert not made.is_due(FREE_NS, fit=True), "it has just started"
    assert not made.is_due(FREE_NS + 2 * PLEDGE_NS, fit=True), "it waits for a chance again"


def test_it_stands_at_the_moment_that_was_set(candidacy: Candidacy) -> None:
    candidacy.stand_at(FREE_NS + 1)
    assert not candidacy.is_due(FREE_NS, fit=True)
    assert candidacy.is_due(FREE_NS + 1, fit=True)


def test_one_that_is_to_end_stands_no_more(candidacy: Candidacy) -> None:
    candidacy.stand_at(FREE_NS)
    candidacy.is_over = True
    assert not candidacy.is_due(FREE_NS, fit=True)


def test_one_that_loses_again_and_again_leaves_the_others_room(candidacy: Candidacy) -> None:
    now = FREE_NS
    for _ in range(TRIES - 1):
        candidacy.rest(now)
        candidacy.lost(now)
        assert candidacy.is_due(now + CAMPAIGN_NS[1], fit=True)
    candidacy.rest(now)
    candidacy.lost(now)
    assert not candidacy.is_due(now + PLEDGE_NS + CAMPAIGN_NS[1], fit=True)
    assert candidacy.is_due(now + ROOM_NS + CAMPAIGN_NS[1], fit=True)
    candidacy.won()
    candidacy.rest(now)
    candidacy.lost(now)
    assert candidacy.is_due(now + CAMPAIGN_NS[1], fit=True), "it counts anew"
