# SPDX-License-Identifier: Apache-2.0
"""Choices of scoring functions: a rank decides among nodes that fit, a failure means the built-in
policy, and a replica that was told nothing applies the same placement."""

from __future__ import annotations

import pytest

from stoker.native.errors import BadRequest
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.effects import Start
from stoker.scheduler.policies import Placement
from stoker.scheduler.reasons import Reason

FAILURES = (
    Reason.CHOICE_RAISED,
    Reason.CHOICE_LATE,
    Reason.CHOICE_INVALID,
    Reason.CHOICE_ABSENT,
)


def core() -> Core:
    """Three nodes of two devices; nodes 1 and 2 have one in use."""
    made = Core(Limits(nodes=4, devices=16, jobs=99, finished=9, tasks=99))
    requests: list[rec.Request] = []
    for node in (1, 2, 3):
        requests.append(rec.NodeUp(node, 1, 1, 8000, 1 << 34, 2))
        requests += [rec.DeviceSet(node, device) for device in (0, 1)]
    commit(made, requests)
    return made


def commit(core: Core, requests: list[rec.Request]) -> list[Start]:
    proposal = core.propose(requests, 1, 0, measure=False)
    assert proposal.rejected == []
    effects = core.apply(proposal.commands, 1)
    assert core.check() == ""
    return [effect for effect in effects if isinstance(effect, Start)]


def scored(**fields: int) -> rec.Submit:
    return rec.Submit(1, **{"gpu_milli": 1000, "placement": Placement.SCORED, **fields})


def test_a_job_waits_for_its_choice_and_holds_up_nobody() -> None:
    made = core()
    (other,) = commit(made, [scored(), rec.Submit(1, gpu_milli=1000)])
    assert other.job == 2
    assert Reason.NEEDS_CHOICE in {line.reason for line in made.explain(1)}
    made.choice(1, 1, [(1, 1), (2, 7), (3, 7)])
    (start,) = commit(made, [])
    assert (start.job, start.node, start.reason) == (1, 2, Reason.AS_PREFERRED)


@pytest.mark.parametrize("reason", FAILURES)
def test_a_failure_means_the_built_in_policy(reason: Reason) -> None:
    made, plain = core(), core()
    commit(made, [scored()])
    made.choice(1, 1, (), reason)
    (start,) = commit(made, [])
    (usual,) = commit(plain, [rec.Submit(1, gpu_milli=1000, placement=Placement.BEST)])
    assert (start.node, start.shares, start.reason) == (usual.node, usual.shares, reason)


def test_the_best_node_that_fits_is_taken() -> None:
    made = core()
    commit(made, [rec.Submit(1, gpu_milli=2000)])
    commit(made, [scored(gpu_milli=2000)])
    made.choice(2, 1, [(1, 9), (9, 8), (3, 2), (2, 1)])
    (start,) = commit(made, [])
    assert start.node == 3


def test_a_job_that_no_scored_node_takes_waits() -> None:
    made = core()
    commit(made, [scored()])
    made.choice(1, 1, [(9, 1)])
    assert commit(made, []) == []
    made.choice(1, 1, [(3, 1)])
    assert [start.node for start in commit(made, [])] == [3]


def test_a_gang_takes_the_ranks_for_each_of_its_tasks() -> None:
    made = core()
    commit(made, [scored(tasks=3)])
    made.choice(1, 1, [(1, 1), (2, 2), (3, 3)])
    assert sorted(start.node for start in commit(made, [])) == [2, 3, 3]


def test_a_choice_is_for_one_attempt() -> None:
    made = core()
    commit(made, [scored(retries=1)])
    made.choice(1, 1, [(3, 1)])
    assert len(commit(made, [])) == 1
    commit(made, [rec.TaskOutcome(1, 1, 3, rec.STATE_CODES["failed"], exit_code=1)])
    far = 10**12
    assert core_starts(made, far) == []
    made.choice(1, 2, [(2, 1)])
    assert [start.node for start in core_starts(made, far)] == [2]


def core_starts(core: Core, now_ns: int) -> list[Start]:
    proposal = core.propose([], now_ns, 0, measure=False)
    effects = core.apply(proposal.commands, now_ns)
    return [effect for effect in effects if isinstance(effect, Start)]


def test_a_replica_without_the_choice_applies_the_same() -> None:
    leader, follower = core(), core()
    for made in (leader, follower):
        commit(made, [scored()])
    leader.choice(1, 1, [(2, 1)])
    commands = leader.propose([], 2, 0, measure=False).commands
    for made in (leader, follower):
        made.apply(commands, 2)
    assert leader.digest() == follower.digest()
    assert Core.restore(leader.snapshot()).digest() == leader.digest()


def test_the_oldest_choice_makes_room_and_bad_ones_are_refused() -> None:
    made = core()
    for job in range(1, 70):
        made.choice(job, 1, [(1, 1)])
    commit(made, [scored()])
    assert Reason.NEEDS_CHOICE in {line.reason for line in made.explain(1)}
    with pytest.raises(BadRequest):
        made.choice(1, 1, [(1, 1)] * 257)
    with pytest.raises(BadRequest):
        made.choice(0, 1, [])
    with pytest.raises(BadRequest):
        made.choice(1, 1, [(1, 1)], Reason.CHOICE_LATE)
