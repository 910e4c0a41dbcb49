# SPDX-License-Identifier: Apache-2.0
"""The file of removed nodes follows the log's state, over a full disk too."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.server import departures_file
from stoker.mesh.server.departures_file import DepartedNode, DeparturesFile
from stoker.native import durable_file
from stoker.native.errors import Corrupt
from stoker.scheduler.departures import Departure, Departures


async def test_it_is_written_when_a_node_was_removed_and_not_before(tmp_path: Path) -> None:
    file, path = DeparturesFile(tmp_path), tmp_path / departures_file.FILE
    known = Departures()
    await file.follow(known)
    assert not path.exists() and departures_file.read(path) == []
    known.note(Departure("b", "K1", 7, 20, 2_000, "sold"))
    await file.follow(known)
    assert departures_file.read(path) == [DepartedNode("b", "K1", 2_000, "sold")]
    written = path.stat().st_ino
    await file.follow(known)
    assert path.stat().st_ino == written


async def test_a_state_that_lost_its_removals_empties_it(tmp_path: Path) -> None:
    known = Departures([Departure("b", "K1", 7, 20, 2_000, "sold")])
    await DeparturesFile(tmp_path).follow(known)
    await DeparturesFile(tmp_path).follow(Departures())
    assert departures_file.read(tmp_path / departures_file.FILE) == []


async def test_a_full_disk_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, path = DeparturesFile(tmp_path), tmp_path / departures_file.FILE
    known = Departures([Departure("b", "K1", 7, 20, 2_000, "sold")])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(durable_file, "replace", full)
        await file.follow(known)
    assert not path.exists()
    await file.follow(known)
    assert len(departures_file.read(path)) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / departures_file.FILE
    path.write_bytes(b"[]")
    with pytest.raises(Corrupt, match=r"departures\.json"):
        departures_file.read(path)
