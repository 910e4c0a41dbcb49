# SPDX-License-Identifier: Apache-2.0
"""Gangs that stay within a domain of nodes, against a search of all domains by hand."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import DeviceShare
from stoker.scheduler.policies import Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.wire_names import Property, Relation

LIMITS = Limits(nodes=32, devices=256, jobs=64, finished=8, tasks=256, node_tasks=16, keys=8)
BLOCK, RACK = name_id("block"), name_id("rack")
PLACEMENTS = (
    *(Placement.QUEUE, Placement.BINPACK, Placement.SPREAD, Placement.LEAST_LOADED),
    *(Placement.RANDOM, Placement.CONTIGUOUS, Placement.POWER, Placement.FASTEST),
)


def level(key: int, rank: int = 0) -> rec.Condition:
    return rec.Condition(Property.LEVEL, Relation.IS, key, rank)


class Cluster:
    """Nodes in racks, racks in blocks, some nodes without a rack, some devices in use."""

    def __init__(self, random: Random) -> None:
        self.core = Core(LIMITS)
        self.rack: dict[int, int] = {}
        self.block: dict[int, int] = {}
        requests: list[rec.Request] = [rec.Term(1, 1)]
        for node in range(1, random.randint(2, 12) + 1):
            devices = random.randint(1, 4)
            requests.append(rec.NodeUp(node, 1, 1, 8000, 1 << 34, devices))
            requests += [rec.DeviceSet(node, at) for at in range(devices)]
            if random.random() < 0.15:
                continue
            self.rack[node] = random.randint(1, 4)
            self.block[node] = self.rack[node] // 2
            for key, word in (("rack", self.rack[node]), ("block", self.block[node])):
                label = name_id(f"{key}={word}")
                requests.append(rec.NodeLabel(node, label, name_id(key)))
        requests += [rec.Submit(1, gpu_milli=1000) for _ in range(random.randint(0, 6))]
        self.core.apply(self.core.propose(requests, 1, measure=False).commands, 1)

    def room(self, domains: dict[int, int]) -> dict[int, int]:
        """Free devices of each domain."""
        free: dict[int, int] = defaultdict(int)
        for node, domain in domains.items():
            free[domain] += sum(not each.used_milli for each in self.core.devices(node))
        return free

    def places(self, gang: rec.Submit) -> list[rec.Place]:
        proposal = self.core.propose([gang], 2, measure=False)
        places = list(rec.unpack_places(proposal.commands))
        self.core.apply(proposal.commands, 2)
        assert self.core.check() == ""
        assert Core.restore(self.core.snapshot()).digest() == self.core.digest()
        return places


@pytest.mark.parametrize("seed", range(60))
def test_a_gang_goes_to_the_domain_with_least_room_that_has_enough(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(random)
    tasks = random.randint(2, 6)
    gang = rec.Submit(
        1, gpu_milli=1000, tasks=tasks, placement=random.choice(PLACEMENTS),
        conditions=(level(RACK),),
    )  # fmt: skip
    rooms = cluster.room(cluster.rack)
    enough = [free for free in rooms.values() if free >= tasks]
    places = cluster.places(gang)
    assert bool(places) == bool(enough)
    if places:
        (rack,) = {cluster.rack.get(place.node) for place in places}
        assert rack is not None
        assert rooms[rack] == min(enough)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_preferred_is_given_up_from_the_inside_and_ranks_stay_together(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(random)
    tasks = random.randint(2, 8)
    gang = rec.Submit(
        1, gpu_milli=1000, tasks=tasks, conditions=(level(BLOCK, 1), level(RACK, 2)),
        placement=random.choice(PLACEMENTS),
    )  # fmt: skip
    free = sum(not d.used_milli for n in cluster.core.nodes() for d in cluster.core.devices(n))
    fits = [max(cluster.room(at).values(), default=0) for at in (cluster.rack, cluster.block)]
    places = cluster.places(gang)
    assert bool(places) == (free >= tasks)
    if not places:
        return
    racks = [cluster.rack.get(place.node) for place in places]
    blocks = [cluster.block.get(place.node) for place in places]
    nodes = [place.node for place in places]
    assert (len(set(racks)) == 1 and racks[0] is not None) >= (fits[0] >= tasks)
    assert (len(set(blocks)) == 1 and blocks[0] is not None) >= (fits[1] >= tasks)
    assert [place.task for place in places] == list(range(tasks))
    for domains in (blocks, racks, nodes):
        assert domains == sorted(domains, key=domains.index), "ranks of a domain are adjacent"
    met = cluster.core.job(cluster.core.counters()["submitted"])
    assert met
    assert met.preferred == (len(set(blocks)) == 1 and blocks[0] is not None) + 2 * (
        len(set(racks)) == 1 and racks[0] is not None
    )


def small() -> Core:
    """Two racks of two nodes, with two devices on each node."""
    core = Core(LIMITS)
    requests: list[rec.Request] = [rec.Term(1, 1)]
    for node in range(1, 5):
        requests.append(rec.NodeUp(node, 1, 1, 8000, 1 << 34, 2))
        requests += [rec.DeviceSet(node, at) for at in range(2)]
        requests.append(rec.NodeLabel(node, name_id(f"rack={(node + 1) // 2}"), RACK))
    core.apply(core.propose(requests, 1, measure=False).commands, 1)
    return core


def test_what_no_domain_can_hold_is_refused_with_the_largest() -> None:
    gang = rec.Submit(1, gpu_milli=1000, tasks=5, conditions=(level(RACK),))
    (rejected,) = small().propose([gang], 2, measure=False).rejected
    assert (rejected.reason, rejected.asked, rejected.have) == (Reason.LEVEL_SHORT, 5, 4)
    assert rejected.job == RACK
    (rejected,) = small().propose([gang._replace(tasks=9)], 2, measure=False).rejected
    assert rejected.reason == Reason.GANG_TOO_LARGE, "no cluster of that size has room"


def test_a_place_across_domains_is_not_applied() -> None:
    core = small()
    gang = rec.Submit(
        1, gpu_milli=1000, tasks=2, conditions=(level(RACK),), placement=Placement.CUSTOM
    )
    core.apply(core.propose([gang], 2, measure=False).commands, 2)
    for nodes, reasons in (((2, 3), [Reason.LEVEL_SPLIT]), ((3, 4), [])):
        share = (DeviceShare(0, 1000),)
        chosen = [rec.Prefer(1, 1, node, share, task=n, tasks=2) for n, node in enumerate(nodes)]
        assert [r.reason for r in core.propose(chosen, 2, measure=False).rejected] == reasons


def test_a_gang_that_waits_is_told_the_places_of_the_best_domain() -> None:
    core = small()
    filler = [rec.Submit(1, gpu_milli=1000) for _ in range(3)]
    gang = rec.Submit(1, gpu_milli=1000, tasks=4, conditions=(level(RACK),))
    core.apply(core.propose([*filler, gang, gang], 2, measure=False).commands, 2)
    lines = {line.reason: line for line in core.explain(5)}
    assert (lines[Reason.GANG_SHORT].asked, lines[Reason.GANG_SHORT].have) == (4, 1)


def test_tasks_without_devices_stay_within_a_domain_too() -> None:
    core = small()
    gang = rec.Submit(1, cpu_milli=4000, tasks=4, conditions=(level(RACK),))
    places = list(rec.unpack_places(core.propose([gang], 2, measure=False).commands))
    assert len(places) == 4
    assert {(place.node + 1) // 2 for place in places} in ({1}, {2})


def test_random_is_even_among_the_nodes_of_the_domain() -> None:
    core, pairs = small(), {1: 0, 2: 0}
    core.apply(core.propose([rec.Submit(1, gpu_milli=1000)], 1, measure=False).commands, 1)
    gang = rec.Submit(
        1, gpu_milli=500, tasks=2, conditions=(level(RACK),), placement=Placement.RANDOM
    )
    for seed in range(400):
        commands = core.propose([gang], 2, seed, measure=False).commands
        nodes = {place.node for place in rec.unpack_places(commands)}
        assert nodes <= {1, 2}, "the rack with least room that has enough"
        if len(nodes) == 1:
            pairs[nodes.pop()] += 1
    assert sum(pairs.values()) > 100
    assert max(pairs.values()) < 1.5 * min(pairs.values())


def test_candidates_are_nodes_of_the_domain_alone() -> None:
    for placement, candidates in ((Placement.SPREAD, {2}), (Placement.BINPACK, {1, 2})):
        gang = rec.Submit(
            1, gpu_milli=1000, tasks=2, conditions=(level(RACK),), placement=placement
        )
        places = list(rec.unpack_places(small().propose([gang], 2, measure=False).commands))
        assert {place.candidates for place in places} <= candidates
