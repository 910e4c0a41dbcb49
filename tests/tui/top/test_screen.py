# SPDX-License-Identifier: Apache-2.0
"""The application: what it paints is the frame, keys reach the browser, a slow terminal skips."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from fakes import top_cluster
from fakes.top_cluster import NOW, browser
from textual.pilot import Pilot

from stoker.native.errors import Denied
from stoker.tui.top.answers import Answers, ServerState
from stoker.tui.top.browser import ViewChange
from stoker.tui.top.frame import text_of
from stoker.tui.top.marks import UNICODE
from stoker.tui.top.reader import Wanted
from stoker.tui.top.screen import Top

PATIENCE_S = 60.0


class Source:
    """Answers that a test sets."""

    def __init__(self) -> None:
        self.answers: Answers = top_cluster.answers()
        self.service = ServerState()
        self.changed: Callable[[], None] = lambda: None
        self.wanted: list[Wanted] = []
        self.started = 0

    def want(self, wanted: Wanted) -> None:
        self.wanted.append(wanted)

    def hurry(self) -> None:
        pass

    def start(self) -> list[Any]:
        self.started += 1
        return []

    async def close(self) -> None:
        pass


def top(view: str = "jobs", theme: str = "dark", **more: Any) -> Top:
    return Top(Source(), browser(view), UNICODE, theme, now_ns=lambda: NOW, **more)


def painted(app: Top) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return [strip.text.rstrip() for strip in strips]


async def settle(pilot: Pilot[None], app: Top) -> None:
    """Wait until what the application has to say is painted, however busy the machine is."""
    end = time.monotonic() + PATIENCE_S
    await pilot.pause()
    while painted(app) != text_of(app.frame()) and time.monotonic() < end:
        await pilot.pause(0.01)


@pytest.mark.parametrize("size", [(80, 24), (20, 5), (160, 50)])
async def test_the_terminal_shows_the_frame_and_nothing_else(size: tuple[int, int]) -> None:
    app = top()
    async with app.run_test(size=size) as pilot:
        await settle(pilot, app)
        assert painted(app) == text_of(app.frame())


async def test_keys_reach_the_browser_and_are_painted() -> None:
    app = top()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("down", "d")
        assert (app.browser.visit.view.name, app.browser.visit.subject) == ("job", "9")
        await pilot.press("colon", *"nodes", "enter")
        await settle(pilot, app)
        assert "no view is called 'nodes'" in painted(app)[-1]


async def test_only_lines_that_differ_are_painted_anew() -> None:
    app = top()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, app)
        made: list[int] = []
        original = app.canvas.render_line
        app.canvas.render_line = lambda y: made.append(y) or original(y)  # type: ignore[method-assign, func-returns-value]
        await pilot.press("down")
        await settle(pilot, app)
        assert set(made) == {2, 3}, "the two rows between which the cursor moved"


async def test_another_size_is_painted_at_once() -> None:
    app = top()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.resize_terminal(100, 30)
        await settle(pilot, app)
        assert painted(app) == text_of(app.frame())
        assert len(painted(app)) == 30


async def test_a_terminal_that_is_behind_gets_the_newest_frame_later() -> None:
    app = top()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, app)
        before = painted(app)
        app.is_clear = lambda: False  # type: ignore[method-assign]
        await pilot.press("down")
        assert painted(app) == before and app.skipped_frames >= 1
        app.is_clear = lambda: True  # type: ignore[method-assign]
        app.tick()
        await settle(pilot, app)
        assert painted(app) == text_of(app.frame())


async def test_a_pause_reads_nothing() -> None:
    app = top()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("space")
        started = app.source.started  # type: ignore[attr-defined]
        app.tick()
        assert app.source.started == started  # type: ignore[attr-defined]


async def test_a_confirmed_change_is_carried_out_and_its_end_said() -> None:
    changes: list[ViewChange] = []

    async def act(change: ViewChange) -> str:
        changes.append(change)
        if len(changes) > 1:
            raise Denied("it is not yours")
        return "job 10: cancelled"

    app = top(act=act)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+d", "n")
        assert changes == []
        await pilot.press("ctrl+d", "y")
        await app.workers.wait_for_complete()
        assert changes == [ViewChange("cancel", "10")] and app.browser.said == "job 10: cancelled"
        await pilot.press("ctrl+d", "y")
        await app.workers.wait_for_complete()
        assert "it is not yours" in app.browser.said


async def test_the_job_under_the_cursor_of_why_is_wanted() -> None:
    app = top("why")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert app.source.wanted[-1].explained == "10"  # type: ignore[attr-defined]


async def test_it_quits_when_every_confirmed_change_was_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answered, asked = asyncio.Event(), 0

    async def act(change: ViewChange) -> str:
        nonlocal asked
        asked += 1
        number = asked
        await answered.wait()
        return f"answer {number}"

    app = top(act=act)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+d", "y", "ctrl+d", "y", "q")
        assert app.return_code is None and "quits when the change was" in app.browser.said
        answered.set()
        await app.workers.wait_for_complete()
    assert app.return_code == 0
    assert capsys.readouterr().err == "answer 1\nanswer 2\n"


async def test_a_second_q_does_not_wait_for_an_answer() -> None:
    async def act(change: ViewChange) -> str:
        await asyncio.Event().wait()
        return ""

    app = top(act=act)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+d", "y", "q", "q")
    assert app.return_code == 0


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
async def test_q_and_ctrl_c_quit(key: str) -> None:
    app = top()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key)
    assert app.return_code == 0


async def test_mono_sends_no_colour() -> None:
    app = top(theme="mono")
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, app)
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                assert style is None or style.color is None or style.color.is_default
                assert style is None or style.bgcolor is None or style.bgcolor.is_default
