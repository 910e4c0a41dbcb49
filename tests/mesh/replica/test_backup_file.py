# SPDX-License-Identifier: Apache-2.0
"""A backup has the whole state and no key, and a file with anything else in it is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.mesh.identity import identity, sealed_file
from stoker.mesh.replica import backup_file, snapshots
from stoker.mesh.replica.backup_file import Backup, FormerBroker
from stoker.native.errors import BadRequest, Corrupt
from tests.mesh.bench import Bench


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    bench = Bench(identity.create(tmp_path / "s.nk")).lead().hello()
    bench.submit("a", gpu_milli=1000)
    broker = FormerBroker("10.0.0.5", 4222, bytes(32))
    state = bench.replica.state.snapshot()
    return backup_file.of("first", 7, (broker,), state, {"users.json": b"{}"})


def test_it_is_read_as_it_was_written(backup: Backup, tmp_path: Path) -> None:
    backup_file.write(tmp_path / "b", backup)
    found = backup_file.read(tmp_path / "b")
    assert found == backup and found.state.seq == 0
    assert found.state.index > 0 and found.state.book


def test_two_schedulers_that_agree_give_one_state(backup: Backup) -> None:
    elsewhere = msgspec.structs.replace(backup.state, seq=99, snapshot_seq=12)
    again = backup_file.of("second", 8, (), elsewhere, backup.files)
    assert again.snapshot == backup.snapshot, "places in the log are no part of it"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no table of users"),
        ({"users.json": b"{}", "keys/admin.nk": b"S"}, "no backup has"),
        ({"users.json": b"{}", "../../etc/passwd": b"x"}, "no backup has"),
    ],
)
def test_other_files_are_refused(
    backup: Backup, tmp_path: Path, files: dict[str, bytes], says: str
) -> None:
    backup_file.write(tmp_path / "b", msgspec.structs.replace(backup, files=files))
    with pytest.raises(BadRequest, match=says):
        backup_file.read(tmp_path / "b")


def test_a_state_of_another_version_is_named(backup: Backup, tmp_path: Path) -> None:
    newer = msgspec.structs.replace(backup.state, format=snapshots.FORMAT + 1)
    other = msgspec.structs.replace(backup, snapshot=snapshots.encode(newer).data)
    backup_file.write(tmp_path / "b", other)
    with pytest.raises(Corrupt, match=rf"has format {newer.format}, this version reads"):
        backup_file.read(tmp_path / "b")


def test_another_file_is_no_backup(tmp_path: Path) -> None:
    kind = backup_file.KIND._replace(magic=b"stoker backup 2\n")
    sealed_file.create(tmp_path / "b", sealed_file.encode(kind, {}))
    with pytest.raises(BadRequest, match="not made by `stoker cluster backup` of this version"):
        backup_file.read(tmp_path / "b")
