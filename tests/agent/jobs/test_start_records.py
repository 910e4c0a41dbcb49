# SPDX-License-Identifier: Apache-2.0
"""The file of starts: read back, torn anywhere, rewritten, and full disks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.orders import start_of

from stoker.agent.jobs import start_records as module
from stoker.agent.jobs.start_records import StartRecord, StartRecords, start_record
from stoker.scheduler.nouns import JobSpec, TaskKey


def record(job: int) -> StartRecord:
    spec = JobSpec(("/bin/train",), gpu_milli=1000, grace_s=2.5, trace="full")
    return start_record(start_of(TaskKey(job, 1, 0), spec), ("pocl-0",), traced=True)


def test_what_was_added_is_there_after_a_restart(tmp_path: Path) -> None:
    starts = StartRecords.open(tmp_path / "starts")
    starts.add([record(1), record(2)])
    starts.add([record(3)])
    starts.close()
    again = StartRecords.open(tmp_path / "starts")
    assert again.get(TaskKey(2, 1, 0)) == record(2)
    assert again.get(TaskKey(2, 1, 0)).name == "train"
    assert len(again) == 3


def test_an_unknown_start_has_no_decision_and_no_trace(tmp_path: Path) -> None:
    unknown = StartRecords.open(tmp_path / "starts").get(TaskKey(9, 1, 0))
    assert (unknown.decision, unknown.trace, unknown.key) == (0, "off", TaskKey(9, 1, 0))


def test_a_file_cut_at_any_byte_gives_the_whole_records_before_it(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    starts = StartRecords.open(path)
    starts.add([record(1), record(2)])
    data = path.read_bytes()
    one = len(data) // 2
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        assert len(StartRecords.open(path)) == size // one


def test_garbage_ends_the_reading_not_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    starts = StartRecords.open(path)
    starts.add([record(1)])
    path.write_bytes(path.read_bytes() + b"\x04\x00\x00\x00oops" + b"\xff" * 9)
    assert len(StartRecords.open(path)) == 1


def test_only_what_is_kept_survives_and_dropped_ones_go(tmp_path: Path) -> None:
    starts = StartRecords.open(tmp_path / "starts")
    starts.add([record(1), record(2), record(3)])
    starts.drop([TaskKey(3, 1, 0)])
    starts.keep([TaskKey(1, 1, 0), TaskKey(3, 1, 0)])
    assert len(StartRecords.open(tmp_path / "starts")) == 1


def test_the_file_does_not_grow_past_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 1000)
    starts = StartRecords.open(tmp_path / "starts")
    for job in range(1, 200):
        starts.add([record(job)])
        starts.drop([TaskKey(job, 1, 0)])
        assert (tmp_path / "starts").stat().st_size <= 1200
    starts.add([record(500)])
    assert StartRecords.open(tmp_path / "starts").get(TaskKey(500, 1, 0)) == record(500)


def test_a_full_disk_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = StartRecords.open(tmp_path / "starts")
    starts.add([record(1)])
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
    with pytest.raises(OSError, match="No space"):
        starts.add([record(2)])
    monkeypatch.undo()
    starts.add([record(3)])
    again = StartRecords.open(tmp_path / "starts")
    assert [again.get(TaskKey(job, 1, 0)).decision > 0 for job in (1, 2, 3)] == [True, False, True]
