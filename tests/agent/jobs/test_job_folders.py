# SPDX-License-Identifier: Apache-2.0
"""Folders of finished jobs at the start of an agent and while it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.agent.jobs import folder_owners
from stoker.agent.jobs.job_folders import JobFolders
from stoker.agent.jobs.retention import RetentionLimits
from stoker.agent.jobs.spawner_messages import Exited
from stoker.scheduler.nouns import TaskKey, Usage


def exited(job: int, out: int = 10, dropped: int = 0) -> Exited:
    usage = Usage(output_bytes=out, output_dropped_bytes=dropped)
    return Exited(job, 1, 0, 0, "exited", 0, None, "", 1, 2, 3, 4, usage, out, 0)


def folder(tmp_path: Path, job: int) -> Path:
    path = tmp_path / "jobs" / str(job)
    path.mkdir(parents=True)
    (path / "out").write_text("x" * 10)
    return path


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():  # noqa: ASYNC110  # another thread does it
            await asyncio.sleep(0.01)


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "shm").mkdir()
    return tmp_path / "shm"


async def test_segments_of_jobs_long_over_go_and_nothing_that_comes_later(
    tmp_path: Path, segments: Path
) -> None:
    for job in (1, 2):
        (segments / str(job)).mkdir()
    (segments / "cache").mkdir()
    folders = JobFolders(tmp_path / "jobs", RetentionLimits())
    folders.begin(segments, {TaskKey(2, 1, 0)})
    (segments / "3").mkdir()  # a job that starts while folders are listed
    await until(lambda: folders.counters["segments_removed"] == 1)
    folders.close()
    assert sorted(entry.name for entry in segments.iterdir()) == ["2", "3", "cache"]


async def test_old_folders_count_and_the_oldest_go_first(tmp_path: Path, segments: Path) -> None:
    for job in (1, 2, 3):
        folder(tmp_path, job)
    folders = JobFolders(tmp_path / "jobs", RetentionLimits(jobs=2))
    folders.begin(segments, {TaskKey(3, 1, 0)})
    folder(tmp_path, 4)
    folders.keep(exited(4), traced=False)
    await until(lambda: folders.counters["folders_deleted"] == 1)
    folders.close()
    left = {entry.name for entry in (tmp_path / "jobs").iterdir()}
    assert len(left) == 3
    assert {"3", "4"} <= left  # one runs, one is the newest


async def test_a_start_finds_nothing_that_an_earlier_one_of_its_name_left(
    tmp_path: Path, segments: Path
) -> None:
    """Also while the folders of the last agent's jobs are being listed."""
    old, ended = folder(tmp_path, 1), folder(tmp_path, 2)
    folders = JobFolders(tmp_path / "jobs", RetentionLimits(jobs=1))
    folders.begin(segments, set())
    folders.renew(TaskKey(1, 1, 0, 7))
    assert not old.exists()
    folder(tmp_path, 1)  # the new attempt writes
    await until(lambda: folders._early is None)
    folders.keep(exited(2), traced=False)
    folders.renew(TaskKey(3, 1, 0, 7))
    assert ended.exists() and folders.counters["folders_renewed"] == 1
    folders.renew(TaskKey(2, 1, 0, 7))
    assert not ended.exists() and folders.counters["folders_renewed"] == 2
    folder(tmp_path, 4)
    folders.keep(exited(4), traced=False)
    folders.close()
    assert old.exists(), "what runs is not kept among what has ended"


async def test_a_start_is_not_silent_because_an_earlier_one_of_its_name_was(
    tmp_path: Path, segments: Path
) -> None:
    folders = JobFolders(tmp_path / "jobs", RetentionLimits())
    folders.begin(segments, set())
    folders.keep(exited(1, out=0), traced=False)
    assert folders.silent(TaskKey(1, 1, 0, 7))
    folders.renew(TaskKey(1, 1, 0, 8))
    folders.close()
    assert not folders.silent(TaskKey(1, 1, 0, 8))


async def test_what_was_dropped_is_known_after_the_spawner_forgot(
    tmp_path: Path, segments: Path
) -> None:
    folder(tmp_path, 1)
    folders = JobFolders(tmp_path / "jobs", RetentionLimits())
    assert folders.dropped(TaskKey(1, 1, 0), exited(1, dropped=7)) == 7
    folders.keep(exited(1, dropped=7), traced=False)
    assert JobFolders(tmp_path / "jobs", RetentionLimits()).dropped(TaskKey(1, 1, 0), None) == 7
    assert folders.dropped(TaskKey(2, 1, 0), None) == 0
    folders.close()


