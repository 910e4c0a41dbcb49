# SPDX-License-Identifier: Apache-2.0
"""The auditor of authority notices each vote, act and promise that must never be."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import World
from stoker.mesh.log import entry as entries
from stoker.mesh.log.held_entries import FORGOTTEN
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from stoker.mesh.sim.timeline import MS, SECOND
from stoker.mesh.wire.term_owner import next_term
from tests.agent.sim.quiet_world import leader_of, quiet_world


@pytest.fixture
def world() -> World:
    return quiet_world()


def follower_of(world: World) -> SchedulerProcess:
    leader = leader_of(world)
    return next(each for each in world.schedulers if each is not leader)


def found(world: World) -> str:
    """The only violation."""
    (sentence,) = world.audit.violations
    return sentence


def test_a_second_vote_within_the_pledge_is_noticed(world: World) -> None:
    leader, other = leader_of(world), follower_of(world)
    term = next_term(other.disk.promised, other.number - 1)
    world.around.watch.authority.voted(leader, other.number, term)
    assert f"pledges to scheduler {other.number}" in found(world)


def test_a_vote_after_the_last_one_ran_out_is_right(world: World) -> None:
    leader, other = leader_of(world), follower_of(world)
    for each in world.schedulers:
        each.crash()
    world.timeline.run(world.timeline.now + 2 * SECOND + 2 * MS)
    term = next_term(other.disk.promised, other.number - 1)
    world.around.watch.authority.voted(leader, other.number, term)
    assert world.audit.violations == []


def test_a_vote_in_the_term_of_another_is_noticed(world: World) -> None:
    leader = leader_of(world)
    term = next_term(leader.disk.promised, leader.number % 3)
    world.around.watch.authority.voted(leader, leader.number, term)
    assert f"pledges term {term} to scheduler {leader.number}" in found(world)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_voter_that_forgot_may_not_forget_what_a_majority_stored(
    world: World, is_stored: bool
) -> None:
    authority, candidate = world.around.watch.authority, leader_of(world)
    voter = follower_of(world)
    for each in world.schedulers:
        each.crash()
    world.timeline.run(world.timeline.now + 2 * SECOND + 2 * MS)
    before = voter.disk.promised
    term = next_term(before, candidate.number - 1)
    for each in (candidate, voter):
        authority.voted(each, candidate.number, term)
    voter.disk.promised = term
    authority.told(voter, term)
    if is_stored:  # else the candidate has died before its own vote was on its disk
        candidate.disk.promised = term
    voter.disk.floor, voter.disk.promised = FORGOTTEN, before
    authority.began(voter, 0)
    authority.told(voter, before)
    expected = [f"{voter.name} follows term {before} after term {term}"] if is_stored else []
    assert world.audit.violations == expected


def test_an_act_without_pledges_is_noticed(world: World) -> None:
    authority, leader, other = world.around.watch.authority, leader_of(world), follower_of(world)
    authority.acts(leader, "answers")
    assert world.audit.violations == []
    authority.acts(other, "answers")
    assert found(world) == f"{other.name} answers with the pledges of 0 schedulers"


def test_an_act_long_after_the_last_vote_is_noticed(world: World) -> None:
    leader = leader_of(world)
    for each in world.schedulers:
        each.crash()
    world.timeline.run(world.timeline.now + 3 * SECOND)
    world.around.watch.authority.acts(leader, "answers")
    assert "answers with the pledges of 0 schedulers" in found(world)


def test_two_that_hold_pledges_at_once_are_noticed(world: World) -> None:
    leader, other = leader_of(world), follower_of(world)
    held_ns = leader.replica.right._peers.pledges.until_ns
    drift = other.clock.boot() - leader.clock.boot()
    other.replica.right._peers.pledges._until_ns = held_ns + drift
    world.around.watch.authority.acts(leader, "answers")
    assert found(world) == f"{leader.name} answers while {other.name} holds pledges, too"


def test_a_clock_that_stood_still_is_no_violation(world: World) -> None:
    leader, other = leader_of(world), follower_of(world)
    other.replica.right._peers.pledges._until_ns = 1 << 62
    other.pause(clock=False)
    world.around.watch.authority.acts(leader, "answers")
    assert world.audit.violations == []


def test_a_promise_that_goes_back_is_noticed(world: World) -> None:
    other, authority = follower_of(world), world.around.watch.authority
    promised = other.disk.promised
    authority.began(other, promised)
    assert world.audit.violations == []
    authority.began(other, promised - 1)
    assert f"begins with the promise of term {promised - 1}" in found(world)
    authority.told(other, promised - 1)
    assert "follows term" in world.audit.violations[1]


def test_a_scheduler_without_memory_must_learn_what_a_majority_counts_on(world: World) -> None:
    authority, other = world.around.watch.authority, follower_of(world)
    promised = other.disk.promised
    other.disk.lose()
    authority.began(other, 0)
    assert world.audit.violations == []
    authority.told(other, promised - 1)
    assert f"follows term {promised - 1} after term {promised}" in world.audit.violations[0]


def test_a_promise_that_is_not_on_disk_is_noticed(world: World) -> None:
    other = follower_of(world)
    told = other.disk.promised + 8
    world.around.watch.authority.told(other, told)
    assert f"tells term {told}, and its disk has {told - 8}" in found(world)


def test_an_entry_that_nobody_appended_is_noticed(world: World) -> None:
    known = world.audit.known[world.audit.last]
    authority = world.around.watch.authority
    authority.applied("other", known.entry, known.hash)
    assert world.audit.violations == []
    authority.applied("other", known.entry, bytes(32))
    assert "which no scheduler has appended" in found(world)


def test_entries_that_a_scheduler_may_not_append_are_noticed(world: World) -> None:
    leader, authority = leader_of(world), world.around.watch.authority
    data = leader.disk.held[-1][1]
    opened = entries.unseal(0, data)
    authority.appends(leader, opened)
    assert world.audit.violations == []
    authority.appends(leader, opened._replace(hash=bytes(32)))
    assert "makes two entries" in found(world)
    fields = {name: getattr(opened.entry, name) for name in opened.entry.__struct_fields__}
    stolen = type(opened.entry)(**{**fields, "term": opened.entry.term + 1, "prev_index": 9999})
    authority.appends(leader, opened._replace(entry=stolen, hash=b"x" * 32))
    assert f"appends in term {stolen.term} of another" in world.audit.violations[1]
    assert "before it promised it" in world.audit.violations[2]


def test_a_term_without_votes_is_noticed(world: World) -> None:
    leader = leader_of(world)
    opened = entries.unseal(0, leader.disk.held[-1][1])
    fields = {name: getattr(opened.entry, name) for name in opened.entry.__struct_fields__}
    later = type(opened.entry)(**{**fields, "term": opened.entry.term + 8})
    world.around.watch.authority.applied("other", later, opened.hash)
    assert found(world) == f"term {later.term} began with the pledges of 0 schedulers"
