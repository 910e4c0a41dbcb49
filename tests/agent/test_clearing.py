# SPDX-License-Identifier: Apache-2.0
"""Folders of jobs are removed whatever is in them, and nobody waits for a large one."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from stoker.agent import clearing
from stoker.agent.clearing import FEW, Clearing, clear

DEEPER_THAN_PYTHON = 1500


def dig(folder: Path, depth: int) -> None:
    """Folders in folders, each with a file, too deep for any path."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d" * 100, dir_fd=fd)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        inner = os.open("d" * 100, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "7"
    made.mkdir()
    return made


def gone(folder: Path) -> bool:
    until = time.monotonic() + 20
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.01)
    return not folder.exists()


def test_a_tree_of_any_depth_goes(folder: Path) -> None:
    dig(folder, DEEPER_THAN_PYTHON)
    (folder / ".lifted-1").write_text("a name that is taken")
    (folder / "wide").mkdir(mode=0)
    assert clear(folder) == []
    assert not folder.exists()
    assert clear(folder) == []


def test_links_are_removed_and_not_followed(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (folder / "link").symlink_to(kept)
    (folder / "in").mkdir()
    (folder / "in/link").symlink_to(kept)
    os.mkfifo(folder / "in/pipe")
    assert clear(folder) == []
    assert not folder.exists() and (kept / "file").exists()
    folder.symlink_to(kept)
    assert len(clear(folder)) == 1
    assert (kept / "file").exists()


def test_what_cannot_go_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "one").touch()
    (folder / "two").touch()
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        if name == "one":
            raise PermissionError(1, "Operation not permitted")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    left = clear(folder)
    assert left[0] == f"{folder}/one: Operation not permitted"
    assert [path.name for path in folder.iterdir()] == ["one"]


def test_little_goes_at_once_and_much_while_others_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(FEW):
        (folder / str(number)).touch()
    removing, allowed = Clearing(), threading.Event()
    really = clearing.clear
    monkeypatch.setattr(clearing, "clear", lambda path: allowed.wait(20) and really(path))
    removing.remove(folder)
    removing.remove(folder)  # it is gone already
    assert not folder.exists()
    large, deep = tmp_path / "8", tmp_path / "9"
    for path in (large, deep):
        path.mkdir()
    for number in range(FEW + 1):
        (large / str(number)).touch()
    dig(deep, 2)
    removing.remove(large)
    removing.remove(deep)
    assert large.exists() and deep.exists()  # nobody waited
    allowed.set()
    assert gone(large) and gone(deep)
