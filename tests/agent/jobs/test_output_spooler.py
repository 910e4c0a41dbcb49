# SPDX-License-Identifier: Apache-2.0
"""Output is sent while its job runs; a broker that takes nothing loses none of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stoker.agent.jobs import output_spooler as module
from stoker.agent.jobs.output_spooler import OutputFiles, OutputSpooler
from stoker.agent.jobs.spooled_attempt import SpoolRecords
from stoker.mesh.wire import output_spool, subjects
from stoker.mesh.wire.output_spool import VARIABLE, OutputPiece
from stoker.native.errors import Unavailable
from stoker.scheduler.nouns import Decision, JobSpec, Owner, StartJob, TaskKey

OUT, ERR = (subjects.spooled_output("node1", (7, 1, 0, 0), name) for name in ("out", "err"))


def start(job: int = 7, size: str = "4096") -> StartJob:
    spec = JobSpec(("true",), env={VARIABLE: size} if size else {})
    return StartJob(job, 1, 0, 0, Decision(1, "node1", (), "fits", 1), Owner("a", 1, 1), spec)


class Bed:
    """One node's files and a broker, which takes pieces as the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "7").mkdir()
        self.alive = {start().key}
        self.taken: list[tuple[str, OutputPiece]] = []
        self.answers: list[bytes | Exception] = []
        self.changed = asyncio.Event()
        self.spooler = self.new()

    def new(self) -> OutputSpooler:
        files = OutputFiles(self.folder, self.alive.__contains__, lambda key: 0)
        return OutputSpooler("node1", files, SpoolRecords(self.folder / "spool"), self.send)

    async def send(self, subject: str, payload: bytes, timeout_s: float) -> bytes:
        answer = self.answers.pop(0) if self.answers else b'{"stream":"S","seq":1}'
        if isinstance(answer, Exception):
            raise answer
        if b"seq" in answer:
            self.taken.append((subject, output_spool.decode(payload)))
            self.changed.set()
        return answer

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.taken) < count:
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture
async def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bed]:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    monkeypatch.setattr(module, "RETRY_S", (0.01, 0.01))
    made = Bed(tmp_path)
    running = asyncio.create_task(made.spooler.run())
    yield made
    running.cancel()


async def test_both_streams_are_sent_and_their_ends_are_told(bed: Bed) -> None:
    bed.folder.joinpath("7", "out").write_bytes(b"hello\n")
    bed.spooler.begin(start())
    await bed.until(1)
    assert bed.taken[0][0] == OUT and bed.taken[0][1].data == b"hello\n"
    bed.folder.joinpath("7", "err").write_bytes(b"bye\n")
    bed.alive.clear()
    await bed.until(3)
    last = dict(bed.taken[1:])
    assert last[OUT].over and last[OUT].end == last[OUT].size == 6
    assert last[ERR].over and last[ERR].data == b"bye\n"
    counters = bed.spooler.counters
    assert (counters["output_spooled_bytes"], counters["output_unspooled_bytes"]) == (10, 0)


async def test_what_was_not_taken_is_sent_again(bed: Bed) -> None:
    refusal = b'{"error":{"code":503,"description":"no room"},"stream":"S"}'
    bed.answers = [Unavailable("the broker is not connected"), refusal, b"nonsense"]
    bed.folder.joinpath("7", "out").write_bytes(b"hello\n")
    bed.spooler.begin(start())
    await bed.until(1)
    assert bed.taken == [(OUT, bed.taken[0][1])] and bed.taken[0][1].data == b"hello\n"
    assert bed.spooler.counters["output_spool_failed"] == 3


async def test_a_new_agent_ends_what_an_old_one_began(bed: Bed) -> None:
    bed.folder.joinpath("7", "out").write_bytes(b"hello\n")
    bed.spooler.begin(start())
    await bed.until(1)
    bed.alive.clear()
    bed.taken.clear()
    second = bed.new()
    running = asyncio.create_task(second.run())
    await bed.until(2)
    running.cancel()
    assert {subject for subject, piece in bed.taken if piece.over} >= {OUT}


async def test_a_job_that_asked_for_nothing_costs_nothing(bed: Bed) -> None:
    bed.spooler.begin(start(size=""))
    assert not bed.spooler._some.is_set()
    assert not (bed.folder / "spool").exists()


async def test_attempts_beyond_the_bound_are_counted(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ATTEMPTS_MAX", 1)
    bed.spooler.begin(start())
    bed.spooler.begin(start())  # the same attempt, sent again
    assert not bed.spooler.counters
    bed.spooler.begin(start(8))
    assert bed.spooler.counters["output_spool_refused"] == 1


def test_every_task_of_a_gang_has_a_subject_of_its_own() -> None:
    names = {subjects.spooled_output("n", TaskKey(7, 1, rank, 5), "out") for rank in range(3)}
    assert len(names) == 3
