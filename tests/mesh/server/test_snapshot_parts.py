# SPDX-License-Identifier: Apache-2.0
"""The transfer of snapshot files between schedulers, and their installation."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.snapshots import Snapshot, SnapshotFolder
from stoker.mesh.server import snapshot_parts
from stoker.mesh.server.snapshot_parts import SnapshotParts
from stoker.native.errors import Corrupt
from stoker.scheduler.core import Limits
from tests.mesh.founding import founded


@pytest.fixture
def snapshot(monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    monkeypatch.setattr(snapshot_parts, "PART_BYTES", 100)
    limits = Limits(nodes=4, devices=8, jobs=64, finished=16, tasks=64, node_tasks=64, keys=64)
    return msgspec.structs.replace(founded("cluster", limits).snapshot(), seq=5, index=4)


def transfer(parts: SnapshotParts) -> bytes:
    """Request all parts of the newest file, as another scheduler does."""
    data, index = b"", 0
    while True:
        part = parts.part(events.ReadSnapshotPart(2, index, len(data)))
        assert (part.to, part.offset) == (2, len(data))
        data, index = data + part.data, part.snapshot
        if len(data) == part.size:
            return data


def test_a_file_arrives_in_parts_and_is_the_only_one_after(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    source, target = SnapshotFolder(tmp_path / "a"), SnapshotFolder(tmp_path / "b")
    source.save(snapshot)
    target.save(msgspec.structs.replace(snapshot, index=3))
    target.save(msgspec.structs.replace(snapshot, index=9))
    data = transfer(SnapshotParts(source))
    assert len(data) > 2 * snapshot_parts.PART_BYTES
    target.install(data)
    found = target.newest("cluster")
    assert found.snapshot == snapshot
    names = [path.name for path in target.path.iterdir()]
    assert names == [f"{snapshot.index:020d}.snapshot"]
    target.install(data)
    assert target.newest("cluster").digest == found.digest


def test_a_transfer_goes_on_with_its_file_while_a_newer_one_is_saved(
    tmp_path: Path, snapshot: Snapshot
) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.save(snapshot)
    parts = SnapshotParts(folder)
    first = parts.part(events.ReadSnapshotPart(2, 0, 0))
    for seq in (6, 7, 8):
        folder.save(msgspec.structs.replace(snapshot, seq=seq, index=seq))
    following = parts.part(events.ReadSnapshotPart(2, first.snapshot, len(first.data)))
    assert (following.snapshot, following.size) == (4, first.size)
    assert parts.part(events.ReadSnapshotPart(3, 0, 0)).snapshot == 8
    assert snapshots.decode(transfer(parts))[0].index == 8


def test_without_a_good_file_the_size_is_zero(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = SnapshotFolder(tmp_path)
    assert SnapshotParts(folder).part(events.ReadSnapshotPart(2, 0, 0)).size == 0
    folder.save(snapshot)
    path = folder.newest_file()
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1])
    assert SnapshotParts(folder).part(events.ReadSnapshotPart(2, 0, 0)).size == 0


def test_nothing_is_installed_from_damaged_bytes(tmp_path: Path, snapshot: Snapshot) -> None:
    folder = SnapshotFolder(tmp_path)
    data = folder.save(snapshot).data
    with pytest.raises(Corrupt):
        folder.install(data[:-1])
    assert folder.newest("cluster").snapshot == snapshot
    folder.install(b"")
    assert folder.newest_file() is None
