# SPDX-License-Identifier: Apache-2.0
"""The programs and variables of an mpi gang's tasks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fakes.orders import start_of

from stoker.agent.jobs import gang_launch
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import Gang, JobSpec, StartJob, TaskKey

GANG = Gang(("a", "b"), (0, 1), "10.0.0.1", 61_007)
LAUNCHER = ("python3", "launcher.py")


def start(task: int, **spec: Any) -> StartJob:
    made = JobSpec(("mpirun", "x"), tasks=2, launch_key="secret", **spec)
    return msgspec.structs.replace(start_of(TaskKey(7, 1, task), made), gang=GANG)


def test_rank_0_leads_the_program_and_the_others_serve_it() -> None:
    assert gang_launch.argv(start(0, mpi=True), LAUNCHER) == (*LAUNCHER, "lead", "mpirun", "x")
    assert gang_launch.argv(start(1, mpi=True), LAUNCHER) == (*LAUNCHER, "serve")
    assert gang_launch.variables(start(1, mpi=True))["STOKER_LAUNCH_KEY"] == "secret"


def test_other_gangs_run_their_program_in_each_task() -> None:
    assert gang_launch.argv(start(1), ()) == ("mpirun", "x")
    assert gang_launch.variables(start(1)) == {}


def test_a_node_that_cannot_run_the_launcher_says_so() -> None:
    with pytest.raises(BadRequest, match="needs a Python interpreter"):
        gang_launch.argv(start(0, mpi=True), ())


@pytest.mark.parametrize(
    ("asked", "slots"),
    [
        ({}, 1),
        ({"gpu_milli": 4000}, 4),
        ({"gpu_milli": 500}, 1),
        ({"cpu_milli": 3500}, 3),
        ({"cpu_milli": 500}, 1),
        ({"gpu_milli": 2000, "cpu_milli": 8000}, 2),
    ],
)
def test_a_task_offers_a_process_for_each_device_or_else_for_each_cpu(
    asked: dict[str, int], slots: int
) -> None:
    assert gang_launch.variables(start(0, mpi=True, **asked))["STOKER_SLOTS"] == str(slots)
