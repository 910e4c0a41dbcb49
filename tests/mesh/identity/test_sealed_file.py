# SPDX-License-Identifier: Apache-2.0
"""A file that a person keeps is private and whole, or it is refused or not there."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from stoker.mesh.identity import sealed_file
from stoker.mesh.identity.sealed_file import FileKind
from stoker.native.errors import BadRequest, Corrupt, Refused

KIND = FileKind(b"kind 1\n", "stoker make", 1000)


class Content(msgspec.Struct):
    """The content of such a file."""

    name: str


def made(folder: Path, name: str = "a") -> Path:
    path = folder / "file"
    sealed_file.create(path, sealed_file.encode(KIND, Content(name)))
    return path


def test_it_is_private_and_read_as_it_was_written(tmp_path: Path) -> None:
    path = made(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sealed_file.read(KIND, path, Content) == Content("a")


def test_one_that_is_there_stays(tmp_path: Path) -> None:
    path = made(tmp_path)
    with pytest.raises(Refused, match="exists already"):
        sealed_file.create(path, b"other")
    assert sealed_file.read(KIND, path, Content).name == "a"


def test_each_changed_bit_is_noticed(tmp_path: Path) -> None:
    path = made(tmp_path)
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises((BadRequest, Corrupt)):
            sealed_file.read(KIND, path, Content)
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises((BadRequest, Corrupt)):
            sealed_file.read(KIND, path, Content)


def test_another_kind_and_one_too_large_are_named(tmp_path: Path) -> None:
    path = made(tmp_path)
    with pytest.raises(BadRequest, match="not made by `stoker other` of this version"):
        sealed_file.read(FileKind(b"kind 2\n", "stoker other", 1000), path, Content)
    with pytest.raises(BadRequest, match="not made by"):
        sealed_file.read(KIND._replace(bytes_max=10), path, Content)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        made(tmp_path)
    assert list(tmp_path.iterdir()) == []
