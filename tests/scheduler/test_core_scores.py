# SPDX-License-Identifier: Apache-2.0
"""The scores that a decision compared: of the node that was taken and of the next best, as the
candidates had them before it."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.hints import (
    EVIDENCE_NODES_MAX,
    Evidence,
    RequestClass,
    rank_of,
    score_of,
)
from stoker.scheduler.policies import Placement

CLASSES = [RequestClass(3, gpu_milli=500), RequestClass(1, gpu_milli=2000)]
SCORES = st.floats(allow_nan=False)


def core(nodes: int, chance: Random) -> Core:
    """Nodes of four devices of which some are in use."""
    made = Core(Limits(nodes=nodes, devices=4 * nodes, jobs=999, finished=9, tasks=999))
    requests: list[rec.Request] = []
    for node in range(1, nodes + 1):
        requests.append(rec.NodeUp(node, 1, 1, 8000, 1 << 34, 4))
        requests += [rec.DeviceSet(node, device) for device in range(4)]
        requests += [rec.NodeLabel(node, 1000 + node)]
    made.apply(made.propose(requests, 1, 0, measure=False).commands, 1)
    made.workload(CLASSES)
    for node in range(1, nodes + 1):
        for _ in range(chance.randrange(4)):
            milli = chance.choice((300, 500, 1000))
            commit(made, rec.Submit(1, gpu_milli=milli, require=(1000 + node,)))
    return made


def commit(core: Core, request: rec.Request) -> None:
    proposal = core.propose([request], 1, 0, measure=False)
    core.apply(proposal.commands, 1)
    assert core.check() == ""


def next_job(core: Core) -> int:
    return next(number for number in range(1, 1000) if core.job(number) is None)


def evidence(core: Core, job: int) -> Evidence:
    found = core.evidence(job, 1)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(10))
def test_the_scores_are_those_of_all_nodes_before_the_decision(seed: int) -> None:
    chance = Random(seed)
    made = core(6, chance)
    job = next_job(made)
    wanted = rec.Submit(1, gpu_milli=chance.choice((500, 1000, 2000)), placement=Placement.CUSTOM)
    commit(made, wanted)
    ratings = sorted(each.rating for each in made.candidates(job, 1))
    commit(made, rec.Cancel(job))
    commit(made, wanted._replace(placement=Placement.BEST))
    found = evidence(made, job + 1)
    assert found.other is not None and found.chosen.node != found.other.node
    assert [found.chosen.score, found.other.score] == ratings[:2]
    assert not found.unsought


def test_of_many_nodes_the_next_best_is_not_sought() -> None:
    made = core(EVIDENCE_NODES_MAX + 1, Random(1))
    job = next_job(made)
    commit(made, rec.Submit(1, gpu_milli=500, placement=Placement.FGD))
    found = evidence(made, job)
    assert (found.other, found.unsought) == (None, True)


def test_a_choice_from_outside_keeps_its_scores() -> None:
    made = core(4, Random(2))
    job = next_job(made)
    commit(made, rec.Submit(1, gpu_milli=500, placement=Placement.SCORED))
    scores = {1: -3.5, 2: 1e9, 3: 0.25, 9: 7e9}
    made.choice(job, 1, [(node, rank_of(score)) for node, score in scores.items()])
    made.apply(made.propose([], 1, 0, measure=False).commands, 1)
    found = evidence(made, job)
    assert found.placement == Placement.SCORED
    assert (found.chosen.node, score_of(found.chosen.score)) == (2, 1e9)
    assert found.other is not None
    assert (found.other.node, score_of(found.other.score)) == (3, 0.25)


def test_a_choice_of_one_node_has_no_next_best() -> None:
    made = core(2, Random(3))
    job = next_job(made)
    commit(made, rec.Submit(1, gpu_milli=500, placement=Placement.SCORED))
    made.choice(job, 1, [(1, rank_of(-1.0))])
    made.apply(made.propose([], 1, 0, measure=False).commands, 1)
    assert evidence(made, job).other is None


@given(SCORES, SCORES)
def test_ranks_are_in_the_order_of_the_scores(one: float, other: float) -> None:
    assert (rank_of(one) < rank_of(other)) == (one < other)
    assert (rank_of(one) == rank_of(other)) == (one == other)
    assert score_of(rank_of(one)) == one
    assert 0 <= rank_of(one) < 1 << 64


def test_no_score_is_below_minus_infinity_or_two_zeros_apart() -> None:
    assert rank_of(-0.0) == rank_of(0.0)
    assert math.isinf(score_of(rank_of(-math.inf)))
