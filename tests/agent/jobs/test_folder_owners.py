# SPDX-License-Identifier: Apache-2.0
"""The owners of finished folders across restarts, torn writes and a file that grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.jobs import folder_owners
from stoker.agent.jobs.folder_owners import FolderOwners


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "owners"
    assert folder_owners.read(path) == {}
    file = FolderOwners(path)
    file.begin({(1, 1): 1000})
    file.add((7, 2), 1001)
    file.add((7, 3), -1)
    file.close()
    assert folder_owners.read(path) == {(1, 1): 1000, (7, 2): 1001, (7, 3): -1}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_torn_record_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "owners"
    file = FolderOwners(path)
    file.begin({(1, 1): 1000, (2, 1): 1001})
    file.close()
    path.write_bytes(path.read_bytes()[:-3])
    assert folder_owners.read(path) == {(1, 1): 1000}


def test_it_says_when_it_has_grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_owners, "RECORDS_MAX", 3)
    file = FolderOwners(tmp_path / "owners")
    file.begin({})
    assert [file.add((job, 1), 0) for job in range(1, 5)] == [True, True, False, False]
    file.begin({(4, 1): 0})
    assert file.add((5, 1), 0)
    file.close()
