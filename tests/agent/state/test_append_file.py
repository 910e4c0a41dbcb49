# SPDX-License-Identifier: Apache-2.0
"""A file that grows by whole writes keeps them when the disk is full."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.agent.state.append_file import AppendFile


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A disk that takes two bytes of each write."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:2]))
    return monkeypatch


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, full: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    file = AppendFile(path)
    file.rewrite(b"ab")
    with pytest.raises(OSError, match="No space") as append:
        file.append(b"cde")
    with pytest.raises(OSError, match="No space"):
        file.rewrite(b"xyz")
    assert append.value.filename == str(path)
    assert (path.read_bytes(), file.size) == (b"ab", 2)
    full.undo()
    file.append(b"cde")
    file.close()
    assert path.read_bytes() == b"abcde"


def test_it_is_open_between_a_rewrite_and_the_close(tmp_path: Path) -> None:
    file = AppendFile(tmp_path / "file")
    assert not file.opened
    file.rewrite(b"a")
    file.rewrite(b"bc")
    assert (file.opened, file.size) == (True, 2)
    file.close()
    file.close()
    assert not file.opened
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
