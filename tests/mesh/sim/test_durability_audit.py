# SPDX-License-Identifier: Apache-2.0
"""The auditor of disks notices whatever could cost a confirmed entry."""

from __future__ import annotations

import pytest

from stoker.agent.sim.world import World
from stoker.mesh.log import entry as entries
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from stoker.mesh.wire.peer_messages import NotPledged, RecallRequest
from tests.agent.sim.quiet_world import leader_of, quiet_world


@pytest.fixture
def world() -> World:
    return quiet_world()


def others(world: World) -> list[SchedulerProcess]:
    leader = leader_of(world)
    return [each for each in world.schedulers if each is not leader]


def last(world: World) -> tuple[int, bytes, int]:
    """The index, the hash and the term of the last entry that was applied."""
    known = world.audit.known[world.audit.last]
    return world.audit.last, known.hash, known.entry.term


def found(world: World) -> str:
    (sentence,) = world.audit.violations
    return sentence


def test_a_claim_that_the_disk_does_not_bear_out_is_noticed(world: World) -> None:
    durability, other = world.around.watch.durability, others(world)[0]
    index, digest, _ = last(world)
    durability.claims(other, index, digest)
    assert world.audit.violations == []
    durability.claims(other, index, bytes(32))
    assert f"claims entry {index}, which its disk has not" in found(world)


def test_an_entry_that_one_disk_has_is_not_confirmed(world: World) -> None:
    index, digest, term = last(world)
    for other in others(world):
        other.disk.held = other.disk.held[:-3]
    world.around.watch.durability.confirms(leader_of(world), term, index, digest)
    assert f"confirms entry {index}, which is only on {leader_of(world).name}" in found(world)


def test_an_entry_of_an_earlier_term_is_not_counted_in_a_later_one(world: World) -> None:
    index, digest, term = last(world)
    world.around.watch.durability.confirms(leader_of(world), term + 8, index, digest)
    assert "which a later leader may still drop" in found(world)


def test_a_disk_that_drops_a_confirmed_entry_is_noticed(world: World) -> None:
    other = others(world)[0]
    world.around.watch.durability.changed(other)
    assert world.audit.violations == []
    other.disk.held = other.disk.held[:-3]
    world.around.watch.durability.changed(other)
    assert "drops entry" in found(world)


def test_a_disk_that_recorded_what_it_drops_guards_it(world: World) -> None:
    durability, (one, other) = world.around.watch.durability, others(world)
    end = durability.end(one.disk).rank
    one.disk.held, one.disk.floor = one.disk.held[:-3], end
    durability.changed(one)
    assert world.audit.violations == []
    durability.voted(one, leader_of(world).number)
    assert world.audit.violations == []
    other.disk.held = one.disk.held
    durability.voted(one, other.number)
    assert f"which has forgotten entry {end[1]}, pledges to {other.name}" in found(world)


def test_a_scheduler_without_memory_that_says_more_than_a_question_is_noticed(
    world: World,
) -> None:
    durability, other = world.around.watch.durability, others(world)[0]
    durability.says(other, NotPledged(1, 1))
    other.disk.lose()
    durability.says(other, RecallRequest(1))
    assert world.audit.violations == []
    durability.says(other, NotPledged(1, 1))
    assert "sends a NotPledged, and remembers nothing" in found(world)


def test_a_newer_chain_that_could_be_elected_without_a_confirmed_entry_is_noticed(
    world: World,
) -> None:
    other = others(world)[0]
    opened = entries.unseal(0, other.disk.held[-4][1])
    fields = {name: getattr(opened.entry, name) for name in opened.entry.__struct_fields__}
    newer = type(opened.entry)(**{**fields, "term": opened.entry.term + 8})
    data = entries.seal(newer, KeyedHash("U0")).data
    other.disk.held = [*other.disk.held[:-4], (newer.prev_index + 1, data)]
    world.around.watch.durability.changed(leader_of(world))
    assert "can be elected by 3" in found(world)


def test_a_trim_of_what_no_majority_has_in_snapshots_is_noticed(world: World) -> None:
    leader = leader_of(world)
    trimmed: list[bytes | None] = [data for _, data in leader.disk.held]
    world.around.watch.durability.trims(leader, trimmed)
    assert "trims the log up to entry" in found(world)
