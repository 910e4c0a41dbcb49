# SPDX-License-Identifier: Apache-2.0
"""The fold is whole after kill -9 at any point: nothing lost, nothing counted twice."""

from __future__ import annotations

import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoker.native import errors
from stoker.probes.kernels.job_trace import JobTrace
from tests.probes.segment_file import SegmentFile, record

NOBODY = 1 << 30
"""A process id that no process has."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "segments"
    made.mkdir()
    return made


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "store"
    made.mkdir()
    return made


@pytest.fixture
def trace(folder: Path, store: Path) -> Iterator[JobTrace]:
    with JobTrace.open(folder, store, "full", devices=["pocl-0"]) as opened:
        yield opened


def now() -> int:
    return time.monotonic_ns()


def check_records(trace: JobTrace) -> None:
    counts = trace.summary().records
    assert counts is not None
    assert counts.made == counts.folded + counts.dropped


AGENT = """
import os, sys
from pathlib import Path
from stoker.probes.kernels.job_trace import JobTrace
trace = JobTrace.open(Path(sys.argv[1]), Path(sys.argv[2]), "full")
print("open", flush=True)
while True:
    trace.drain()
"""


def test_a_killed_agent_loses_nothing_and_counts_nothing_twice(folder: Path, store: Path) -> None:
    """Readers are killed at random moments while records are published and processes end."""
    chance = random.Random(3)
    start, made, total = now(), 0, 0
    for round_number in range(12):
        argv = [sys.executable, "-c", AGENT, str(folder), str(store)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as agent:
            assert agent.stdout is not None
            assert agent.stdout.readline() == b"open\n"
            deadline = time.monotonic() + chance.uniform(0.005, 0.08)
            serial = 0
            while time.monotonic() < deadline:
                segment = SegmentFile(
                    folder, pid=NOBODY + round_number, number=serial, ring_records=32, hidden=True
                )
                serial += 1
                lengths = [chance.randrange(1, 50) for _ in range(chance.randrange(1, 30))]
                segment.publish(*(record(start, start + length) for length in lengths))
                segment.reveal()
                made, total = made + len(lengths), total + sum(lengths)
                if serial > 60:
                    break
            agent.send_signal(signal.SIGKILL)
    with JobTrace.open(folder, store, "full") as trace:
        summary = trace.finish()
        check_records(trace)
    (row,) = summary.kernels
    assert made > 200
    assert (row.count, row.total_ns, row.estimate) == (made, total, False)
    assert not list(folder.glob("*.seg"))


def timed_ns(trace: JobTrace) -> int:
    """Device time in the fold itself, without reading any segment."""
    histogram = trace.histogram("saxpy")
    assert histogram is not None
    return histogram.totals()[1]


@pytest.mark.parametrize("cut", range(12))
def test_a_commit_torn_at_any_write_is_the_old_or_the_new(
    folder: Path, store: Path, tmp_path: Path, cut: int
) -> None:
    """The file as it is after the first `cut` of a batch's writes have reached it."""
    segment, start = SegmentFile(folder), now()
    segment.publish(record(start, start + 10))
    with JobTrace.open(folder, store, "full") as trace:
        trace.drain()
    before = (store / "fold").read_bytes()
    segment.publish(record(start + 100, start + 130))
    with JobTrace.open(folder, store, "full") as trace:
        trace.drain()
        expected = trace.summary().kernels[0].total_ns
    after = (store / "fold").read_bytes()
    assert expected == 40
    before = before.ljust(len(after), b"\0")
    changed = [i for i in range(0, len(after), 4096) if before[i : i + 4096] != after[i : i + 4096]]
    assert changed[0] == 0
    body = changed[1:]  # the word that makes them count comes last
    torn = bytearray(before)
    for page in body[: 1 + cut * len(body) // 12]:
        torn[page : page + 4096] = after[page : page + 4096]
    (store / "fold").write_bytes(torn)
    with JobTrace.open(folder, store, "full") as trace:
        assert timed_ns(trace) == 10
        trace.drain()
        assert timed_ns(trace) == 40
        assert trace.summary().kernels[0].count == 2


@pytest.mark.parametrize("at", [0, 8, 16, 4096, 4104])
def test_a_fold_that_contradicts_itself_is_corrupt(folder: Path, store: Path, at: int) -> None:
    SegmentFile(folder).publish(record(now(), now() + 10))
    with JobTrace.open(folder, store, "full") as trace:
        trace.drain()
        trace.drain()
    fold = bytearray((store / "fold").read_bytes())
    fold[at : at + 8] = b"\xff" * 8
    if at >= 4096:  # in both copies
        other = (len(fold) - 4096) // 2 + at
        fold = bytearray(b"".join((fold[:8], struct.pack("<Q", 77), fold[16:])))
        fold[other % len(fold) : other % len(fold) + 1] = b"\xff"
    (store / "fold").write_bytes(fold)
    with pytest.raises(errors.Corrupt):
        JobTrace.open(folder, store, "full")


def test_finish_twice_is_the_same_also_after_a_restart(folder: Path, store: Path) -> None:
    start = now()
    SegmentFile(folder).publish(record(start, start + 10))
    with JobTrace.open(folder, store, "full", devices=["pocl-0"]) as trace:
        first = trace.finish(start + 100)
        again = trace.finish(start + 999)
    assert first == again
    folder.rmdir()
    with JobTrace.open(folder, store, "full") as trace:
        assert trace.finish() == first


def test_a_finished_trace_takes_nothing_more(trace: JobTrace, folder: Path) -> None:
    SegmentFile(folder).publish(record(now(), now() + 10))
    first = trace.finish()
    SegmentFile(folder, number=1).publish(record(now(), now() + 10))
    trace.drain()
    assert trace.summary() == first


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFound, match="nowhere"):
        JobTrace.open(tmp_path / "nowhere", tmp_path, "full")


def test_a_full_disk_refuses_and_recovers(folder: Path, store: Path) -> None:
    """Files of the store cannot be made: nothing is lost, the rings keep it."""
    segment, start = SegmentFile(folder), now()
    with JobTrace.open(folder, store, "full") as trace:
        (store / "fold").symlink_to("/nowhere")
        segment.publish(record(start, start + 10))
        with pytest.raises(errors.StokerError):
            trace.drain()
        assert segment.tail == 0
        (store / "fold").unlink()
        trace.drain()
        assert segment.tail == 1
        assert trace.summary().kernels[0].total_ns == 10
