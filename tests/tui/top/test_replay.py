# SPDX-License-Identifier: Apache-2.0
"""A replay: golden frames of the views, the same frame at the same moment, keys that seek.

`STOKER_GOLDEN=rewrite` writes the golden files anew.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

import msgspec
import pytest
from fakes.sampled_cluster import recorded
from fakes.top_cluster import NOW, SECOND, SUBJECTS, array, array_row

from stoker.mesh.recording import blocks, stand_ins
from stoker.mesh.recording.blocks import HEADER, Recorded
from stoker.mesh.recording.recording_file import RecordingFile
from stoker.mesh.recording.sampler import OF_ARRAYS
from stoker.native.errors import NotSupported
from stoker.tui.render import text
from stoker.tui.top.answers import ServerState
from stoker.tui.top.browser import Browser, Seek
from stoker.tui.top.frame import Scene, frame, text_of
from stoker.tui.top.lines import Look
from stoker.tui.top.marks import UNICODE
from stoker.tui.top.reader import Wanted
from stoker.tui.top.replay import RecordingReplay
from stoker.tui.top.screen import Top
from stoker.tui.top.views.catalogue import VIEWS
from stoker.tui.top.visit import Visit

GOLDEN = Path(__file__).parents[2] / "golden/replay"
SECONDS = 90
SIZES = ((80, 24), (100, 30), (160, 50))


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local times are those of one zone, wherever the tests run."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture(scope="module")
def file() -> RecordingFile:
    """One recording for all tests, which only read it."""
    return RecordingFile(asyncio.run(recorded(SECONDS)), "night.rec")


def browser(view: str) -> Browser:
    return Browser(VIEWS, [Visit(VIEWS[view], SUBJECTS.get(view, ""))], replay=True)


def shown(replay: RecordingReplay, view: str, columns: int = 80, rows: int = 24) -> list[str]:
    """The text of one view at the moment of the replay."""
    shows = browser(view)
    visit = shows.visit
    replay.want(Wanted((*visit.view.needs, *visit.view.cursor_needs), visit.subject, "10"))
    replay.start()
    look = Look(replay.now_ns(), UNICODE, columns, rows)
    return text_of(frame(shows, Scene(replay.answers, replay.service, look, replay.replayed)))


def stopped(file: RecordingFile, second: float) -> RecordingReplay:
    return RecordingReplay(file, NOW + int(second * SECOND), playing=False)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", VIEWS)
def test_golden_frames(file: RecordingFile, view: str, size: tuple[int, int]) -> None:
    lines = shown(stopped(file, 70), view, *size)
    assert len(lines) == size[1] and max(map(text.cells, lines)) <= size[0]
    found = "\n".join(lines) + "\n"
    path = GOLDEN / f"{view}.{size[0]}x{size[1]}.txt"
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()
    first = found.split("\n", 1)[0]
    assert "SIM" in first and "REPLAY 1970-01-12 13:47:50 stopped" in first


@pytest.mark.parametrize("view", VIEWS)
async def test_a_moment_has_one_frame_however_one_comes_to_it(
    file: RecordingFile, view: str
) -> None:
    straight = {at: shown(stopped(file, at), view) for at in range(0, SECONDS, 7)}
    replay, at = stopped(file, 0), 0
    moments = [*straight] * 2
    random.Random(view).shuffle(moments)
    for second in moments:
        replay.seek(Seek("by", second - at))
        at = second
        assert shown(replay, view) == straight[second]


async def test_the_clock_plays_stops_and_keeps_within_the_recording(file: RecordingFile) -> None:
    clock = [0.0]
    replay = RecordingReplay(file, clock=lambda: clock[0])
    clock[0] = 5.0
    assert replay.now_ns() == NOW + 5 * SECOND and replay.replayed.playing
    assert replay.seek(Seek("speed", 1)) == "speed x2"
    clock[0] = 10.0
    assert replay.now_ns() == NOW + 15 * SECOND
    for _ in range(9):
        replay.seek(Seek("speed", -1))
    assert replay.replayed.speed == 0.25
    replay.seek(Seek("play"))
    clock[0] = 500.0
    assert replay.now_ns() == NOW + 15 * SECOND and not replay.replayed.playing
    replay.seek(Seek("by", 10_000))
    assert replay.now_ns() == file.last_ns
    replay.seek(Seek("play"))
    assert replay.now_ns() == file.first_ns, "at its end it plays from its start"
    replay.seek(Seek("by", -50))
    assert replay.now_ns() == file.first_ns


async def test_brackets_go_to_events(file: RecordingFile) -> None:
    replay = stopped(file, 12)
    assert replay.seek(Seek("event", 1)) == "job 7 running"
    assert replay.now_ns() == NOW + 20 * SECOND
    replay.seek(Seek("event", -1))
    assert replay.now_ns() == NOW + 10 * SECOND
    replay.seek(Seek("event", -1))
    assert replay.seek(Seek("event", -1)) == "no event before this moment"
    assert replay.now_ns() == NOW


async def test_a_gap_is_said_on_the_screen() -> None:
    file = RecordingFile(await recorded(60, away=range(20, 40)), "night.rec")
    lines = shown(stopped(file, 30), "jobs")
    assert lines[1] == "! a gap since 11 s: the broker is gone"
    assert not shown(stopped(file, 50), "jobs")[1].startswith("!")


async def test_what_was_not_recorded_says_so(file: RecordingFile) -> None:
    words = " ".join(" ".join(shown(stopped(file, 70), "logs")).split())
    assert "a recording holds no output of jobs" in words


async def test_a_redacted_recording_says_so(file: RecordingFile) -> None:
    shared = RecordingFile(stand_ins.redacted(await recorded(9), "f.rec"), "f.rec")
    lines = shown(stopped(shared, 5), "cluster")
    assert "redacted" in lines[0] and "SIM" in lines[0] and "node-1" in "\n".join(lines)


def test_a_row_of_another_version_is_refused_with_what_to_do() -> None:
    rows = {"n1": b'{"node":"n1","colour":"red"}'}
    data = HEADER + blocks.encode([Recorded(NOW, "nodes", rows, True)], key=True)
    with pytest.raises(NotSupported, match="was made by stoker") as raised:
        shown(stopped(RecordingFile(data, "f.rec"), 0), "cluster")
    assert "\n" not in str(raised.value)


def test_a_large_array_is_a_row_and_its_jobs_are_those_that_tell() -> None:
    row, (_, runs, *_) = array_row(), array()
    jobs = Recorded(NOW, "jobs", {"12": msgspec.json.encode(row)}, True)
    telling = Recorded(NOW, OF_ARRAYS, {"12": msgspec.json.encode(runs)}, True)
    for parts, expected in (((jobs, telling), " 12 "), ((jobs,), "only those that ran")):
        data = HEADER + blocks.encode(list(parts), key=True)
        replay = stopped(RecordingFile(data, "f.rec"), 0)
        listed = [line for line in shown(replay, "jobs") if "11-14" in line]
        assert len(listed) == 1 and "2 pending" in "".join(listed)
        assert expected in " ".join(" ".join(shown(replay, "array")).split()) + " "
    assert RecordingFile(data, "f.rec").jobs == ("12",)


@pytest.mark.parametrize("key", ["ctrl+d", "x", "c", "u", "s"])
def test_nothing_can_be_changed(key: str) -> None:
    for view in ("jobs", "cluster", "devices"):
        made = browser(view)
        assert made.press(key, None, made.answers) == []
        assert "this is a recording" in made.said and made.mode == "browse"


def test_live_the_keys_of_a_replay_do_nothing_and_the_help_leaves_them_out() -> None:
    live = Browser(VIEWS, [Visit(VIEWS["jobs"])])
    assert live.press("left", None, live.answers) == []
    for made, there in ((live, False), (browser("jobs"), True)):
        made.mode = "help"
        look = Look(NOW, UNICODE, 80, 60)
        words = "\n".join(text_of(frame(made, Scene(made.answers, ServerState(), look))))
        assert ("to the next event" in words) == there
        assert ("cancel the job" in words) == (not there)


async def test_keys_of_the_screen_seek(file: RecordingFile) -> None:
    replay = stopped(file, 10)
    app = Top(replay, browser("cluster"), UNICODE, replay=replay)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("right", "right", "L", "left")
        await pilot.pause()
        assert replay.now_ns() == NOW + 21 * SECOND
        assert "13:47:01 stopped" in text_of(app.frame())[0]
        await pilot.press("right_square_bracket")
        assert app.browser.said == "job 7 running"
        await pilot.press("space")
        assert replay.replayed.playing
