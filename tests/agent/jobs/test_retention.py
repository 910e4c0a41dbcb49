# SPDX-License-Identifier: Apache-2.0
"""Retention chooses the folders of finished jobs that go, and they go."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.agent.jobs import retention
from stoker.agent.jobs.retention import FinishedFolders, RetentionLimits
from stoker.scheduler.nouns import TaskKey


def test_the_oldest_goes_when_there_are_too_many() -> None:
    folders = FinishedFolders(RetentionLimits(jobs=2, bytes=1000))
    assert folders.put(TaskKey(5, 1, 0), 10) == []
    assert folders.put(TaskKey(3, 2, 0), 10) == []
    assert folders.put(TaskKey(9, 1, 0), 10) == [TaskKey(5, 1, 0)]
    assert (len(folders), folders.total_bytes) == (2, 20)


def test_the_oldest_go_until_the_bytes_fit_but_the_newest_stays() -> None:
    folders = FinishedFolders(RetentionLimits(jobs=10, bytes=100))
    for job in (1, 2, 3):
        folders.put(TaskKey(job, 1, 0), 30)
    assert folders.put(TaskKey(4, 1, 0), 80) == [
        TaskKey(1, 1, 0),
        TaskKey(2, 1, 0),
        TaskKey(3, 1, 0),
    ]
    assert folders.put(TaskKey(5, 1, 0), 500) == [TaskKey(4, 1, 0)]
    assert len(folders) == 1


def test_a_job_reported_twice_counts_once() -> None:
    folders = FinishedFolders(RetentionLimits(jobs=10, bytes=100))
    folders.put(TaskKey(1, 1, 0), 30)
    folders.put(TaskKey(1, 1, 0), 40)
    assert folders.total_bytes == 40
    folders.drop(TaskKey(1, 1, 0))
    folders.drop(TaskKey(1, 1, 0))
    assert folders.total_bytes == 0


def test_scan_gives_finished_jobs_oldest_first(tmp_path: Path) -> None:
    for age, name in enumerate(("7.3", "2", "9")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "out").write_bytes(b"x" * 5000)
        os.utime(folder, (1000 - age, 1000 - age))
    found = retention.scan(tmp_path, [TaskKey(7, 3, 0), TaskKey(9, 1, 0), TaskKey(11, 1, 0)])
    assert [key for key, _ in found] == [TaskKey(9, 1, 0), TaskKey(7, 3, 0)]
    assert all(size >= 5000 for _, size in found)


def test_a_users_own_oldest_goes_for_what_that_user_has_too_much_of() -> None:
    folders = FinishedFolders(RetentionLimits(user_bytes=100))
    assert folders.put(TaskKey(1, 1, 0), 60, uid=1) == []
    assert folders.put(TaskKey(2, 1, 0), 90, uid=2) == []
    assert folders.put(TaskKey(3, 1, 0), 50, uid=1) == [TaskKey(1, 1, 0)]
    assert folders.put(TaskKey(4, 1, 0), 10, uid=1, running=45) == [TaskKey(3, 1, 0)]
    assert folders.fit(2, 1000) == []  # the newest of a user stays
    assert folders.total_bytes == 100


def test_what_all_have_too_much_of_goes_from_whoever_has_most() -> None:
    folders = FinishedFolders(RetentionLimits(jobs=5, bytes=1000))
    folders.put(TaskKey(1, 1, 0), 10, uid=2)
    gone = [key for job in range(2, 20) for key in folders.put(TaskKey(job, 1, 0), 10, uid=1)]
    assert gone == [TaskKey(job, 1, 0) for job in range(2, 16)]
    gone = [key for job in range(20, 24) for key in folders.put(TaskKey(job, 1, 0), 400, uid=1)]
    assert TaskKey(1, 1, 0) not in gone


def test_what_a_job_may_write_leaves_room_for_the_next() -> None:
    keep = RetentionLimits(user_bytes=1000 << 20)
    assert retention.cap(keep, 100 << 20, 0) == 100 << 20
    promised, caps = 0, []
    for _ in range(50):
        caps.append(retention.cap(keep, 1 << 40, promised))
        promised += caps[-1]
    assert caps[0] == 500 << 20
    assert promised <= keep.user_bytes + len(caps) * retention.CAP_MIN
    assert min(caps) == retention.CAP_MIN
    assert retention.cap(keep, 5, promised) == 5
