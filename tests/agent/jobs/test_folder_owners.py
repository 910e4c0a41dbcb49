# SPDX-License-Identifier: Apache-2.0
"""The owners of finished folders across restarts, torn writes and a file that grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.jobs import folder_owners
from stoker.agent.jobs.folder_owners import FolderOwners
from stoker.scheduler.nouns import TaskKey


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "owners"
    assert folder_owners.read(path) == {}
    file = FolderOwners(path)
    file.begin({TaskKey(1, 1, 0): 1000})
    file.add([(TaskKey(7, 2, 0), 1001), (TaskKey(7, 3, 0), -1)])
    file.close()
    assert folder_owners.read(path) == {
        TaskKey(1, 1, 0): 1000,
        TaskKey(7, 2, 0): 1001,
        TaskKey(7, 3, 0): -1,
    }
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_record_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "owners"
    file = FolderOwners(path)
    file.begin({TaskKey(1, 1, 0): 1000, TaskKey(2, 1, 0): 1001})
    file.close()
    path.write_bytes(path.read_bytes()[:-3])
    assert folder_owners.read(path) == {TaskKey(1, 1, 0): 1000}


def test_it_says_when_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_owners, "RECORDS_MAX", 3)
    file = FolderOwners(tmp_path / "owners")
    file.begin({})
    assert [file.add([(TaskKey(job, 1, 0), 0)]) for job in range(1, 5)] == [
        True,
        True,
        False,
        False,
    ]
    file.begin({TaskKey(4, 1, 0): 0})
    assert file.add([(TaskKey(5, 1, 0), 0)])
    file.close()
