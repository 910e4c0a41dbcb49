# SPDX-License-Identifier: Apache-2.0
"""The stored position: read back, and one slot whole whatever happens to the other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.agent.state.command_position import PositionFile
from stoker.mesh.wire.command import Position
from stoker.native.errors import Refused


def at(seq: int) -> Position:
    return Position(3, seq, bytes([seq]) * 32)


def test_the_newest_position_is_read_back(tmp_path: Path) -> None:
    file = PositionFile.open(tmp_path / "position")
    assert file.position == Position()
    for seq in range(1, 6):
        file.store(at(seq))
        assert PositionFile.open(tmp_path / "position").position == at(seq)
    file.close()
    assert (tmp_path / "position").stat().st_mode & 0o077 == 0


def test_a_torn_write_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "position"
    file = PositionFile.open(path)
    file.store(at(1))
    before = path.read_bytes().ljust(128, b"\0")
    file.store(at(2))
    after = path.read_bytes().ljust(128, b"\0")
    for cut in range(len(after) + 1):
        path.write_bytes(after[:cut] + before[cut:])
        assert PositionFile.open(path).position in (at(1), at(2))


def test_damage_to_both_slots_is_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "position"
    file = PositionFile.open(path)
    file.store(at(1))
    file.store(at(2))
    path.write_bytes(b"\xff" * 128)
    assert PositionFile.open(path).position == Position()


def test_a_full_disk_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("mknod needs root")
    full = tmp_path / "position"
    os.mknod(full, 0o020666, os.makedev(1, 7))  # /dev/full
    with pytest.raises(Refused, match="No space left"):
        PositionFile.open(full)
