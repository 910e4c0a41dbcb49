# SPDX-License-Identifier: Apache-2.0
"""The recording of a real hour has the same numbers at every seek, from wherever one comes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.mesh.recording.recording_file import WINDOWED, RecordingFile
from stoker.tui.commands.record_commands import replay_command

HOUR = Path(__file__).parents[3] / "docs/measurements/hour.rec"
CARD = "node-1:pocl-0"
SECOND = 10**9
SEEKS = 150


@pytest.fixture(scope="module")
def hour() -> RecordingFile:
    return RecordingFile.open(HOUR)


def moments(file: RecordingFile) -> list[int]:
    chance = random.Random(20261127)
    whole = range(file.first_ns, file.last_ns, 60 * SECOND)
    return sorted([*whole, *(chance.randint(file.first_ns, file.last_ns) for _ in range(SEEKS))])


def played(file: RecordingFile, stops: list[int]) -> dict[int, dict[str, dict[str, bytes]]]:
    """The rows at each of these moments, by playing everything from the beginning on."""
    rows: dict[str, dict[str, bytes]] = {}
    found = {}
    left = list(stops)
    for block in file.blocks:
        for each in file.moments(block):
            while left and each.t_ns > left[0]:
                found[left.pop(0)] = {part: dict(of) for part, of in rows.items()}
            if each.part in WINDOWED:
                continue
            if each.whole or each.part not in rows:
                rows[each.part] = {}
            for key, row in each.rows.items():
                rows[each.part][key] = row or b""
            rows[each.part] = {key: row for key, row in rows[each.part].items() if row}
    return found | dict.fromkeys(left, rows)


def test_a_seek_shows_what_playing_on_shows(hour: RecordingFile) -> None:
    stops = moments(hour)
    expected = played(hour, stops)
    random.Random(1).shuffle(stops)
    for t_ns in stops:
        state = hour.state(t_ns)
        assert {part: rows for part, rows in state.items() if rows} == {
            part: rows for part, rows in expected[t_ns].items() if rows
        }


def test_it_is_an_hour_of_real_work_without_gaps(hour: RecordingFile) -> None:
    assert hour.last_ns - hour.first_ns >= 3600 * SECOND
    assert hour.gaps == () and hour.damages == () and hour.devices == (CARD,)
    device = json.loads(hour.state(hour.last_ns)["devices"][CARD])
    assert device["vendor"] == "pocl" and device["sim"] is False
    last = hour.state(hour.last_ns)["job"]
    traced = [job for row in last.values() if (job := json.loads(row)).get("trace")]
    assert sum(k["count"] for job in traced for k in job["trace"]["kernels"]) > 10_000


def test_replay_tells_its_size_for_each_hour_of_a_device() -> None:
    told = CliRunner().invoke(replay_command, [str(HOUR)])
    assert told.exit_code == 0
    for words in ("1h 00m", "redacted", "6.23 MiB for each hour of a device", "gaps     none"):
        assert words in told.output
