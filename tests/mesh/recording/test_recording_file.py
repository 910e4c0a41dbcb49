# SPDX-License-Identifier: Apache-2.0
"""A recording is read back: the same rows at a moment however one comes there, gaps, damage."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.sampled_cluster import SECRET, recorded
from fakes.top_cluster import GPU, NOW, SECOND

from stoker.mesh.recording import blocks, recording_file
from stoker.mesh.recording.blocks import HEADER, Recorded
from stoker.mesh.recording.recording_file import STOPPED, Gap, RecordingFile, told_until
from stoker.native.errors import Corrupt, NotFound, NotSupported, Refused, StokerError

CARD = f"n1:{GPU}0"
MINUTES = 150


@pytest.fixture
async def whole() -> RecordingFile:
    return RecordingFile(await recorded(MINUTES), "f.rec")


def watts(file: RecordingFile, t_ns: int) -> Any:
    return msgspec.json.decode(file.state(t_ns)["devices"][CARD])["power_w"]


async def test_every_second_has_the_rows_that_were_said_then(whole: RecordingFile) -> None:
    assert (whole.first_ns, whole.last_ns) == (NOW, NOW + (MINUTES - 1) * SECOND)
    assert [watts(whole, NOW + at * SECOND) for at in range(MINUTES)] == [
        100.0 + at for at in range(MINUTES)
    ]
    assert watts(whole, NOW + 5 * SECOND - 1) == 104.0, "up to the next sample the last one stands"
    assert whole.nodes == ("n1", "n2", "n3") and len(whole.devices) == 11
    assert whole.gaps == () and whole.damages == ()


async def test_a_moment_is_the_same_from_wherever_one_comes(whole: RecordingFile) -> None:
    moments = [NOW + at * SECOND // 2 for at in range(2 * MINUTES)]
    forward = {t_ns: whole.state(t_ns) for t_ns in moments}
    spans = {t_ns: whole.readings(CARD, t_ns - 60 * SECOND, t_ns) for t_ns in moments}
    random.Random(1).shuffle(moments)
    for t_ns in moments:
        assert whole.state(t_ns) == forward[t_ns]
        assert whole.readings(CARD, t_ns - 60 * SECOND, t_ns) == spans[t_ns]


async def test_the_points_of_a_device_are_those_of_the_stretch(whole: RecordingFile) -> None:
    t_ns = NOW + 100 * SECOND
    span = whole.readings(CARD, t_ns - 60 * SECOND, t_ns)
    assert span is not None
    assert span.points["power_w"] == tuple((NOW + at * SECOND, 100.0 + at) for at in range(41, 101))
    assert whole.readings("n3:pocl-0", NOW, t_ns) is None


async def test_what_was_told_is_in_the_order_of_its_time_and_once(whole: RecordingFile) -> None:
    times = [(each.t_ns - NOW) // SECOND for each in whole.events]
    assert times == list(range(0, MINUTES, 10))
    until = told_until(whole.events, NOW + 45 * SECOND, 30 * SECOND)
    assert [(each.t_ns - NOW) // SECOND for each in until] == [20, 30, 40]
    twice = RecordingFile(await recorded(20) + (await recorded(20))[len(HEADER) :], "f.rec")
    assert len(twice.events) == 2


async def test_no_environment_of_a_job_is_in_a_recording(whole: RecordingFile) -> None:
    rows = whole.state(whole.last_ns)["job"]
    assert set(rows) >= {"7", "9"}
    job = msgspec.json.decode(rows["7"])
    assert job["spec"]["env"] is None and job["trace"]["kernels"]
    for block in whole.blocks:
        for each in whole.moments(block):
            assert not any(SECRET.encode() in row for row in each.rows.values() if row)


async def test_time_without_an_answer_is_a_gap_with_its_reason() -> None:
    file = RecordingFile(await recorded(60, away=range(20, 40)), "f.rec")
    assert file.gaps == (Gap(NOW + 19 * SECOND, NOW + 40 * SECOND, "the broker is gone"),)
    assert file.gap_at(NOW + 30 * SECOND) == file.gaps[0]
    assert file.gap_at(NOW + 41 * SECOND) is None
    assert watts(file, NOW + 30 * SECOND) == 119.0, "what was read before"
    still = RecordingFile(await recorded(60, away=range(40, 60)), "f.rec")
    assert still.gaps == (Gap(NOW + 39 * SECOND, NOW + 59 * SECOND, "the broker is gone"),)


async def test_a_node_that_was_down_leaves_a_gap_between_its_segments() -> None:
    first, second = await recorded(10), await recorded(70)
    later = [each for each in RecordingFile(second, "f.rec").blocks if each.key][-1]
    file = RecordingFile(first + second[later.offset :], "f.rec")
    assert file.gaps == (Gap(NOW + 9 * SECOND, NOW + 60 * SECOND, STOPPED),)


async def test_a_corrupt_tail_costs_that_tail(whole: RecordingFile) -> None:
    data = bytes(whole._data)
    cut = RecordingFile(data[:-7], "f.rec")
    assert len(cut.damages) == 1 and "cut off" in cut.damages[0].why
    assert cut.last_ns > whole.last_ns - 6 * SECOND
    assert watts(cut, cut.last_ns) == watts(whole, cut.last_ns)
    middle = whole.blocks[3]
    spoiled = bytearray(data)
    spoiled[middle.offset + 40] ^= 255
    file = RecordingFile(bytes(spoiled), "f.rec")
    (gap,) = file.gaps
    assert "damaged" in gap.why and gap.to_ns == NOW + 60 * SECOND
    assert watts(file, NOW + 100 * SECOND) == 200.0


async def test_what_cannot_be_replayed_is_refused_in_one_line(tmp_path: Path) -> None:
    data = await recorded(3)
    wrong = HEADER + blocks.encode([Recorded(NOW, "about", {"": b"[1]"})], key=True)
    row = HEADER + blocks.encode([Recorded(NOW, "events", {"1": b"{"})], key=True)
    for content, kind, words in (
        (b"", Corrupt, "is empty"),
        (b"#!/bin/sh\n", Corrupt, "is no recording"),
        (b"stoker recording 7\n" + data, NotSupported, "format 7"),
        (data[:60], Corrupt, "cut off"),
        (HEADER, Corrupt, "holds no moment"),
        (wrong, Corrupt, "not what stoker wrote"),
        (row, Corrupt, "not what stoker wrote"),
    ):
        path = tmp_path / "a.rec"
        path.write_bytes(content)
        with pytest.raises(kind, match=words) as raised:
            RecordingFile.open(path)
        assert str(path) in raised.value.message and "\n" not in str(raised.value)
    os.mkfifo(pipe := tmp_path / "pipe.rec")
    endless = Path("/dev/zero")
    none = tmp_path / "none.rec"
    for path, kind in ((none, NotFound), (tmp_path, NotFound), (pipe, Refused), (endless, Refused)):
        with pytest.raises(kind):
            RecordingFile.open(path)


def test_too_many_rows_and_too_large_files_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(recording_file, "TOLD_MAX", 3)
    told = {str(at): b'[1,"events",{},""]' for at in range(5)}
    data = HEADER + blocks.encode([Recorded(NOW, "events", told)], key=True)
    with pytest.raises(StokerError, match="more than 3 rows of events"):
        RecordingFile(data, "f.rec")
    (tmp_path / "big.rec").write_bytes(data)
    monkeypatch.setattr(recording_file, "FILE_BYTES_MAX", 10)
    with pytest.raises(StokerError, match="at most 10 are replayed"):
        RecordingFile.open(tmp_path / "big.rec")