async def test_a_forgotten_job_goes_with_all_its_attempts(tmp_path: Path, segments: Path) -> None:
    paths = [folder(tmp_path, 1), *(tmp_path / "jobs" / name for name in ("1.2", "1.2.1", "10.2"))]
    for path in paths[1:]:
        path.mkdir()
        (path / "out").write_text("x")
    folders = JobFolders(tmp_path / "jobs", RetentionLimits())
    folders.begin(segments, set())
    await until(lambda: len(folders._finished) == 4)
    folders.forget(1)
    await until(lambda: folders.counters["folders_deleted"] == 3)
    folders.close()
    assert [path.exists() for path in paths] == [False, False, False, True]


async def test_a_forgotten_job_is_deleted(tmp_path: Path, segments: Path) -> None:
    path = folder(tmp_path, 1)
    folders = JobFolders(tmp_path / "jobs", RetentionLimits())
    folders.begin(segments, set())
    folders.forget(1)
    await until(lambda: not path.exists())
    folders.close()


async def test_a_job_without_output_has_no_folder_and_is_remembered(
    tmp_path: Path, segments: Path
) -> None:
    folders = JobFolders(tmp_path / "jobs", RetentionLimits())
    folders.keep(exited(5, out=0), traced=False)
    folders.keep(exited(6), traced=False)
    assert folders.silent(TaskKey(5, 1, 0))
    assert not folders.silent(TaskKey(6, 1, 0))
    folders.forget(5)
    assert not folders.silent(TaskKey(5, 1, 0))
    folders.close()
    assert folders.counters["folders_deleted"] == 0


async def test_the_owner_of_a_folder_outlives_the_agent(tmp_path: Path, segments: Path) -> None:
    """New output of one user takes room from that user's own folders, also of an earlier agent."""
    for job in (1, 2, 3):
        path = folder(tmp_path, job)
        (path / "out").write_bytes(b"x" * 8192)
        os.utime(path, (1000 + job, 1000 + job))
    before = JobFolders(tmp_path / "jobs", RetentionLimits())
    before.begin(segments, {TaskKey(1, 1, 0), TaskKey(2, 1, 0), TaskKey(3, 1, 0)})
    await until(lambda: before._early is None)
    for job, uid in ((1, 1000), (2, 1001), (3, 1000)):
        before.keep(exited(job, out=8192), traced=False, uid=uid)
    await until(lambda: len(folder_owners.read(tmp_path / "owners")) == 3)
    before.close()
    folders = JobFolders(tmp_path / "jobs", RetentionLimits(user_bytes=20_000))
    folders.begin(segments, set())
    await until(lambda: len(folders._finished) == 3)
    folder(tmp_path, 4)
    folders.keep(exited(4, out=8192), traced=False, uid=1000)
    await until(lambda: folders.counters["folders_deleted"] == 1)
    assert {entry.name for entry in (tmp_path / "jobs").iterdir()} == {"2", "3", "4"}
    folders.close()


async def test_what_runs_takes_room_from_what_is_over(tmp_path: Path, segments: Path) -> None:
    folders = JobFolders(tmp_path / "jobs", RetentionLimits(user_bytes=20_000))
    folders.begin(segments, set())
    await until(lambda: folders._early is None)
    for job in (1, 2, 3):
        (folder(tmp_path, job) / "out").write_bytes(b"x" * 8192)
    folders.keep(exited(1, out=8192), traced=False, uid=1000)
    folders.keep(exited(2, out=8192), traced=False, uid=1000)
    folders.weigh({TaskKey(3, 1, 0): 1000, TaskKey(9, 1, 0): 1001})
    await until(lambda: folders.counters["folders_deleted"] == 1)
    assert {entry.name for entry in (tmp_path / "jobs").iterdir()} == {"2", "3"}
    folders.close()


async def test_a_job_forgotten_while_stock_is_taken_takes_no_room(
    tmp_path: Path, segments: Path
) -> None:
    path = folder(tmp_path, 1)
    folders = JobFolders(tmp_path / "jobs", RetentionLimits())
    folders.begin(segments, set())
    folders.forget(1)
    await until(lambda: folders._early is None and not path.exists())
    assert (len(folders._finished), folders._finished.total_bytes) == (0, 0)
    folders.close()
