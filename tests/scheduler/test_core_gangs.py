# SPDX-License-Identifier: Apache-2.0
"""Gangs with equally many tasks on each of their nodes, against a count by hand."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.policies import Option, Placement
from stoker.scheduler.reasons import Reason

LIMITS = Limits(nodes=8, devices=64, jobs=64, finished=8, tasks=256, node_tasks=16, keys=8)
PLACEMENTS = (Placement.QUEUE, Placement.BINPACK, Placement.SPREAD, Placement.RANDOM)


def cluster(random: Random, nodes: int) -> Core:
    """Nodes with 1 to 8 devices in links of two, of which some are in use."""
    core = Core(LIMITS)
    requests: list[rec.Request] = [rec.Term(1, 1)]
    for node in range(1, nodes + 1):
        devices = random.randint(1, 8)
        requests.append(rec.NodeUp(node, 1, 1, 8000, 1 << 34, devices))
        requests += [rec.DeviceSet(node, at, link=at // 2 + 1) for at in range(devices)]
    requests += [rec.Submit(1, gpu_milli=1000) for _ in range(random.randint(0, 5))]
    core.apply(core.propose(requests, 1, measure=False).commands, 1)
    return core


def room(core: Core, node: int, request: rec.Submit) -> int:
    """Tasks that fit on the node now."""
    free = [at for at, each in enumerate(core.devices(node)) if not each.used_milli]
    count = max(1, request.gpu_milli // 1000)
    if request.options & Option.SAME_LINK and count > 1:
        return sum(each // count for each in Counter(at // 2 for at in free).values())
    return len(free) // count


@pytest.mark.parametrize("seed", range(40))
def test_a_gang_is_placed_if_and_only_if_enough_nodes_have_room_for_their_part(seed: int) -> None:
    random = Random(seed)
    core = cluster(random, random.randint(1, 6))
    each, nodes = random.randint(1, 4), random.randint(1, 4)
    request = rec.Submit(
        1, gpu_milli=random.choice((1000, 1000, 2000)), tasks=each * nodes, per_node=each,
        placement=random.choice(PLACEMENTS), options=random.choice((0, Option.SAME_LINK)),
    )  # fmt: skip
    roomy = sum(room(core, node, request) >= each for node in core.nodes())
    proposal = core.propose([request], 2, seed, measure=False)
    places = list(rec.unpack_places(proposal.commands))
    assert bool(places) == (roomy >= nodes and not proposal.rejected)
    for rejected in proposal.rejected:
        assert roomy < nodes
        assert rejected.reason in (
            Reason.GANG_TOO_LARGE, Reason.GANG_NODE_SHORT, Reason.NO_NODE_HAS_DEVICES,
            Reason.LINK_BROKEN,
        )  # fmt: skip
    if places:
        assert [place.task for place in places] == list(range(each * nodes))
        runs = [place.node for place in places]
        assert Counter(Counter(runs).values()) == {each: nodes}
        assert runs == sorted(runs, key=runs.index), "the ranks of a node are adjacent"
        core.apply(proposal.commands, 2)
        assert core.check() == ""
        assert Core.restore(core.snapshot()).digest() == core.digest()


def test_a_refusal_names_the_largest_that_fits() -> None:
    core = Core(LIMITS)
    requests: list[rec.Request] = [rec.Term(1, 1)]
    for node, devices in ((1, 4), (2, 3)):
        requests.append(rec.NodeUp(node, 1, 1, 8000, 1 << 34, devices))
        requests += [rec.DeviceSet(node, at) for at in range(devices)]
    core.apply(core.propose(requests, 1, measure=False).commands, 1)
    gang = rec.Submit(1, gpu_milli=1000, tasks=8)
    rejected = [
        core.propose([gang._replace(**change)], 2, measure=False).rejected[0]
        for change in ({}, {"per_node": 4}, {"tasks": 10, "per_node": 5}, {"per_node": 3})
    ]
    assert [(each.reason, each.asked, each.have) for each in rejected] == [
        (Reason.GANG_TOO_LARGE, 8, 7), (Reason.GANG_TOO_LARGE, 8, 4),
        (Reason.GANG_NODE_SHORT, 5, 4), (Reason.BAD_TASKS, 8, 3),
    ]  # fmt: skip


def test_a_place_that_breaks_the_shape_is_not_applied() -> None:
    core = cluster(Random(1), 3)
    gang = rec.Submit(1, cpu_milli=10, tasks=4, per_node=2, placement=Placement.CUSTOM)
    core.apply(core.propose([gang], 2, measure=False).commands, 2)
    job = core.counters()["submitted"]
    for nodes, reason in (((1, 2, 1, 2), Reason.GANG_PACKED), ((1, 1, 1, 1), Reason.GANG_SPREAD)):
        chosen = [rec.Prefer(job, 1, node, task=n, tasks=4) for n, node in enumerate(nodes)]
        assert [r.reason for r in core.propose(chosen, 2, measure=False).rejected] == [reason]
    chosen = [rec.Prefer(job, 1, node, task=n, tasks=4) for n, node in enumerate((2, 2, 1, 1))]
    assert core.propose(chosen, 2, measure=False).rejected == []
