# SPDX-License-Identifier: Apache-2.0
"""Frames of every view: golden text at three sizes, exact width, no byte that moves a terminal.

`STOKER_GOLDEN=rewrite` writes the golden files anew.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import msgspec
import pytest
from fakes import top_cluster
from fakes.top_cluster import NOW, SECOND, browser, scene

from stoker.mesh.wire import schema
from stoker.tui.render import text
from stoker.tui.top.answers import Answers, ServerState
from stoker.tui.top.frame import frame, text_of
from stoker.tui.top.marks import ASCII
from stoker.tui.top.views.catalogue import VIEWS

GOLDEN = Path(__file__).parents[2] / "golden/top"
SIZES = ((80, 24), (100, 30), (160, 50))
SMALL = ((20, 5), (20, 4), (1, 1), (3, 2), (40, 10))


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local times are those of one zone, wherever the tests run."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", VIEWS)
def test_golden_frames(view: str, size: tuple[int, int]) -> None:
    lines = text_of(frame(browser(view), scene(view, *size)))
    found = "\n".join(lines) + "\n"
    path = GOLDEN / f"{view}.{size[0]}x{size[1]}.txt"
    if os.environ.get("STOKER_GOLDEN") == "rewrite":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.parametrize("size", (*SIZES, *SMALL), ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("view", VIEWS)
def test_a_frame_fills_its_terminal_exactly_and_says_nothing_to_it(
    view: str, size: tuple[int, int]
) -> None:
    for mode in ("browse", "help", "object", "command"):
        shown = browser(view)
        shown.mode = mode  # type: ignore[assignment]
        for marks in (scene(view).look.marks, ASCII):
            lines = frame(shown, scene(view, *size, marks=marks))
            assert len(lines) == size[1]
            for line in lines:
                words = "".join(span.words for span in line)
                assert text.cells(words) == size[0], words
                assert words.isprintable(), ascii(words)
                assert marks is not ASCII or words.isascii(), ascii(words)


def test_the_row_of_an_array_counts_its_jobs_and_all_sums_have_them() -> None:
    found = [top_cluster.array_row(), *top_cluster.jobs()]
    shown = {
        view: "\n".join(text_of(frame(browser(view), scene(view, 200, 24, jobs=found))))
        for view in ("jobs", "why", "cluster", "users")
    }
    said = "1 running, 2 pending, 1 failed; 1 ahead in the queue"
    row = re.compile(rf"^ +11-14  grid .* {said} *$", re.MULTILINE)
    assert row.search(shown["jobs"]) and row.search(shown["why"])
    assert "running 3  waiting 3" in shown["cluster"]
    (bob,) = re.findall(r"^bob .*", shown["users"], re.M)
    assert bob.split()[1:5] == ["1", "4", "3", "12"] and bob.split()[-1] == "2"
    assert "added up from the 9 jobs" in shown["users"]


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_without_any_answer_says_that_it_reads(view: str) -> None:
    nothing = scene(view)._replace(answers=Answers(subject=top_cluster.SUBJECTS.get(view, "")))
    words = "\n".join(text_of(frame(browser(view), nothing)))
    assert "reading ..." in words and "connecting" in words


@pytest.mark.parametrize("view", VIEWS)
def test_simulated_devices_say_sim(view: str) -> None:
    assert "SIM" in text_of(frame(browser(view), scene(view)))[0]


@pytest.mark.parametrize("view", ["jobs", "array"])
def test_jobs_on_simulated_devices_say_sim_though_no_device_was_read(view: str) -> None:
    bare = {"devices": None, "alerts": None}
    known = {"jobs": None} if view == "array" else {"array": None}
    assert "SIM" in text_of(frame(browser(view), scene(view, **bare, **known)))[0]
    nothing = scene(view, **bare, jobs=None, array=None)
    assert "SIM" not in text_of(frame(browser(view), nothing))[0]


def test_data_older_than_two_seconds_is_marked_and_a_lost_server_named() -> None:
    old = scene("jobs", at_ns=NOW - 2 * SECOND - 1)
    assert "STALE 2 s" in text_of(frame(browser("jobs"), old))[0]
    fresh = scene("jobs", at_ns=NOW - 2 * SECOND)
    assert text_of(frame(browser("jobs"), fresh))[0].endswith("live")
    lost = old._replace(service=ServerState(lost_ns=NOW - 5 * SECOND, why="the broker is gone"))
    words = text_of(frame(browser("jobs"), lost))[1]
    assert words == "! no answer for 5 s: the broker is gone; this is what was read before"
    back = fresh._replace(service=ServerState(back_ns=NOW - SECOND, gone_ns=7 * SECOND))
    words = text_of(frame(browser("jobs"), back))[1]
    assert words == "the server answers again; it was away for 7 s"


def test_a_node_without_news_is_stale_although_the_server_answers() -> None:
    heard = {"n1": NOW - 4 * SECOND, "n2": NOW, "n3": NOW}
    lines = text_of(frame(browser("cluster"), scene("cluster", heard=heard)))
    assert any(line.startswith("n1") and "stale 4 s" in line for line in lines)
    assert lines[0].endswith("live")


def test_a_refusal_stands_where_its_answer_would() -> None:
    refused = scene("events", events=None, refused={"events": "only an administrator reads events"})
    words = text_of(frame(browser("events"), refused))[1]
    assert words == "events: only an administrator reads events"


def test_a_job_that_waits_says_when_it_is_expected_to_start_or_why_nobody_can_tell() -> None:
    words = "\n".join(text_of(frame(browser("why"), scene("why"))))
    assert "expected start: at the latest in 25m 00s, by the time limit of job 7" in words
    unknown = msgspec.structs.replace(
        top_cluster.explanation(), expected=schema.ExpectedStart(absent="no job ahead has a limit")
    )
    words = "\n".join(text_of(frame(browser("why"), scene("why", explain=unknown))))
    assert "expected start: not known: no job ahead has a limit" in words


def test_a_table_keeps_its_rows_when_the_lines_above_it_take_all_room() -> None:
    lines = text_of(frame(browser("node"), scene("node", 80, 8)))
    assert any("GPU-4f1c0a9e   SIM" in line for line in lines)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_says_in_its_first_line_that_alerts_fire(view: str) -> None:
    assert "! 1 alert " in text_of(frame(browser(view), scene(view)))[0]
    seen = msgspec.structs.replace(top_cluster.alert_counts(), unseen=0)
    assert " 2 alerts seen " in text_of(frame(browser(view), scene(view, alert_counts=seen)))[0]
    calm = msgspec.structs.replace(seen, firing=0)
    assert (
        "alert" not in text_of(frame(browser(view), scene(view, alert_counts=calm)))[0].lower()[10:]
    )
    narrow = text_of(frame(browser(view), scene(view, 40, 10)))[0]
    assert " !1 " in narrow and narrow.endswith("live")


def test_alerts_of_silent_nodes_are_missing_and_old_judgements_stale() -> None:
    lines = text_of(frame(browser("alerts"), scene("alerts")))
    assert lines[1] == "! n3: it is silent; its alerts are missing here"
    assert lines[2] == "! n2: STALE, its alerts were judged 40 s ago"
    assert lines[3] == "n2: rules that watch nothing: losses"
    fresh = top_cluster.alerts()
    judged = {"n1": fresh.judged["n1"], "n2": None}
    found = msgspec.structs.replace(fresh, absent={}, judged=judged, left_out=1200)
    lines = text_of(frame(browser("alerts"), scene("alerts", alerts=found)))
    assert lines[1] == "! n2: no agent judges its alerts now"
    assert lines[2] == "1,200 more alerts have no room here"


def test_what_nobody_has_seen_is_first_and_the_foot_has_all_of_it() -> None:
    shown = browser("alerts")
    words = "\n".join(text_of(frame(shown, scene("alerts", 100, 30))))
    states = [
        line.split()[2] for line in words.splitlines() if line.split()[1:2] in (["n1"], ["n2"])
    ]
    assert states == ["FIRING", "seen", "resolved"]
    assert "what to do: look at the fans of the rack" in words
    shown.press("down", None, scene("alerts").answers)
    words = "\n".join(text_of(frame(shown, scene("alerts", 100, 30))))
    assert "seen by: ada, 40 s ago: a fan is on its way" in words
