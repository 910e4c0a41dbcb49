# SPDX-License-Identifier: Apache-2.0
"""Jobs that require one NUMA node: what is placed, what waits and what is refused, against a search
through all choices of devices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.policies import Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.wire_names import Option, Property, Relation

NODE = 1
CPUS = 4
"""The CPUs beside each device for which they are known."""
Places = Sequence[tuple[int, int]]
"""The link and the NUMA node (plus 1; 0: not known) of each device."""
LIMITS = Limits(nodes=2, devices=100, jobs=70, finished=9, tasks=99, keys=4, queues=4)


def core(places: Places) -> Core:
    made = Core(LIMITS)
    requests: list[rec.Request] = [rec.NodeUp(NODE, 1, 1, 80_000, 1 << 34, len(places))]
    requests += [
        rec.DeviceSet(NODE, i, link=link, numa=numa) for i, (link, numa) in enumerate(places)
    ]
    requests += [
        rec.DeviceTraits(NODE, i, near_cpus=CPUS) for i, (_, numa) in enumerate(places) if numa
    ]
    assert commit(made, requests) == []
    return made


def commit(core: Core, requests: list[rec.Request]) -> list[int]:
    """The reasons of what is rejected."""
    proposal = core.propose(requests, 1, 0, measure=False)
    core.apply(proposal.commands, 1)
    assert core.check() == ""
    assert core.scores_check()
    return [rejected.reason for rejected in proposal.rejected]


def numa(cpus: int = 1) -> tuple[rec.Condition, ...]:
    return (rec.Condition(Property.NUMA, Relation.LEAST, cpus),)


def link() -> tuple[rec.Condition, ...]:
    return (rec.Condition(Property.LINK, Relation.LEAST, 1),)


def placed(core: Core, job: int) -> list[tuple[int, ...]]:
    return [tuple(sorted(share.index for share in t.shares)) for t in core.job_tasks(job)]


def can(places: Places, free: frozenset[int], tasks: int, each: int, links: set[int]) -> bool:
    """True if tasks with so many devices each find them: those of a task in one NUMA node, and with
    `links` all of them on one of these."""
    if not tasks:
        return True
    for devices in combinations(sorted(free), each):
        numas = {places[i][1] for i in devices}
        own = {places[i][0] for i in devices}
        if len(numas) > 1 or 0 in numas or (links and (len(own) > 1 or not own <= links)):
            continue
        if can(places, free - {*devices}, tasks - 1, each, own if links else links):
            return True
    return False


def free_of(core: Core) -> frozenset[int]:
    return frozenset(i for i, d in enumerate(core.devices(NODE)) if not d.used_milli)


@pytest.mark.parametrize("seed", range(12))
def test_a_job_is_placed_exactly_where_a_search_finds_room(seed: int) -> None:
    chance = Random(seed)
    policies = [p for p in Placement if p not in (Placement.CUSTOM, Placement.SCORED)]
    for _ in range(40):
        places = [(chance.randrange(3), chance.randrange(3)) for _ in range(6)]
        made = core(places)
        for job in range(1, 5):
            each, tasks = chance.randint(1, 3), chance.randint(1, 3)
            linked = each * tasks > 1 and chance.random() < 0.4
            links = {1, 2} if linked else set[int]()
            wanted = rec.Submit(
                1, gpu_milli=1000 * each, tasks=tasks, placement=chance.choice(policies),
                conditions=(*(link() if linked else ()), *numa(chance.randint(1, CPUS))),
            )  # fmt: skip
            before = free_of(made)
            refused = commit(made, [wanted])
            ever = can(places, frozenset(range(6)), tasks, each, links)
            assert bool(refused) == (not ever), (places, wanted, refused)
            if refused:
                break
            found = placed(made, job)
            assert bool(found) == can(places, before, tasks, each, links), (places, wanted)
            if not found:
                break  # the others wait behind it
            for devices in found:
                assert len({places[i][1] for i in devices} - {0}) == 1


def test_devices_in_two_numa_nodes_are_refused_with_the_most_that_one_has() -> None:
    made = core([(1, 1), (1, 2), (1, 2), (1, 0)])
    wanted = rec.Submit(1, gpu_milli=3000, conditions=numa())
    proposal = made.propose([wanted], 1, 0, measure=False)
    ((_, _, reason, _, asked, have),) = proposal.rejected
    assert (reason, asked, have) == (Reason.NUMA_SPLIT, 3, 2)
    assert commit(made, [wanted._replace(conditions=())]) == []


def test_a_job_waits_for_devices_in_one_numa_node() -> None:
    made = core([(0, 1), (0, 1), (0, 2), (0, 2)])
    named = [
        rec.Submit(1, gpu_milli=1000, conditions=(rec.Condition(
            Property.DEVICE, Relation.IS, NODE, 0, index + 1),))
        for index in (0, 2)
    ]  # fmt: skip
    assert commit(made, [*named, rec.Submit(1, gpu_milli=2000, conditions=numa())]) == []
    assert placed(made, 3) == []
    (line,) = [line for line in made.explain(3) if line.reason == Reason.NEEDS_NUMA]
    assert (line.number, line.asked, line.have) == (1, 2, 1)
    assert commit(made, [rec.TaskOutcome(1, 1, NODE, rec.STATE_CODES["succeeded"])]) == []
    assert placed(made, 3) == [(0, 1)]


def test_too_few_cpus_beside_a_device_do_not_serve() -> None:
    made = core([(0, 1)])
    assert commit(made, [rec.Submit(1, gpu_milli=1000, conditions=numa(CPUS + 1))]) == [
        Reason.NO_DEVICE_MEETS
    ]
    assert commit(core([(0, 0)]), [rec.Submit(1, gpu_milli=500, conditions=numa())]) == [
        Reason.NO_DEVICE_MEETS
    ]
    assert commit(made, [rec.Submit(1, gpu_milli=500, conditions=numa(CPUS))]) == []
    assert placed(made, 1) == [(0,)]


def test_a_numa_node_is_no_preference() -> None:
    made = core([(0, 1)])
    bad = rec.Condition(Property.NUMA, Relation.LEAST, 1, 1)
    assert commit(made, [rec.Submit(1, gpu_milli=1000, conditions=(bad,))]) == [
        Reason.BAD_CONDITION
    ]


def test_the_cpus_beside_a_device_survive_a_restart() -> None:
    made = core([(1, 1)])
    assert commit(made, [rec.DeviceTraits(NODE, 0, link_gbps=900, near_cpus=7)]) == []
    for one in (made, Core.restore(made.snapshot())):
        (device,) = one.devices(NODE)
        assert (device.near_cpus, device.link_gbps) == (7, 900)


def test_the_option_same_link_holds_beside_it() -> None:
    made = core([(1, 1), (2, 1), (2, 2), (2, 1)])
    wanted = rec.Submit(1, gpu_milli=2000, options=Option.SAME_LINK, conditions=numa())
    assert commit(made, [wanted]) == []
    assert placed(made, 1) == [(1, 3)]
