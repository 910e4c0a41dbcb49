# SPDX-License-Identifier: Apache-2.0
"""Trimmed entries: durable before the log loses them, and one chain with what the log still has."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.log.log_archive import LogArchive, read_segment
from stoker.mesh.log.model_log import ModelLog
from stoker.mesh.replica import events
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.mesh.server.log_writer import LogWriter
from stoker.native.errors import Corrupt
from tests.mesh.bench import Bench


@pytest.fixture
def log(tmp_path: Path) -> ModelLog:
    """A log of some 30 entries with their chain."""
    bench = Bench(identity.create(tmp_path / "s.nk")).lead().hello()
    for number in range(30):
        bench.submit(number)
    return bench.log


async def trim(log: ModelLog, archive: LogArchive, folder: Path, seq: int) -> list[events.Event]:
    fed: list[events.Event] = []

    async def feed(event: events.Event) -> None:
        fed.append(event)

    writer = LogWriter(log, SnapshotFolder(folder), feed, archive)
    await writer.trim(events.Trim(seq))
    return fed


async def test_archive_and_log_are_one_chain_after_trims(log: ModelLog, tmp_path: Path) -> None:
    whole = log.read(1)
    archive = LogArchive(tmp_path / "archive")
    for seq in (9, 10, 25):
        assert await trim(log, archive, tmp_path, seq) == [events.Trimmed(seq)]
    assert min(log.entries) == 26
    assert [*archive.entries(), *log.read(1)] == whole
    assert [*archive.entries(after=12)] == whole[12:25]
    assert archive.first_index() == 1


async def test_nothing_is_trimmed_that_could_not_be_archived(log: ModelLog, tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("a file stands in the way")
    (fed,) = await trim(log, LogArchive(tmp_path / "archive"), tmp_path, 9)
    assert isinstance(fed, events.TrimFailed)
    assert min(log.entries) == 1


async def test_nothing_is_trimmed_that_was_not_read(log: ModelLog, tmp_path: Path) -> None:
    """A broker that answers from its copy may be behind the entry up to which is trimmed."""
    read, log.read = log.read, lambda seq: read(seq)[: max(0, 6 - seq)]  # type: ignore[method-assign]
    archive = LogArchive(tmp_path / "archive")
    (fed,) = await trim(log, archive, tmp_path, 9)
    assert isinstance(fed, events.TrimFailed) and min(log.entries) == 1
    log.read = read  # type: ignore[method-assign]
    assert await trim(log, archive, tmp_path, 9) == [events.Trimmed(9)]
    assert min(log.entries) == 10


async def test_a_damaged_segment_is_noticed(log: ModelLog, tmp_path: Path) -> None:
    archive = LogArchive(tmp_path / "archive")
    await trim(log, archive, tmp_path, 9)
    (segment,) = (tmp_path / "archive").iterdir()
    data = segment.read_bytes()
    segment.write_bytes(data[:-3])
    with pytest.raises(Corrupt, match="ends within log entry 9"):
        list(archive.entries())
    segment.write_bytes(data[:-1] + b"?")
    assert len([*read_segment(segment)]) == 9, "who reads it checks each entry"
    segment.write_bytes(b"?" + data)
    with pytest.raises(Corrupt, match="no segment"):
        list(archive.entries())


async def test_the_oldest_segments_go_past_the_bound(log: ModelLog, tmp_path: Path) -> None:
    archive = LogArchive(tmp_path / "archive", bytes_max=3000)
    for seq in (5, 10, 15, 20):
        await trim(log, archive, tmp_path, seq)
    assert 1 < archive.first_index() <= 16
    assert archive.last_place == 20
