# SPDX-License-Identifier: Apache-2.0
"""Spare folders: taken, given back empty, and never mixed up with one that is in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent import folders as module
from stoker.agent.folders import POOL, Folders


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    monkeypatch.setattr(module, "SPARES", 4)
    made = Folders(tmp_path)
    made.begin()
    return made


def spares(tmp_path: Path) -> int:
    return len(list((tmp_path / POOL).iterdir()))


def test_a_taken_folder_is_empty_private_and_the_jobs(folders: Folders, tmp_path: Path) -> None:
    assert spares(tmp_path) == 4
    taken = Path(folders.take(7))
    assert taken == tmp_path / "7"
    assert list(taken.iterdir()) == []
    assert taken.stat().st_mode & 0o777 == 0o700
    assert spares(tmp_path) == 3


def test_a_job_that_has_a_folder_keeps_it(folders: Folders, tmp_path: Path) -> None:
    (Path(folders.take(7)) / "out").write_text("precious")
    folders.take(7)
    assert (tmp_path / "7/out").read_text() == "precious"


def test_spares_run_low_then_out_and_starts_go_on(folders: Folders, tmp_path: Path) -> None:
    asked = []
    folders.more = lambda: asked.append(1)
    for job in range(1, 7):
        assert Path(folders.take(job)).is_dir()
    assert asked == [1]
    folders.refill()
    assert spares(tmp_path) == 4


def test_what_is_given_back_is_empty_and_used_again(folders: Folders, tmp_path: Path) -> None:
    for job in (1, 2):
        for name in ("out", "err", "trace.json"):
            (Path(folders.take(job)) / name).write_text("x")
    assert folders.give_back([1, 2, 9]) == 2
    assert spares(tmp_path) == 4
    for job in range(3, 8):
        assert list(Path(folders.take(job)).iterdir()) == []


def test_more_than_enough_spares_are_deleted(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    assert folders.give_back([1]) == 1
    assert spares(tmp_path) == 4
    assert not (tmp_path / "1").exists()


def test_a_folder_with_something_odd_in_it_goes_as_a_whole(
    folders: Folders, tmp_path: Path
) -> None:
    (tmp_path / "1/deep").mkdir(parents=True)
    (tmp_path / "1/deep/file").write_text("x")
    assert folders.give_back([1]) == 1
    assert not (tmp_path / "1").exists()


def test_empty_spares_of_an_earlier_agent_are_used_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / POOL / "7").mkdir(parents=True)
    (tmp_path / POOL / "9").mkdir()
    (tmp_path / POOL / "9/out").write_text("of another job")
    folders = Folders(tmp_path)
    folders.begin()
    assert (tmp_path / POOL / "7").exists()
    assert not (tmp_path / POOL / "9/out").exists()
    for job in range(1, 4):
        assert list(Path(folders.take(job)).iterdir()) == []
