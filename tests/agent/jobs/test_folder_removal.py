# SPDX-License-Identifier: Apache-2.0
"""Folders of jobs are removed whatever is in them, and a large one delays nobody."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import threading
import time
from pathlib import Path

import pytest
from spawned import OWNER

from stoker.agent.jobs import folder_removal
from stoker.agent.jobs.folder_removal import FEW, FolderRemoval, clear

DEEPER_THAN_PYTHON = 1500
RENAME_EXCHANGE = 2
NAMES = 50
SWEEPS = 4


def dig(folder: Path, depth: int) -> None:
    """Make nested folders, each with a file, too deep for any path."""
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
    until = time.monotonic() + 60
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


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder outside the removed one, with one file in it."""
    made = tmp_path / "kept"
    made.mkdir(mode=0o755)
    (made / "file").write_text("as it was")
    return made


def untouched(kept: Path) -> bool:
    found = kept.stat()
    whole = (kept / "file").read_text() == "as it was"
    return whole and (stat.S_IMODE(found.st_mode), found.st_uid) == (0o755, os.geteuid())


@pytest.mark.parametrize("call", ["open", "chmod", "chown"])
def test_a_folder_that_is_swapped_after_it_was_listed_leads_nowhere(
    folder: Path, kept: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Turn the name into a link to another folder at the first `call` on it or its pin."""
    inner, aside = folder / "inner", folder.with_name("aside")
    inner.mkdir(mode=0o500)
    really = getattr(os, call)

    def swap(path: str, *arguments: object, **more: object) -> object:
        about = path == "inner" or str(path).startswith("/proc/self/fd/")
        if about and not aside.exists() and os.path.realpath(path) != str(folder):
            inner.rename(aside)
            inner.symlink_to(kept)
        return really(path, *arguments, **more)

    monkeypatch.setattr(os, call, swap)
    clear(folder)
    monkeypatch.undo()
    assert aside.exists(), "the swap was never made"
    assert untouched(kept)
    assert clear(folder) == [] and not folder.exists()


def exchange(libc: ctypes.CDLL, fd: int, number: int) -> None:
    libc.renameat2(fd, b"d%d" % number, fd, b"l%d" % number, RENAME_EXCHANGE)


def swap_for_ever(folders: list[int]) -> None:
    """Swap folders and links to elsewhere from a child that runs as a plain user."""
    libc = ctypes.CDLL(None)
    try:
        os.setgroups([])
        os.setresgid(OWNER, OWNER, OWNER)
        os.setresuid(OWNER, OWNER, OWNER)
        while True:
            for number in range(NAMES):
                for fd in folders:
                    exchange(libc, fd, number)
    finally:
        os._exit(1)


@pytest.mark.needs_root
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_user_who_swaps_folders_for_links_reaches_nothing_outside(
    tmp_path: Path, kept: Path
) -> None:
    for sweep in range(SWEEPS):
        folder = tmp_path / str(sweep)
        for path in (folder, folder / "deep"):
            path.mkdir()
            for number in range(NAMES):
                (path / f"d{number}").mkdir(mode=0o500)
                (path / f"l{number}").symlink_to(kept)
            os.chown(path, OWNER, OWNER)
        folders = [os.open(path, os.O_RDONLY) for path in (folder, folder / "deep")]
        child = os.fork()
        if child == 0:
            swap_for_ever(folders)
        try:
            swapped = folder / "d0"
            while not swapped.is_symlink():  # the child has begun
                assert os.waitpid(child, os.WNOHANG) == (0, 0)
            clear(folder)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            for fd in folders:
                os.close(fd)
        assert untouched(kept)
        assert clear(folder) == [] and not folder.exists()


def test_who_adds_folders_for_ever_does_not_delay_the_removal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_removal, "FOLDERS_MAX", 20)
    dig(folder, 40)
    (why,) = clear(folder)[:1]
    assert why == f"{folder}: more than 20 folders, and there are still some"
    monkeypatch.undo()
    assert clear(folder) == [] and not folder.exists()


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
    removing, allowed = FolderRemoval(), threading.Event()
    really = folder_removal.clear
    monkeypatch.setattr(folder_removal, "clear", lambda path: allowed.wait(20) and really(path))
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
