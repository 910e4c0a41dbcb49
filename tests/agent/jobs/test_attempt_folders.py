# SPDX-License-Identifier: Apache-2.0
"""Names of folders and cgroups of tasks, there and back."""

from __future__ import annotations

import pytest

from stoker.agent.jobs.attempt_folders import cgroup_key, cgroup_name, folder_name, key_of
from stoker.scheduler.nouns import TaskKey

NAMES = {
    (7, 1, 0): "7",
    (7, 2, 0): "7.2",
    (10, 13, 0): "10.13",
    (7, 1, 1): "7.1.1",
    (7, 2, 1): "7.2.1",
    (7, 2, 63): "7.2.63",
}


@pytest.mark.parametrize(("numbers", "name"), NAMES.items())
def test_there_and_back(numbers: tuple[int, int, int], name: str) -> None:
    key = TaskKey(*numbers)
    assert folder_name(key) == name
    assert key_of(name) == key
    assert cgroup_key(cgroup_name(key)) == key


NO_FOLDERS = ["", ".spare", "0", "7.1", "7.0", "07", "7.", "7.2.0", "7.1.0", "7.2.3.4", "x", "٣"]


@pytest.mark.parametrize("name", NO_FOLDERS)
def test_nothing_else_is_a_folder_of_a_task(name: str) -> None:
    assert key_of(name) is None


@pytest.mark.parametrize("name", ["", "7", "7.2", "7.2.x", "7.2.1.1", "cgroup.procs", "7.2.٣"])
def test_nothing_else_is_a_cgroup_of_a_task(name: str) -> None:
    assert cgroup_key(name) is None
