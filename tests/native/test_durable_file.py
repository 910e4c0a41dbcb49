# SPDX-License-Identifier: Apache-2.0
"""A file is replaced as a whole and durably, or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stoker.native import durable_file


def test_a_file_is_made_and_replaced_with_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    durable_file.replace(path, b"old")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    durable_file.replace(path, b"new", 0o644)
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("fails", ["fsync", "fchmod"])
def test_a_write_that_fails_leaves_the_old_file_alone(
    tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    durable_file.replace(path, b"old")

    def refused(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, fails, refused)
    with pytest.raises(OSError, match="No space"):
        durable_file.replace(path, b"new")
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_content_and_name_are_synced_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "file", []
    synced = os.fsync

    def sync(handle: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(handle).st_mode), path.exists()))
        synced(handle)

    monkeypatch.setattr(os, "fsync", sync)
    durable_file.replace(path, b"new")
    assert seen == [(False, False), (True, True)]
