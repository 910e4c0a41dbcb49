# SPDX-License-Identifier: Apache-2.0
"""Scoring functions of users: what they choose is checked, what they get wrong is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stoker.native.errors import BadRequest, NotFound
from stoker.scheduler import records as rec
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.custom import FUNCTIONS_MAX, Functions
from stoker.scheduler.effects import JobInfo, Start
from stoker.scheduler.hints import Candidate
from stoker.scheduler.policies import Placement
from stoker.scheduler.reasons import Reason


def waiting(tasks: int = 1, gpu_milli: int = 1000) -> Core:
    """Three nodes of two devices, and job 1 that leaves its placement to others."""
    core = Core(Limits(nodes=4, devices=16, jobs=8, finished=8, tasks=32))
    requests: list[rec.Request] = []
    for node in (1, 2, 3):
        requests.append(rec.NodeUp(node, 1, 1, 8000, 1 << 34, 2))
        requests += [rec.DeviceSet(node, device) for device in (0, 1)]
    requests.append(
        rec.Submit(client=1, gpu_milli=gpu_milli, tasks=tasks, placement=Placement.CUSTOM)
    )
    core.apply(core.propose(requests, 1).commands, 1)
    return core


def started(core: Core, functions: Functions) -> list[Start]:
    proposal = core.propose(functions.prefer("mine", core, 1, 2), 2)
    assert proposal.rejected == []
    return [e for e in core.apply(proposal.commands, 2) if isinstance(e, Start)]


def by_node(job: JobInfo, candidates: Sequence[Candidate]) -> list[float]:
    assert job.job == 1
    return [candidate.node for candidate in candidates]


ANSWERS = [
    (by_node, 3),
    (lambda job, candidates: 2, 2),
    (lambda job, candidates: {1: 0.5, 2: 0.5}, 1),
    (lambda job, candidates: [-c.node for c in candidates], 1),
]


@pytest.mark.parametrize(("function", "node"), ANSWERS)
def test_the_job_starts_where_the_function_says(function: Any, node: int) -> None:
    core, functions = waiting(), Functions()
    functions.register("mine", function)
    (start,) = started(core, functions)
    assert (start.node, start.reason) == (node, Reason.AS_PREFERRED)
    assert functions.counts("mine").chosen == 1
    assert core.check() == ""


def test_tasks_of_a_gang_are_chosen_with_those_before_them_in_place() -> None:
    core, functions = waiting(tasks=3), Functions()
    functions.register("mine", by_node)
    assert [start.node for start in started(core, functions)] == [3, 3, 2]


def broken(job: JobInfo, candidates: Sequence[Candidate]) -> list[float]:
    raise KeyError("mine")


NONSENSE = [
    broken,
    lambda job, candidates: [1.0],
    lambda job, candidates: [float("nan")] * len(candidates),
    lambda job, candidates: "all",
    lambda job, candidates: 99,
    lambda job, candidates: object(),
]


@pytest.mark.parametrize("function", NONSENSE)
def test_errors_are_counted_and_the_job_waits(function: Any) -> None:
    core, functions = waiting(), Functions()
    functions.register("mine", function)
    assert functions.prefer("mine", core, 1, 2) == []
    counts = functions.counts("mine")
    assert (counts.calls, counts.errors, counts.chosen) == (1, 1, 0)
    assert counts.last_error
    assert Reason.NEEDS_CHOICE in {line.reason for line in core.explain(1)}


def test_none_lets_the_job_wait() -> None:
    core, functions = waiting(), Functions()
    functions.register("mine", lambda job, candidates: None)
    assert functions.prefer("mine", core, 1, 2) == []
    assert functions.counts("mine").waited == 1


def test_where_nothing_fits_nobody_is_asked() -> None:
    core, functions = waiting(), Functions()
    functions.register("mine", by_node)
    core.apply(core.propose([rec.NodeDown(node) for node in (1, 2, 3)], 2).commands, 2)
    assert functions.prefer("mine", core, 1, 2) == []
    assert (functions.counts("mine").calls, functions.counts("mine").waited) == (0, 1)


def test_jobs_that_do_not_wait_are_left_alone() -> None:
    core, functions = waiting(), Functions()
    functions.register("mine", by_node)
    assert started(core, functions)
    assert functions.prefer("mine", core, 1, 3) == []
    assert functions.prefer("mine", core, 7, 3) == []


def test_names_are_bounded_and_known() -> None:
    functions = Functions()
    with pytest.raises(NotFound):
        functions.counts("mine")
    for number in range(FUNCTIONS_MAX):
        functions.register(f"f{number}", by_node)
    with pytest.raises(BadRequest):
        functions.register("mine", by_node)
    functions.register("f0", broken)
    assert len(functions.names()) == FUNCTIONS_MAX
