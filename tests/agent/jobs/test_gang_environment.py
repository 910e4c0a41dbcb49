# SPDX-License-Identifier: Apache-2.0
"""The variables of the tasks of a gang: three vocabularies that say the same."""

from __future__ import annotations

import msgspec
from fakes.orders import start_of

from stoker.agent.jobs import gang_environment
from stoker.scheduler.nouns import Gang, TaskKey

GANG = Gang(("a", "b"), (0, 0, 1, 1, 1), "10.0.0.1", 61_007)


def variables(task: int) -> dict[str, str]:
    start = msgspec.structs.replace(start_of(TaskKey(7, 1, task)), gang=GANG)
    return gang_environment.variables(start)


def test_a_job_of_one_task_has_none() -> None:
    assert gang_environment.variables(start_of(TaskKey(7, 1, 0))) == {}


def test_each_rank_knows_its_place_among_all_and_on_its_node() -> None:
    found = [variables(task) for task in range(5)]
    rows = [
        " ".join(each[name] for name in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK"))
        for each in found
    ]
    assert rows == ["0 0 2 0", "1 1 2 0", "2 0 3 1", "3 1 3 1", "4 2 3 1"]
    assert {each["WORLD_SIZE"] for each in found} == {"5"}
    assert {each["GROUP_WORLD_SIZE"] for each in found} == {"2"}
    assert {(each["MASTER_ADDR"], each["MASTER_PORT"]) for each in found} == {("10.0.0.1", "61007")}
    assert found[0]["STOKER_NODES"] == "a b"


def test_the_vocabularies_agree() -> None:
    found = variables(3)
    for names in gang_environment._NAMES:
        assert len({found[name] for name in names.split()}) == 1, names
    assert not [name for name in found if name.startswith(("SLURM_", "PMI_", "PMIX_"))]
