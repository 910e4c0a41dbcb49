# SPDX-License-Identifier: Apache-2.0
"""Effects on the log, carried out side by side."""

from __future__ import annotations

import asyncio
from pathlib import Path

from stoker.mesh.log.log_archive import LogArchive
from stoker.mesh.log.model_log import ModelLog
from stoker.mesh.replica import events
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.mesh.server.log_writer import LogWriter


async def trim_at_once(archive: LogArchive, folder: Path, *to: int) -> list[events.Event]:
    """Carry out trims of a log of 20 entries at the same time; return the events that answer."""
    engine = ModelLog()
    for seq in range(20):
        engine.append(seq, b"entry %d" % seq)
    answers: list[events.Event] = []

    async def feed(event: events.Event) -> None:
        answers.append(event)

    writer = LogWriter(engine, SnapshotFolder(folder), feed, archive)
    await asyncio.gather(*(writer.trim(events.Trim(seq)) for seq in to))
    assert min(engine.entries) == max(to) + 1
    return answers


def test_trims_at_the_same_time_archive_each_entry_once(tmp_path: Path) -> None:
    archive = LogArchive(tmp_path / "archive")
    answers = asyncio.run(trim_at_once(archive, tmp_path, 12, 16, 9))
    assert answers == [events.Trimmed(seq) for seq in (12, 16, 9)]
    assert [seq for seq, _ in archive.entries()] == list(range(1, 17))
