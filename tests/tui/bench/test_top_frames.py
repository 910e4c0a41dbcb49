# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the live view: a short run on a terminal, and faults that it must notice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.native.errors import StokerError
from stoker.tui.bench import top_frames
from stoker.tui.bench.top_cluster import ClusterSize
from stoker.tui.bench.top_frames import COLUMNS, ROWS, Recording, TopLoad
from stoker.tui.bench.top_programs import FrameLog


def test_a_short_run_compares_every_cell_and_has_every_figure() -> None:
    said: list[str] = []
    load = TopLoad(ClusterSize(30, 2, 40), hertz=4, seconds=1)
    result: dict[str, Any] = top_frames.measure(load, said.append)
    assert [row["program"] for row in result["programs"]] == ["ours", "datatable"]
    for row in result["programs"]:
        assert row["frames"] > 0 and row["keys"] > 0 and row["rss_mb"] > 10
        assert 0 < row["frame_p50_ms"] <= row["frame_p95_ms"]
        assert 0 < row["key_p50_ms"] <= row["key_p95_ms"]
        assert row["bytes_per_frame"] > 0 and row["dropped_frames"] >= 0
    assert result["cells_checked"] == result["frames_compared"] * COLUMNS * ROWS > 0
    assert result["frame_ratio"] > 0 and result["key_ratio"] > 0
    lines = top_frames.text(result).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["PROGRAM", "ours", "datatable"]


def drawn(words: str, tone: str = "", *, colour: str = "213;216;220") -> Recording:
    """One frame whose first line is `words` in a tone, drawn in a colour."""
    text = f"\x1b[1;1H\x1b[38;2;{colour};48;2;20;24;29m{words}"
    frame = FrameLog(len(text), 0.0, 0.01, 0.005, 1, [[["right", tone]]])
    return Recording(text, [(len(text), 1.5)], [1.0], [frame], 0, 1.0, len(text))


def test_a_wrong_character_or_colour_is_an_error() -> None:
    assert top_frames.compare(drawn("right"), 1)["frames_compared"] == 1
    with pytest.raises(StokerError, match="line 0, column 1: 'o' d5d8dc 14181d is there, 'i'"):
        top_frames.compare(drawn("rough"), 1)
    with pytest.raises(StokerError, match="is there, 'r' ff8f84 14181d should be"):
        top_frames.compare(drawn("right", "bad"), 1)


def test_a_key_waits_until_its_whole_frame_has_arrived() -> None:
    frames = [FrameLog(10, 0, 0, 0, 0), FrameLog(30, 0, 0, 0, 1), FrameLog(50, 0, 0, 0, 2)]
    arrivals = [(10, 0.5), (25, 1.1), (30, 1.2), (49, 2.1), (60, 2.3)]
    run = Recording("", arrivals, [1.0, 2.0, 3.0], frames, 0, 1.0, 60)
    assert top_frames.key_waits(run) == [pytest.approx(200), pytest.approx(300)]


def test_a_program_that_breaks_is_an_error_with_its_last_words() -> None:
    with pytest.raises(StokerError, match=r"the program did not come to its end: .*KeyError"):
        top_frames.record("nothing", TopLoad(ClusterSize(1, 1, 1), 4, 1))


def test_a_frame_log_is_read_as_it_was_written() -> None:
    frame = FrameLog(1, 2.0, 3.0, 0.5, 4, [[["words", "bad"]]])
    assert msgspec.json.decode(msgspec.json.encode(frame), type=FrameLog) == frame
