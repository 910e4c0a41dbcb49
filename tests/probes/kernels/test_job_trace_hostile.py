# SPDX-License-Identifier: Apache-2.0
"""Segments belong to the job: whatever it makes of them, the agent reads on and counts."""

from __future__ import annotations

import os
import random
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from stoker.probes.kernels.job_trace import JobTrace
from tests.probes.segment_file import AT, HELD, SegmentFile, record


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


def wrong_magic(segment: SegmentFile) -> None:
    segment.put(0, b"\xff" * 8)


def wrong_version(segment: SegmentFile) -> None:
    segment.put(8, struct.pack("<I", 99))


def too_many_slots(segment: SegmentFile) -> None:
    segment.put(36, struct.pack("<I", 65))


def too_many_names(segment: SegmentFile) -> None:
    segment.put(40, struct.pack("<I", 257))


def longer_than_the_file(segment: SegmentFile) -> None:
    segment.put(16, struct.pack("<Q", 1 << 40))


def cut_short(segment: SegmentFile) -> None:
    os.truncate(segment.path, 5000)


def made_a_link(segment: SegmentFile) -> None:
    target = segment.path.with_name("elsewhere")
    segment.path.rename(target)
    segment.path.symlink_to(target)


def made_a_fifo(segment: SegmentFile) -> None:
    segment.path.unlink()
    os.mkfifo(segment.path)


def made_a_folder(segment: SegmentFile) -> None:
    segment.path.unlink()
    segment.path.mkdir()


def given_a_second_name(segment: SegmentFile) -> None:
    os.link(segment.path, segment.path.with_name("second"))


BAD_FILES = [
    wrong_magic,
    wrong_version,
    too_many_slots,
    too_many_names,
    longer_than_the_file,
    cut_short,
    made_a_link,
    made_a_fifo,
    made_a_folder,
    given_a_second_name,
]


