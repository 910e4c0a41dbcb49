# SPDX-License-Identifier: Apache-2.0
"""The line mode: every view as text, whole in a pipe and cut on a terminal, hostile names tamed."""

from __future__ import annotations

import pytest
from fakes.top_cluster import NOW, SECOND, browser, scene

from stoker.tui.top import plain
from stoker.tui.top.answers import ServerState
from stoker.tui.top.marks import ASCII
from stoker.tui.top.views.catalogue import VIEWS


@pytest.mark.parametrize("width", [None, 80])
@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_lines_that_move_nothing(view: str, width: int | None) -> None:
    lines = plain.lines(browser(view), scene(view), width)
    assert lines[0].startswith(VIEWS[view].title) and lines[0].endswith("SIM  live")
    assert len(lines) > 1
    for line in lines:
        assert line.isprintable(), ascii(line)
    for line in plain.lines(browser(view), scene(view, marks=ASCII), width):
        assert line.isascii()


def test_a_pipe_gets_whole_cells_and_all_rows() -> None:
    lines = plain.lines(browser("jobs"), scene("jobs", 80, 5), None)
    assert any("2 devices of model H100 SXM are free, it needs 4" in line for line in lines)
    assert len(lines) == 2 + 5


def test_a_terminal_gets_lines_of_its_width() -> None:
    lines = plain.lines(browser("jobs"), scene("jobs"), 60)
    assert max(map(len, lines)) <= 60


def test_a_lost_server_is_said() -> None:
    lost = scene("jobs", at_ns=NOW - 9 * SECOND)._replace(service=ServerState(NOW, "no broker"))
    lines = plain.lines(browser("jobs"), lost, None)
    assert lines[0].endswith("STALE 9 s") and lines[1].startswith("no answer: no broker")
