# SPDX-License-Identifier: Apache-2.0
"""Snapshot files: each is whole or absent, and an older one replaces a damaged one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from stoker.mesh.log.feature_level import FORMATS
from stoker.mesh.log.genesis import digest, first_config
from stoker.mesh.replica import snapshots
from stoker.mesh.replica.snapshots import OtherFormat, Snapshot, SnapshotFolder
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import Corrupt
from stoker.scheduler.core import Limits
from tests.mesh.founding import genesis_of

CONFIG = first_config(genesis_of("c1", Limits()))
PLAIN = Snapshot(snapshots.FORMAT, "c1", 7, 6, b"h" * 32, 2, 3, 1, b"core", b"book", CONFIG)


def at(index: int, **changes: object) -> Snapshot:
    return msgspec.structs.replace(PLAIN, index=index, **changes)


def test_the_newest_is_found_and_two_are_kept(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path / "s")
    assert folder.newest("c1").snapshot is None
    for seq in (7, 9, 120):
        folder.save(at(seq))
    assert folder.newest("c1").snapshot == at(120)
    assert len(list(folder.path.iterdir())) == snapshots.KEPT
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in folder.path.iterdir())


def test_the_later_state_is_the_newest_wherever_its_log_has_begun_again(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.save(at(40, seq=45))
    folder.save(at(60, seq=3))
    assert folder.newest("c1").snapshot == at(60, seq=3)
    folder.save(at(50, seq=9))  # one that was written late
    assert folder.newest("c1").snapshot == at(60, seq=3)


def test_a_cut_at_any_byte_falls_back(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.save(at(7))
    encoded = folder.save(at(9))
    newest = max(tmp_path.iterdir())
    for length in range(len(encoded.data)):
        newest.write_bytes(encoded.data[:length])
        found = folder.newest("c1")
        assert found.snapshot == at(7)
        assert len(found.damaged) == 1
    newest.write_bytes(encoded.data)
    assert folder.newest("c1").snapshot == at(9)


def test_a_flipped_bit_falls_back(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.save(at(7))
    encoded = folder.save(at(9))
    newest = max(tmp_path.iterdir())
    for bit in range(0, len(encoded.data) * 8, 5):
        broken = bytearray(encoded.data)
        broken[bit // 8] ^= 1 << bit % 8
        newest.write_bytes(broken)
        assert folder.newest("c1").snapshot == at(7)


def test_only_damaged_files_are_reported(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.save(at(7))
    max(tmp_path.iterdir()).write_bytes(b"")
    found = folder.newest("c1")
    assert (found.snapshot, len(found.damaged)) == (None, 1)


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.save(at(7))
    (tmp_path / ".9.partial").mkdir()  # a folder in its place makes the write fail
    with pytest.raises(OSError, match="partial"):
        folder.save(at(9))
    assert folder.newest("c1").snapshot == at(7)


def test_partial_files_of_a_crash_are_not_snapshots(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    (tmp_path / ".9.partial").write_bytes(snapshots.encode(at(9)).data)
    assert folder.newest("c1").snapshot is None


def test_another_cluster_or_format_is_refused(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.save(at(7))
    with pytest.raises(Corrupt, match="belongs to cluster c1, this is c2"):
        folder.newest("c2")
    other = snapshots.FORMAT + 1
    with pytest.raises(Corrupt, match=f"format {other}"):
        snapshots.decode(snapshots.encode(at(7, format=other)).data)


@pytest.mark.parametrize("more", [0, 3])
def test_a_whole_file_of_another_format_is_not_damaged(tmp_path: Path, more: int) -> None:
    """An older state in its place would not be what this replica has told the others."""
    folder = SnapshotFolder(tmp_path)
    folder.save(at(7))
    newer = at(9, format=snapshots.FORMAT + 1)
    body = msgspec.msgpack.encode([*msgspec.to_builtins(newer), *["unknown"] * more])
    (tmp_path / f"{9:020d}.snapshot").write_bytes(_file_of(body))
    with pytest.raises(OtherFormat, match=rf"has format {snapshots.FORMAT + 1}, this version"):
        folder.newest("c1")


def _file_of(body: bytes) -> bytes:
    """The bytes of a file, whatever its body is."""
    digest = hashlib.blake2b(body, digest_size=32).digest()
    return b"stoker snapshot\n" + digest + body


@pytest.mark.parametrize("level", FORMATS)
def test_a_state_is_written_in_the_format_of_its_level(level: int) -> None:
    """So the digests of a level are alike in all builds that support it."""
    made = genesis_of("c1", Limits())
    made = msgspec.structs.replace(made, level=level, formats=FORMATS[level])
    state = ReplicaState("c1", digest(made))
    state._found(made, 0)
    assert state.snapshot().format == FORMATS[level].snapshot
    assert snapshots.decode(snapshots.encode(state.snapshot()).data)[0].config.level == level