@pytest.mark.parametrize("spoil", BAD_FILES, ids=lambda f: f.__name__)
def test_a_file_that_is_no_segment_is_refused_once(
    trace: JobTrace, folder: Path, spoil: Callable[[SegmentFile], None]
) -> None:
    good, bad = SegmentFile(folder), SegmentFile(folder, number=1)
    spoil(bad)
    good.publish(record(now(), now() + 10))
    for _ in range(3):
        trace.drain()
    summary = trace.summary()
    assert summary.loss["segments_damaged"] == 1
    assert summary.kernels[0].count == 1


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a file to another user")
def test_another_users_file_is_refused(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    segment.publish(record(now(), now() + 10))
    os.chown(segment.path, 12345, 12345)
    trace.drain()
    assert trace.summary().loss["segments_damaged"] == 1
    assert not trace.summary().kernels


def bad_records(start: int) -> dict[str, list[int]]:
    good = record(start, start + 10)
    changed = {"kind": (10, 20), "host kind": (10, HELD + 1), "device": (11, 5), "shift": (13, 16),
               "no device": (11, 255), "name": (9, 300), "backwards": (2, start - 1),
               "far": (2, 1 << 63)}  # fmt: skip
    return {what: [*good[:at], value, *good[at + 1 :]] for what, (at, value) in changed.items()}


@pytest.mark.parametrize("what", bad_records(100))
def test_a_record_that_makes_no_sense_is_counted(trace: JobTrace, folder: Path, what: str) -> None:
    segment, start = SegmentFile(folder), now()
    segment.write(0, bad_records(start)[what])
    segment.add("timed", 1)
    segment.set_head(1)
    segment.publish(record(start, start + 10))
    trace.drain()
    summary = trace.summary()
    assert summary.loss["records_damaged"] == 1
    assert summary.kernels[0].total_ns == 10
    check_records(trace)


def test_a_cell_that_was_never_written_is_told(trace: JobTrace, folder: Path) -> None:
    segment, start = SegmentFile(folder), now()
    segment.publish(record(start, start + 10))
    segment.set_head(3)
    trace.drain()
    assert trace.summary().loss["records_damaged"] == 2


@pytest.mark.parametrize("head", [1 << 63, 2000, (1 << 64) - 1])
def test_a_head_that_cannot_be_is_told(trace: JobTrace, folder: Path, head: int) -> None:
    segment = SegmentFile(folder)
    segment.set_head(head)
    stats = trace.drain()
    assert trace.summary().loss["records_damaged"] == 1
    assert stats.fill <= 1


def test_rings_outside_of_the_file_are_told(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    segment.publish(record(now(), now() + 10))
    for records, offset in ((1024, 1 << 62), (1000, segment.ring), (1 << 30, segment.ring), (8, 8)):
        segment.put(segment.slot_at() + 132, struct.pack("<IQ", records, offset))
        segment.set_head(segment.head + 1)
        trace.drain()
    assert trace.summary().loss["records_damaged"] >= 4


def test_a_segment_cut_while_it_is_read_keeps_what_was_folded(
    trace: JobTrace, folder: Path
) -> None:
    segment, start = SegmentFile(folder), now()
    segment.publish(record(start, start + 10))
    trace.drain()
    os.truncate(segment.path, 100)
    trace.drain()
    summary = trace.summary()
    assert summary.loss["segments_damaged"] == 1
    assert (summary.kernels[0].count, summary.kernels[0].total_ns) == (1, 10)


def test_random_bytes_do_no_harm(trace: JobTrace, folder: Path) -> None:
    chance = random.Random(11)
    for number in range(60):
        segment = SegmentFile(folder, number=number, ring_records=64)
        segment.publish(*(record(now(), now() + 10) for _ in range(5)))
        size = segment.path.stat().st_size
        for _ in range(chance.randrange(1, 200)):
            at = chance.choice((chance.randrange(8, 45056), chance.randrange(8, size - 8)))
            segment.put(at, chance.randbytes(chance.randrange(1, 8)))
        trace.drain()
    summary = trace.finish()
    for device in summary.devices:
        assert sum(msgspec.structs.astuple(device.causes)) == device.window_ns
    msgspec.json.encode(summary)


def test_names_are_fit_for_a_terminal(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(
        folder, names=("a\x1b[2J\nb", "c\udcff".encode("utf-8", "surrogatepass").decode("latin-1"))
    )
    segment.publish(record(now(), now() + 1), record(now(), now() + 1, name=2))
    trace.drain()
    names = [row.name for row in trace.summary().kernels]
    assert "a?[2J?b" in names
    msgspec.json.encode(names)


def bad_windows(start: int) -> dict[str, tuple[int, int, int, int]]:
    """(from, to, phase, sequence) of windows that cannot be."""
    return {
        "backwards": (start + 10, start, 1, 0),
        "empty": (start, start, 1, 0),
        "of the future": (start, start + 10**13, 1, 0),
        "of no phase": (start, start + 10, 0, 0),
        "of an unknown phase": (start, start + 10, 4, 0),
        "overwritten": (start, start + 10, 1, 256),
    }


@pytest.mark.parametrize("what", bad_windows(100))
def test_a_window_that_makes_no_sense_is_counted(trace: JobTrace, folder: Path, what: str) -> None:
    segment, start = SegmentFile(folder), now()
    segment.put_window(*bad_windows(start)[what])
    segment.publish(record(start, start + 10))
    trace.drain()
    summary = trace.finish()
    assert summary.loss["windows_damaged"] == 1
    (device,) = summary.devices
    assert sum(msgspec.structs.astuple(device.causes)) == device.window_ns


@pytest.mark.parametrize("made", [1 << 63, 5000, (1 << 64) - 1])
def test_a_number_of_windows_that_cannot_be_is_told(
    trace: JobTrace, folder: Path, made: int
) -> None:
    segment = SegmentFile(folder)
    segment.put(AT["windows"], struct.pack("<Q", made))
    trace.drain()
    loss = trace.summary().loss
    assert loss["windows_lost"] == made - AT["windows_kept"]
    assert loss["windows_damaged"] > 0
    segment.put(AT["windows"], struct.pack("<Q", 3))
    trace.drain()
    assert trace.summary().loss["windows_damaged"] > loss["windows_damaged"]


def test_what_a_tracer_says_of_itself_is_checked(trace: JobTrace, folder: Path) -> None:
    segment = SegmentFile(folder)
    segment.put(AT["answer"], struct.pack("<QII", 1 << 63, 77, 99))
    segment.put(116, struct.pack("<I", 0xFF))
    segment.put(AT["vendor"] + 16, struct.pack("<I", 7) + b"\xff\x1b[2J" * 20)
    trace.drain()
    (answer,) = trace.answer()
    assert (answer.mode, answer.phase, answer.tracer) == ("off", "", "127")
    assert answer.stepped_aside
    assert "\x1b" not in answer.holder
    assert len(answer.holder) <= 60
    msgspec.json.encode(answer)


def test_files_without_number_cost_only_their_own_job(trace: JobTrace, folder: Path) -> None:
    """Existing segments are read on; after many files that are not segments no more are opened."""
    good = SegmentFile(folder)
    trace.drain()
    for number in range(1500):
        (folder / f"7-7-{number}.seg").write_bytes(b"x")
    for _ in range(40):
        good.publish(record(now(), now() + 10))
        trace.drain()
    time.sleep(0.1)
    trace.drain()
    summary = trace.finish()
    assert summary.loss["segments_damaged"] == 1024
    assert summary.loss["segments_refused"] == 1500 - 1024
    assert (summary.kernels[0].count, summary.records.made if summary.records else 0) == (40, 40)


def test_other_files_are_nobodys_business(trace: JobTrace, folder: Path) -> None:
    for name in ("notes", "1-2.seg", "1-2-3.seg.tmp", "01-2-3.seg", "-1-2-3.seg", "a-b-c.seg"):
        (folder / name).write_bytes(b"x" * 500_000)
    trace.drain()
    assert trace.summary().loss["segments_damaged"] == 0
