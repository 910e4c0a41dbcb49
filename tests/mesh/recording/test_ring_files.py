# SPDX-License-Identifier: Apache-2.0
"""The ring: its bounds, a writer that begins anew, and a disk that takes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.mesh.recording import blocks, ring_files
from stoker.mesh.recording.blocks import Block, Recorded
from stoker.mesh.recording.ring_files import RecordingLimits, RecordingRing
from stoker.native.errors import BadRequest

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def written(folder: Path, limits: RecordingLimits, seconds: range, size: int = 10) -> RecordingRing:
    made = RecordingRing(folder, limits)
    for second in seconds:
        now_ns = START + second * SECOND
        noise = Recorded(now_ns, "devices", {"n1:0": os.urandom(size)})
        key = made.wants_key(now_ns)
        assert made.append([noise], key=key, now_ns=now_ns)
    return made


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_segment_holds_a_minute_and_is_a_recording_by_itself(tmp_path: Path) -> None:
    written(tmp_path, RecordingLimits(), range(150))
    found = ring_files.segments(tmp_path)
    assert [int(path.stem) for path in found] == [START + at * SECOND for at in (0, 60, 120)]
    for path in found:
        data = path.read_bytes()
        first, *rest = blocks.scan(data, blocks.check_header(data, path.name))
        assert isinstance(first, Block) and first.key
        assert all(isinstance(each, Block) and not each.key for each in rest)


def test_the_oldest_segments_go_when_the_ring_is_too_old_or_too_large(tmp_path: Path) -> None:
    old = written(tmp_path / "old", RecordingLimits(age_s=120), range(600))
    assert [int(path.stem) for path in ring_files.segments(tmp_path / "old")] == [
        START + at * SECOND for at in (420, 480, 540)
    ]
    assert old.counters["recording_segments_removed"] == 7
    limits = RecordingLimits(bytes=1 << 20)
    large = written(tmp_path / "large", limits, range(60), 100_000)
    assert large.bytes == on_disk(tmp_path / "large") <= limits.bytes
    assert large.bytes > limits.bytes // 2, "it keeps what it may"


def test_another_writer_counts_what_is_there_and_begins_a_segment(tmp_path: Path) -> None:
    first = written(tmp_path, RecordingLimits(), range(5))
    (tmp_path / "notes.txt").write_text("nobody's")
    again = RecordingRing(tmp_path, RecordingLimits())
    assert again.bytes == first.bytes and again.wants_key(START + 6 * SECOND)
    written(tmp_path, RecordingLimits(), range(6, 8))
    assert len(ring_files.segments(tmp_path)) == 2 and (tmp_path / "notes.txt").exists()


def test_segments_since_a_time_begin_with_the_one_that_holds_it(tmp_path: Path) -> None:
    written(tmp_path, RecordingLimits(), range(200))
    names = [int(path.stem) for path in ring_files.since(tmp_path, START + 70 * SECOND)]
    assert names == [START + at * SECOND for at in (60, 120, 180)]
    assert len(ring_files.since(tmp_path, 0)) == 4
    assert len(ring_files.since(tmp_path, START + 900 * SECOND)) == 1


def test_a_disk_that_takes_nothing_costs_blocks_and_is_counted(tmp_path: Path) -> None:
    made = written(tmp_path, RecordingLimits(), range(3))
    (segment,) = ring_files.segments(tmp_path)
    segment.unlink()
    segment.mkdir()
    moment = Recorded(START, "devices", {})
    assert not made.append([moment], key=False, now_ns=START + 3 * SECOND)
    assert not made.append([moment], key=False, now_ns=START + 3 * SECOND), "it has no base"
    assert made.counters["recording_blocks_dropped"] == 2
    assert made.wants_key(START + 4 * SECOND)
    assert made.append([moment], key=True, now_ns=START + 4 * SECOND)


@pytest.mark.parametrize("name", ["bytes", "age_s", "interval_s"])
def test_a_bound_that_no_ring_can_keep_is_refused_by_name(name: str) -> None:
    with pytest.raises(BadRequest, match=f"recording.{name} is 0"):
        ring_files.check(RecordingLimits(**{name: 0}))
