# SPDX-License-Identifier: Apache-2.0
"""The auditor of gangs notices each way in which a gang can be treated in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stoker.mesh.log.entry import NO_HASH, Entry, OutcomeBlob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.sim.gang_audit import GangAudit
from stoker.scheduler.nouns import (
    Action,
    Decision,
    Gang,
    JobSpec,
    Outcome,
    Owner,
    ReleaseJob,
    StartJob,
    StopJob,
)

GANG = Gang(("n0", "n1"), (0, 1, 1), "n0", 61000)
NODES = [GANG.nodes[place] for place in GANG.places]
TASKS = range(len(NODES))


class Bench:
    """An auditor and the entries that it is shown."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.audit = GangAudit(self.found.append)
        self._index = 0

    def entry(
        self, *actions: Action, reports: Sequence[Outcome] = (), lost: Sequence[str] = ()
    ) -> None:
        blobs = tuple(OutcomeBlob(number, each) for number, each in enumerate(reports))
        entry = Entry(1, "c", 1, 1, 1, self._index, NO_HASH, 0, 0, b"", blobs)
        self._index += 1
        by_node: dict[str, list[Action]] = {}
        for action in actions:
            by_node.setdefault(NODES[getattr(action, "task", 0)], []).append(action)
        self.audit.applied(entry, Applied(actions=by_node), lost)


def start(task: int, attempt: int = 1) -> StartJob:
    decision = Decision(1, NODES[task], (), "", 0, placing=attempt)
    spec = JobSpec(("job",), tasks=len(NODES))
    return StartJob(1, attempt, task, attempt, decision, Owner("u", 1, 1), spec, GANG)


def said(task: int, state: Any, attempt: int = 1) -> Outcome:
    return Outcome(1, attempt, task, attempt, 1, state, 0)


def release(task: int) -> ReleaseJob:
    return ReleaseJob(1, 1, task, 1)


def stop(task: int) -> StopJob:
    return StopJob(1, 1, task, 1, "a peer ended")


@pytest.fixture
def bench() -> Bench:
    """A bench with a gang that is placed."""
    made = Bench()
    made.entry(*map(start, TASKS))
    assert made.found == [] and made.audit.placed == 1
    return made


def test_a_gang_that_is_released_and_succeeds_is_right(bench: Bench) -> None:
    bench.entry(reports=[said(0, "ready"), said(1, "running")])
    bench.entry(*map(release, TASKS), reports=[said(2, "ready")])
    bench.entry(reports=[said(task, "succeeded") for task in TASKS])
    bench.audit.over(1, "succeeded")
    assert bench.found == []


def test_a_gang_that_is_placed_in_parts_is_noticed() -> None:
    bench = Bench()
    bench.entry(start(0), start(2))
    assert "places the tasks [0, 2] of the gang 1, which has 3" in bench.found[0]


def test_tasks_of_two_attempts_in_one_entry_are_noticed() -> None:
    bench = Bench()
    bench.entry(start(0), start(1, attempt=2), start(2))
    assert "beside another attempt of its gang" in bench.found[0]


def test_a_second_attempt_beside_the_first_is_noticed(bench: Bench) -> None:
    bench.entry(*(stop(task) for task in (1, 2)), reports=[said(0, "failed")])
    bench.entry(reports=[said(1, "cancelled")])
    bench.entry(*(start(task, attempt=2) for task in TASKS))
    assert "places the gang 1 again, and {2: 'n1'} holds on" in bench.found[0]


def test_a_second_attempt_after_the_first_is_right(bench: Bench) -> None:
    bench.entry(*(stop(task) for task in (1, 2)), reports=[said(0, "failed")])
    bench.entry(reports=[said(1, "cancelled"), said(2, "succeeded")])
    bench.entry(*(start(task, attempt=2) for task in TASKS))
    bench.entry(reports=[said(1, "ready"), said(0, "ready", 2)])
    bench.entry(reports=[said(task, "succeeded", 2) for task in TASKS])
    bench.audit.over(1, "succeeded")
    assert bench.found == []


def test_a_release_before_all_were_ready_is_noticed(bench: Bench) -> None:
    bench.entry(*map(release, TASKS), reports=[said(0, "ready"), said(1, "ready")])
    assert "and [0, 1] are ready" in bench.found[0]


def test_a_release_of_some_is_noticed(bench: Bench) -> None:
    bench.entry(release(0), release(1), reports=[said(task, "ready") for task in TASKS])
    assert "releases the tasks [0, 1] of 3" in bench.found[0]


def test_a_release_of_those_whose_nodes_the_entry_does_not_lose_is_right(bench: Bench) -> None:
    ready = [said(task, "ready") for task in TASKS]
    rest = [release(1), stop(1), release(2), stop(2)]
    bench.entry(*rest, reports=ready, lost=[NODES[0]])
    assert bench.found == []
    late = Bench()
    late.entry(*map(start, TASKS))
    late.entry(stop(1), stop(2), reports=ready, lost=[NODES[0]])
    late.entry(release(1), release(2))
    assert "entry 3 releases the tasks [1, 2] of 3 of the gang 1" in late.found[0]


def test_a_release_of_a_gang_that_is_not_placed_is_noticed() -> None:
    bench = Bench()
    bench.entry(release(0))
    assert "which is not placed" in bench.found[0]


@pytest.mark.parametrize("state", ["failed", "timeout", "cancelled", "lost", "pending"])
def test_tasks_that_go_on_after_one_failed_are_noticed(bench: Bench, state: str) -> None:
    bench.entry(stop(1), reports=[said(0, state)])
    assert bench.found == [
        f"entry 2: of the gang 1 task 0 is {state}, and the tasks [2] are not stopped"
    ]


def test_tasks_that_go_on_after_a_node_was_lost_are_noticed(bench: Bench) -> None:
    bench.entry(lost=["n1"])
    assert "task 1 is lost, and the tasks [0] are not stopped" in bench.found[0]


def test_a_gang_that_succeeds_without_all_of_its_tasks_is_noticed(bench: Bench) -> None:
    bench.entry(reports=[said(0, "succeeded"), said(1, "succeeded")])
    bench.audit.over(1, "succeeded")
    assert bench.found == ["the gang 1 is succeeded, and {2: 'n1'}"]
