# SPDX-License-Identifier: Apache-2.0
"""Logs stay within their limit while a process writes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.agent.supervise import log_rotation


def test_a_log_past_half_its_limit_moves_aside(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    handle = log_rotation.open_log(path)
    os.write(handle, b"a" * 60)
    assert not log_rotation.rotate(path, 120)
    os.write(handle, b"b")
    assert log_rotation.rotate(path, 120)
    os.write(handle, b"new")
    os.close(handle)
    assert path.read_bytes() == b"new"
    assert path.with_name("x.log.1").read_bytes() == b"a" * 60 + b"b"
    assert path.stat().st_mode & 0o777 == path.with_name("x.log.1").stat().st_mode & 0o777 == 0o600


def test_a_second_rotation_replaces_the_first(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    for text in (b"one" * 10, b"two" * 10):
        path.write_bytes(text)
        assert log_rotation.rotate(path, 20)
    assert path.with_name("x.log.1").read_bytes() == b"two" * 10
    assert path.read_bytes() == b""


def test_what_arrives_during_the_copy_is_copied_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.log"
    handle = log_rotation.open_log(path)
    os.write(handle, b"x" * 50)
    copy, late = log_rotation.shutil.copyfileobj, [b"late 1\n", b"late 2\n"]

    def slow(*arguments: object) -> None:
        copy(*arguments)  # type: ignore[arg-type]
        if late:
            os.write(handle, late.pop(0))

    monkeypatch.setattr(log_rotation.shutil, "copyfileobj", slow)
    assert log_rotation.rotate(path, 10)
    os.close(handle)
    assert path.with_name("x.log.1").read_bytes() == b"x" * 50 + b"late 1\nlate 2\n"


def test_a_disk_that_is_full_costs_the_older_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "x.log"
    path.write_bytes(b"x" * 100)
    path.with_name("x.log.1").write_bytes(b"old")
    monkeypatch.setattr(log_rotation, "_copy", full)
    assert log_rotation.rotate(path, 10)
    assert path.read_bytes() == b""
    assert not path.with_name("x.log.1").exists()


def test_no_log_is_nothing_to_rotate(tmp_path: Path) -> None:
    assert not log_rotation.rotate(tmp_path / "x.log", 10)
    assert log_rotation.tail(tmp_path / "x.log") == []


def test_the_tail_is_whole_lines_of_text(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"first\n" * 5000 + b"last but \xff one\nlast\n")
    assert log_rotation.tail(path, lines=2) == ["last but \ufffd one", "last"]
