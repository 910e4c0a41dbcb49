# SPDX-License-Identifier: Apache-2.0
"""The leader's periodic work and its intervals."""

from __future__ import annotations

import pytest

from stoker.mesh.replica.nodes import leader_tick
from stoker.mesh.replica.nodes.leader_tick import LeaderTick
from stoker.mesh.replica.state import ReplicaState
from stoker.scheduler.core import Limits
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import DeviceShare, JobSample, NodeReport, Observation
from stoker.scheduler.records import DeviceSet, NodeUp, QueueSet, Submit, TaskOutcome, Term
from tests.mesh.founding import founded

S = 1_000_000_000


@pytest.fixture
def state() -> ReplicaState:
    """Return a state with two jobs on half a device each since second 1, and a waiting one."""
    state = founded("c", Limits(4, 8, 16, 16, 16, 16, 16))
    node = name_id("n1")
    state.book.join(NodeReport("n1", "b", 1, 8000, 1 << 30))
    for requests in (
        [Term(1, 1)],
        [QueueSet(7), NodeUp(node, 1, 1, 8000, 1 << 30, 1), DeviceSet(node, 0)],
        [Submit(1, gpu_milli=500), Submit(1, gpu_milli=500), Submit(1, gpu_milli=500)],
        [TaskOutcome(1, 1, node, 3), TaskOutcome(2, 1, node, 3)],
    ):
        commands = state.core.propose(requests, S).commands
        state.core.apply(commands, S)
    assert state.core.node_tasks(node)[0].shares == (DeviceShare(0, 500),)
    return state


def test_waiting_jobs_are_looked_at_once_a_second(state: ReplicaState) -> None:
    made = LeaderTick()
    assert [made.decide_again(state, S, n * S // 4) for n in range(4, 12)] == [
        True, False, False, False, True, False, False, False,
    ]  # fmt: skip


def test_an_idle_core_is_left_alone() -> None:
    idle = founded("c", Limits(4, 8, 16, 16, 16, 16, 16))
    assert not LeaderTick().decide_again(idle, S, 5 * S)


def test_running_jobs_are_charged_by_measure_or_by_what_they_hold(state: ReplicaState) -> None:
    made = LeaderTick()
    sample = Observation(
        1, "n1", 1, 0, 0, jobs=(JobSample(1, 1, 0, 0, 3), JobSample(9, 1, 0, 0, 99))
    )
    assert made.charges(state, {"n1": (sample, 0)}, 11 * S, S) == []
    charged = made.charges(state, {"n1": (sample, 0)}, 11 * S, 11 * S)
    assert [(each.job, each.device_ns) for each in charged] == [(1, 3), (2, 5 * S)]
    assert made.charges(state, {"n1": (sample, 0)}, 12 * S, 12 * S) == []


def test_all_tasks_of_a_job_are_charged_together() -> None:
    state = founded("c", Limits(4, 8, 16, 16, 16, 16, 16))
    for node in map(name_id, ("n1", "n2")):
        requests = [
            Term(1, 1),
            QueueSet(7),
            NodeUp(node, 1, 1, 8000, 1 << 30, 1),
            DeviceSet(node, 0),
        ]
        state.core.apply(state.core.propose(requests, S).commands, S)
    for name in ("n1", "n2"):
        state.book.join(NodeReport(name, "b", 1, 8000, 1 << 30))
    state.core.apply(state.core.propose([Submit(1, gpu_milli=1000, tasks=2)], S).commands, S)
    tasks = {each.task: each.node for each in state.core.job_tasks(1)}
    ran = [TaskOutcome(1, 1, node, 3, task=task) for task, node in tasks.items()]
    state.core.apply(state.core.propose(ran, S).commands, S)
    first = next(name for name in ("n1", "n2") if name_id(name) == tasks[0])
    other = next(name for name in ("n1", "n2") if name_id(name) == tasks[1])
    observed = {
        first: (Observation(1, first, 1, 0, 0, jobs=(JobSample(1, 1, 0, 0, 3),)), 0),
        other: (Observation(1, other, 1, 0, 0, jobs=(JobSample(1, 1, 1, 0, 40),)), 0),
    }
    made = LeaderTick()
    made.charges(state, observed, 11 * S, S)
    assert [each.device_ns for each in made.charges(state, observed, 11 * S, 11 * S)] == [43]


def test_more_jobs_than_one_round_holds_take_turns(
    state: ReplicaState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_tick, "USAGES_MAX", 1)
    made = LeaderTick()
    made.charges(state, {}, S, 0)
    rounds = [made.charges(state, {}, 20 * S, n * 10 * S) for n in range(1, 4)]
    assert [[each.job for each in found] for found in rounds] == [[1], [2], []]


def test_no_job_is_charged_if_device_time_decides_nothing(state: ReplicaState) -> None:
    commands = state.core.propose([QueueSet(7, remove=True)], S).commands
    state.core.apply(commands, S)
    made = LeaderTick()
    made.charges(state, {}, S, 0)
    assert made.charges(state, {}, 20 * S, 20 * S) == []
