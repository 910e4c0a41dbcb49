# SPDX-License-Identifier: Apache-2.0
"""Output by offset: what is there, what is still to come, and what is over."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker.agent.jobs import job_output as module
from stoker.agent.jobs.job_output import AttemptLookup, JobOutput, Watches
from stoker.agent.jobs.job_waiters import JobWaiters
from stoker.mesh.wire.queries import LogsQuery, LogsReply
from stoker.native.errors import NotFound, Refused, from_errno
from stoker.scheduler.nouns import TaskKey


class Node:
    """The daemon's answers about attempts, set by the test."""

    def __init__(self, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        self.folder = folder
        self.live: set[tuple[int, int]] = set()
        self.waiting = JobWaiters(loop)
        self.watches = Watches(loop)
        self.ended: set[tuple[int, int]] = set()
        known = AttemptLookup(
            self.live.__contains__,
            self.ended.__contains__,
            lambda key: 7,
            self.waiting.change,
        )
        self.logs = JobOutput(folder, self.watches, known)

    def begin(self, job: int) -> Path:
        (self.folder / str(job)).mkdir()
        self.live.add(TaskKey(job, 1, 0))
        self.waiting.changed(job)
        return self.folder / str(job) / "out"

    def end(self, job: int) -> None:
        self.live.discard(TaskKey(job, 1, 0))
        self.waiting.changed(job)

    async def read(self, job: int, offset: int = 0, **more: object) -> LogsReply:
        return await self.logs.answer(LogsQuery(job, 1, 0, 0, "out", offset, **more))  # type: ignore[arg-type]


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    yield made
    assert len(made.watches) == 0
    assert len(made.waiting) == 0
    made.watches.close()


async def test_any_piece_by_offset_and_the_end_with_what_was_dropped(node: Node) -> None:
    node.begin(1).write_bytes(b"hello world")
    assert await node.read(1, 0, limit=5) == LogsReply(b"hello", 5, eof=False)
    assert await node.read(1, 6) == LogsReply(b"world", 11, eof=False)
    node.end(1)
    assert await node.read(1, 6, limit=2) == LogsReply(b"wo", 8, eof=False)
    assert await node.read(1, 8) == LogsReply(b"rld", 11, eof=True, dropped=7)
    assert await node.read(1, 11) == LogsReply(b"", 11, eof=True, dropped=7)


async def test_a_live_job_without_new_bytes_answers_after_the_wait(node: Node) -> None:
    node.begin(1).write_bytes(b"ab")
    assert await node.read(1, 2) == LogsReply(b"", 2, eof=False)
    assert await node.read(1, 2, wait_s=0.05) == LogsReply(b"", 2, eof=False)


async def test_a_write_wakes_the_reader(node: Node) -> None:
    out = node.begin(1)
    out.write_bytes(b"ab")
    reader = asyncio.create_task(node.read(1, 2, wait_s=20.0))
    await asyncio.sleep(0.02)
    with out.open("ab") as file:
        file.write(b"cd")
    assert (await asyncio.wait_for(reader, 60)).data == b"cd"


@pytest.mark.parametrize("refused", ["inotify_init1", "inotify_add_watch"])
async def test_without_inotify_a_reader_looks_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """Other programs of the user may have all instances, or all watches, that the kernel gives."""
    before = Watches._call

    def call(self: Watches, name: str, *arguments: int | bytes) -> int:
        if name == refused:
            raise from_errno(-errno.EMFILE, name)
        return before(self, name, *arguments)

    monkeypatch.setattr(Watches, "_call", call)
    node = Node(tmp_path)
    out = node.begin(1)
    out.write_bytes(b"ab")
    reader = asyncio.create_task(node.read(1, 2, wait_s=60.0))
    await asyncio.sleep(0.02)
    assert len(node.watches) == 1
    with out.open("ab") as file:
        file.write(b"cd")
    assert (await asyncio.wait_for(reader, 60)).data == b"cd"
    assert len(node.watches) == 0
    node.watches.close()


async def test_the_first_write_of_a_job_wakes_the_reader(node: Node) -> None:
    reader = asyncio.create_task(node.read(1, 0, wait_s=20.0))
    await asyncio.sleep(0.02)
    out = node.begin(1)
    await asyncio.sleep(0.02)
    out.write_bytes(b"x")
    assert (await asyncio.wait_for(reader, 60)).data == b"x"


async def test_the_end_wakes_the_reader(node: Node) -> None:
    node.begin(1).write_bytes(b"")
    reader = asyncio.create_task(node.read(1, 0, wait_s=20.0))
    await asyncio.sleep(0.02)
    node.end(1)
    assert (await asyncio.wait_for(reader, 60)).eof


async def test_a_job_that_ended_before_it_wrote_is_over(node: Node) -> None:
    node.begin(1)
    node.end(1)
    assert await node.read(1, 0) == LogsReply(b"", 0, eof=True, dropped=7)


async def test_a_job_that_ended_without_a_folder_is_over(node: Node) -> None:
    """A job without output gets no folder."""
    node.ended.add(TaskKey(3, 1, 0))
    assert await node.read(3, 0) == LogsReply(b"", 0, eof=True, dropped=7)


async def test_a_reader_that_came_before_the_folder_sees_the_first_byte(node: Node) -> None:
    node.live.add(TaskKey(4, 1, 0))
    reader = asyncio.create_task(node.read(4, 0, wait_s=20.0))
    await asyncio.sleep(0.02)
    folder = node.folder / "4"
    folder.mkdir()
    await asyncio.sleep(0.02)
    (folder / "out").write_bytes(b"late")
    assert (await asyncio.wait_for(reader, 60)).data == b"late"


async def test_an_unknown_job_is_not_found(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMING_S", 0.05)
    with pytest.raises(NotFound, match="no output of job 9"):
        await node.read(9, 0, wait_s=20.0)


async def test_readers_are_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READERS_MAX", 2)
    node.begin(1).write_bytes(b"")
    readers = [asyncio.create_task(node.read(1, 0, wait_s=20.0)) for _ in range(2)]
    await asyncio.sleep(0.02)
    with pytest.raises(Refused, match="2 readers"):
        await node.read(1, 0, wait_s=1.0)
    node.end(1)
    assert all(reply.eof for reply in await asyncio.gather(*readers))


async def test_a_thousand_pieces_are_the_whole(node: Node) -> None:
    out = node.begin(1)
    data = bytes(range(256)) * 40
    read = bytearray()

    async def follow() -> None:
        while True:
            reply = await node.read(1, len(read), limit=100, wait_s=5.0)
            read.extend(reply.data)
            if reply.eof:
                return

    reader = asyncio.create_task(follow())
    with out.open("ab", buffering=0) as file:
        for at in range(0, len(data), 64):
            file.write(data[at : at + 64])
            await asyncio.sleep(0)
    node.end(1)
    await asyncio.wait_for(reader, 60)
    assert bytes(read) == data
