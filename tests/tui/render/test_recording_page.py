# SPDX-License-Identifier: Apache-2.0
"""The page of a recording: what it holds fits a terminal, and its size is that of the file."""

from __future__ import annotations

import time

import pytest
from fakes.sampled_cluster import recorded
from fakes.top_cluster import NOW, SECOND

from stoker.mesh.recording.recording_file import RecordingFile
from stoker.tui.render import recording_page


async def test_the_page_says_what_a_recording_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    file = RecordingFile(await recorded(60, away=range(20, 40)), "night.rec")
    lines = recording_page.lines(file)
    assert lines[0] == "file     night.rec  SIM"
    assert lines[2] == "time     1970-01-12 13:46:40 to 13:47:39, 59 s"
    assert lines[3] == "nodes    3: n1, n2, n3"
    assert lines[-1] == "gap      1970-01-12 13:46:59 to 13:47:20, 21 s: the broker is gone"
    assert all(len(line) <= 80 for line in lines), lines
    long = f"gap      {'the node was down ' * 6}"
    wrapped = recording_page.page([*lines, long], 80).splitlines()
    assert wrapped[:-2] == lines and wrapped[-1].startswith(" " * 9 + "was down")
    assert all(len(line) <= 80 for line in wrapped)
    assert recording_page.page([long], None) == f"{long}\n"
    told = recording_page.described(file)
    hours = 59 * SECOND / recording_page.HOUR_NS * 11
    assert told["bytes_per_device_hour"] == pytest.approx(file.size / hours)
    assert told["gaps"][0]["from_ns"] == NOW + 19 * SECOND


async def test_damage_is_named_with_its_place_and_one_moment_has_no_rate() -> None:
    data = await recorded(30)
    cut = RecordingFile(data[:-3], "night.rec")
    assert any(line.startswith("damage ") and "left out" in line for line in
               recording_page.lines(cut))  # fmt: skip
    single = RecordingFile(await recorded(1), "night.rec")
    assert recording_page.described(single)["bytes_per_device_hour"] is None


def test_names_that_do_not_fit_are_counted() -> None:
    assert recording_page.named(()) == "none"
    many = [f"node-with-a-long-name-{at}" for at in range(9)]
    assert recording_page.named(many).endswith(", and 7 more")
    assert recording_page.named(["x" * 90, "y"]) == f"2: {'x' * 90}, and 1 more"
