# SPDX-License-Identifier: Apache-2.0
"""`stoker top` on a real terminal beside a real node, from start to quit, as a person drives it.

pyte parses what the terminal gets. Every wait is for something that the screen must show.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.pty_screen import PtyScreen
from fakes.tmux_screen import TmuxScreen
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.agent.supervise import pids

HOSTILE = "\x1b[31mred\x1b]0;owned\x07"


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as running:
        yield running


def top(node: LiveNode, *words: str, colours: bool = True, **size: int) -> PtyScreen:
    kept = node.environment if not colours else _without(node.environment, "NO_COLOR")
    return PtyScreen([str(STOKER), "top", *words], kept, **size)


def _without(environment: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key != name}


def first_lines(screen: PtyScreen) -> str:
    return "\n".join(screen.lines[:2])


def test_from_start_to_quit_through_views_a_resize_and_a_lost_server(node: LiveNode) -> None:
    holder = node.submit("sh", "-c", "echo begun; exec sleep 600", gpu_milli=1000, name="holder")
    node.wait(holder, "running")
    waiting = node.submit("true", gpu_milli=1000, name="waiting")
    with top(node) as screen:
        screen.wait(lambda s: s.lines[0].startswith(" Cluster") and "live" in s.lines[0], "Cluster")
        screen.wait_for("ready")
        screen.press("\r")
        screen.wait_for("pocl-0")
        screen.press(":jobs\r")
        screen.wait_for("waiting")
        screen.press("/holder\r")
        screen.wait(lambda s: "/holder" in s.lines[0] and "waiting" not in s.text, "one row")
        screen.press("\r")
        screen.wait_for("begun")
        screen.press(":why\r")
        screen.wait(lambda s: f"job {waiting}" in s.text and "would help" in s.text, "the reason")
        screen.resize(100, 30)
        screen.wait(lambda s: len(s.lines) == 30 and s.lines[29].startswith("? help"), "30 lines")
        screen.press("s")
        screen.wait_for("leads back")
        screen.press("echo the job is $STOKER_JOB; exit\n")
        # The view may come back before the screen is looked at, so what the shell wrote is read.
        screen.wait(lambda s: f"the job is {waiting}".encode() in s.raw, "what the shell says")
        screen.wait(lambda s: s.lines[0].startswith(" Queue-why"), "the view again")
        scheduler = pids.find(node.state)["scheduler"].pid
        os.kill(scheduler, signal.SIGSTOP)
        try:
            screen.wait(lambda s: "STALE" in s.lines[0], "that the data is stale")
            screen.wait(lambda s: "no answer for" in s.lines[1], "that the server is lost")
            assert "waiting" in screen.text, "what was read stays"
            screen.press(":jobs\r")
            screen.wait(lambda s: s.lines[0].startswith(" Jobs"), "that keys work all the same")
        finally:
            os.kill(scheduler, signal.SIGCONT)
        screen.wait(lambda s: "live" in s.lines[0], "that the data is live again")
        screen.wait(lambda s: "the server answers again" in s.lines[1], "its return")
        screen.press("q")
        assert screen.wait_end() == 0
        assert screen.raw.rstrip().endswith(b"\x1b[?1049l\x1b[?25h\x1b[?1004l"), "as it was before"
    node.stoker("cancel", f"{holder},{waiting}")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_in_tmux_from_start_to_quit_with_a_resize_and_a_lost_server(
    node: LiveNode, tmp_path: Path
) -> None:
    job = node.submit("sleep", "600", name="in-tmux")
    node.wait(job, "running")
    with TmuxScreen([str(STOKER), "top"], node.environment, tmp_path, 80, 24) as screen:
        screen.wait(lambda lines: "Cluster" in lines[0] and "live" in lines[0], "the cluster")
        screen.press(":jobs", "Enter")
        screen.wait_for("in-tmux")
        assert max(map(len, screen.lines)) <= 80
        screen.resize(100, 30)
        screen.wait(lambda lines: lines[29].startswith("? help"), "its bottom on line 30")
        scheduler = pids.find(node.state)["scheduler"].pid
        os.kill(scheduler, signal.SIGSTOP)
        try:
            screen.wait(lambda lines: "STALE" in lines[0], "that the data is stale")
            assert "in-tmux" in "\n".join(screen.lines), "what was read stays"
        finally:
            os.kill(scheduler, signal.SIGCONT)
        screen.wait(lambda lines: "live" in lines[0], "that the data is live again")
        # In another size than at the start, tmux itself would keep lines of the application.
        screen.resize(80, 24)
        screen.wait(lambda lines: lines[23].startswith("? help"), "its bottom on line 24")
        screen.press("C-c")
        assert screen.wait_end() == 0
        screen.wait(lambda lines: not any(lines), "the empty window of before")
    node.stoker("cancel", str(job))


def test_a_job_is_cancelled_after_a_confirmation_and_never_with_readonly(node: LiveNode) -> None:
    job = node.submit("sleep", "600", name="doomed")
    node.wait(job, "running")
    with top(node, "jobs", "--readonly") as screen:
        screen.wait_for("doomed")
        screen.press("\x04")
        screen.wait_for("this view is --readonly")
        screen.press("y\x03")
        assert screen.wait_end() == 0
    with top(node, "jobs") as screen:
        screen.wait_for("doomed")
        screen.press("\x04")
        screen.wait_for(f"cancel job {job}?")
        screen.press("n")
        screen.wait_for("nothing was changed")
        screen.press("\x04")
        screen.wait_for(f"cancel job {job}?")
        screen.press("yq")
        assert screen.wait_end() == 0
        assert f"job {job}: cancelled".encode() in screen.raw, "it quits once that is answered"
    assert node.wait(job).state == "cancelled"


def test_hostile_names_and_output_reach_no_terminal(node: LiveNode) -> None:
    job = node.submit("printf", HOSTILE + "\\nquiet\\n", name="日本 x\u0301\u0301")
    node.wait(job)
    with top(node, "logs", str(job)) as screen:
        screen.wait_for("?[31mred?]0;owned?")
        screen.wait_for("quiet")
        screen.press(":jobs\r")
        screen.wait(lambda s: s.lines[0].startswith(" Jobs") and "x??" in s.text, "its name")
        screen.press("q")
        assert screen.wait_end() == 0
        assert b"\x1b[31m" not in screen.raw and b"owned\x07" not in screen.raw


def test_no_color_and_ascii_send_neither_on_a_terminal_of_20_by_5(node: LiveNode) -> None:
    with top(node, "devices", "--ascii", colours=False, columns=20, rows=5) as screen:
        screen.wait_for("pocl-0")
        screen.press("q")
        assert screen.wait_end() == 0
        assert bytes(screen.raw).isascii()
        assert b"38;2;" not in screen.raw and b"48;2;" not in screen.raw
    for words, shown in (
        (("devices", "--once"), b"pocl-0"),
        (("health", "--plain", "--once"), b"term"),
    ):
        done = node.stoker("top", *words)
        assert shown in done.stdout and b"\x1b" not in done.stdout


def test_a_terminal_that_takes_nothing_stops_neither_the_view_nor_its_end(node: LiveNode) -> None:
    with top(node, "--interval", "0.1") as screen:
        screen.wait_for("ready")
        for _ in range(200):  # nobody reads: the terminal is full after some of these
            screen.press("?")
        screen.press("\x03")
        wait_until(lambda: screen.process.poll() is not None or screen.read(), "its end", 60)
        assert screen.wait_end() == 0
