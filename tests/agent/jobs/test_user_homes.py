# SPDX-License-Identifier: Apache-2.0
"""Homes of owners, and a cache for those whose home cannot be written."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.agent.jobs.user_homes import UserHomes

ME = os.geteuid()
UID, GID = (61003, 61003) if ME == 0 else (ME, os.getegid())


def entry(monkeypatch: pytest.MonkeyPatch, folder: object, shell: str = "/bin/zsh") -> None:
    found = SimpleNamespace(pw_dir=str(folder), pw_shell=shell)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: found)


def test_a_user_with_a_home_needs_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry(monkeypatch, tmp_path)
    home = UserHomes(tmp_path).of(ME, GID)
    assert (home.folder, home.shell, home.cache) == (str(tmp_path), "/bin/zsh", "")


def test_a_user_without_one_gets_a_private_cache_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry(monkeypatch, "/nonexistent")
    home = UserHomes(tmp_path).of(UID, GID)
    cache = Path(home.cache)
    assert home.folder == "/nonexistent"
    assert cache.stat().st_uid == UID
    assert cache.stat().st_mode & 0o777 == 0o700
    assert UserHomes(tmp_path).of(UID, GID).cache == home.cache


def test_a_planted_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry(monkeypatch, "/nonexistent")
    target = tmp_path / "elsewhere"
    target.mkdir(mode=0o700)
    (tmp_path / f"stoker-cache-{UID}").symlink_to(target)
    cache = Path(UserHomes(tmp_path).of(UID, GID).cache)
    assert cache != tmp_path / f"stoker-cache-{UID}"
    assert cache.stat().st_uid == UID
    assert target.stat().st_uid == ME


def test_an_unknown_owner_has_a_shell_and_no_home(tmp_path: Path) -> None:
    home = UserHomes(tmp_path).of(4_000_000_001, 1) if ME == 0 else None
    if home is None:
        pytest.skip("only root can make a folder for somebody else")
    assert (home.folder, home.shell) == ("/", "/bin/sh")
    assert home.cache
