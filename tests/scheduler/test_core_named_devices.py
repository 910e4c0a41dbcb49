# SPDX-License-Identifier: Apache-2.0
"""Named devices, and links across the tasks of a gang: what is required holds, what is preferred
gives way."""

from __future__ import annotations

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.policies import Placement
from stoker.scheduler.reasons import Reason
from stoker.scheduler.wire_names import Property, Relation

LEFT, RIGHT = 1, 2
LINKS = (1, 1, 2, 2, 2, 0)
"""The link group of each device of a node."""


def core() -> Core:
    made = Core(Limits(nodes=4, devices=200, jobs=9, finished=9, tasks=99, keys=4, queues=4))
    for node in (LEFT, RIGHT):
        requests: list[rec.Request] = [rec.NodeUp(node, 1, 1, 80_000, 1 << 34, len(LINKS))]
        requests += [rec.DeviceSet(node, i, link=link) for i, link in enumerate(LINKS)]
        requests += [
            rec.DeviceTraits(node, i, link_gbps=100 * link) for i, link in enumerate(LINKS)
        ]
        commit(made, requests)
    return made


def commit(core: Core, requests: list[rec.Request]) -> list[int]:
    """The reasons of what is rejected."""
    proposal = core.propose(requests, 1, 0, measure=False)
    core.apply(proposal.commands, 1)
    assert core.check() == ""
    assert core.scores_check()
    return [rejected.reason for rejected in proposal.rejected]


def named(node: int, *places: int, rank: int = 0) -> tuple[rec.Condition, ...]:
    return tuple(rec.Condition(Property.DEVICE, Relation.IS, node, rank, p + 1) for p in places)


def link(least: int = 1, rank: int = 0) -> tuple[rec.Condition, ...]:
    return (rec.Condition(Property.LINK, Relation.LEAST, least, rank),)


def placed(core: Core, job: int) -> list[tuple[int, list[int]]]:
    return [(t.node, sorted(s.index for s in t.shares)) for t in core.job_tasks(job)]


def test_required_devices_are_taken_under_every_placement() -> None:
    for how in Placement:
        if how in (Placement.CUSTOM, Placement.SCORED):
            continue
        made = core()
        wanted = rec.Submit(1, gpu_milli=2000, placement=how, conditions=named(RIGHT, 1, 3, 5))
        assert commit(made, [wanted]) == []
        ((node, devices),) = placed(made, 1)
        assert node == RIGHT
        assert set(devices) <= {1, 3, 5}


def test_a_number_alone_is_that_device_of_any_node() -> None:
    made = core()
    wanted = rec.Submit(1, gpu_milli=1000, conditions=named(0, 4))
    commit(made, [wanted, wanted, wanted])
    assert sorted(placed(made, 1) + placed(made, 2)) == [(LEFT, [4]), (RIGHT, [4])]
    assert placed(made, 3) == []
    lines = {line.reason: line for line in made.explain(3)}
    assert (lines[Reason.NEEDS_CONDITION].number, lines[Reason.NEEDS_CONDITION].have) == (10, 12)


def test_a_share_of_a_named_device() -> None:
    made = core()
    commit(made, [rec.Submit(1, gpu_milli=300, conditions=named(LEFT, 5))] * 4)
    assert [placed(made, job) for job in (1, 2, 3, 4)] == [[(LEFT, [5])]] * 3 + [[]]


def test_a_preferred_device_gives_way() -> None:
    made = core()
    wanted = rec.Submit(1, gpu_milli=1000, conditions=named(RIGHT, 2, rank=1))
    commit(made, [wanted, wanted])
    assert placed(made, 1) == [(RIGHT, [2])]
    assert placed(made, 2) != []
    first, second = made.job(1), made.job(2)
    assert first and second and (first.preferred, second.preferred) == (1, 0)


def test_named_devices_that_could_never_do_are_refused() -> None:
    made = core()
    assert commit(made, [rec.Submit(1, gpu_milli=1000, conditions=named(9, 0))]) == [
        Reason.NO_DEVICE_MEETS
    ]
    few = rec.Submit(1, gpu_milli=2000, conditions=named(LEFT, 0))
    assert commit(made, [few]) == [Reason.NO_NODE_HAS_DEVICES]
    bad = rec.Condition(Property.DEVICE, Relation.IS, LEFT, 0, 0)
    assert commit(made, [rec.Submit(1, gpu_milli=1000, conditions=(bad,))]) == [
        Reason.BAD_CONDITION
    ]


def test_all_tasks_of_a_gang_on_a_node_share_a_link() -> None:
    made = core()
    commit(made, [rec.Submit(1, gpu_milli=1000, tasks=3, conditions=link())])
    tasks = placed(made, 1)
    groups = {(node, LINKS[index]) for node, (index,) in tasks}
    assert len(groups) == len({node for node, _ in tasks})
    assert all(group for _, group in groups)


def test_a_bandwidth_decides_the_link() -> None:
    made = core()
    commit(made, [rec.Submit(1, gpu_milli=2000, conditions=link(150))])
    ((_, devices),) = placed(made, 1)
    assert {LINKS[index] for index in devices} == {2}
    assert commit(made, [rec.Submit(1, gpu_milli=2000, conditions=link(201))]) == [
        Reason.NO_DEVICE_MEETS
    ]
    assert commit(made, [rec.Submit(1, gpu_milli=4000, conditions=link())]) == [Reason.LINK_BROKEN]
    assert commit(made, [rec.Submit(1, gpu_milli=500, conditions=link())]) == [Reason.BAD_CONDITION]


def test_a_gang_that_no_group_of_any_node_holds_is_refused() -> None:
    made = core()
    gang = rec.Submit(1, gpu_milli=1000, tasks=6, conditions=link())
    assert commit(made, [gang]) == []
    assert len(placed(made, 1)) == 6
    larger = gang._replace(tasks=7)
    assert commit(core(), [larger]) == [Reason.GANG_TOO_LARGE]


def test_a_preferred_link_gives_way_as_a_whole() -> None:
    made = core()
    for node in (LEFT, RIGHT):
        commit(made, [rec.Submit(1, gpu_milli=1000, conditions=named(node, i)) for i in (1, 3, 4)])
    commit(made, [rec.Submit(1, gpu_milli=2000, conditions=link(rank=1))])
    tasks = placed(made, 7)
    assert len(tasks) == 1
    job = made.job(7)
    assert job and job.preferred == 0
