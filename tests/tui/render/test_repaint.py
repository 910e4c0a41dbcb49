# SPDX-License-Identifier: Apache-2.0
"""Repainting: the cursor comes back to where it was, whatever the terminal's size."""

from __future__ import annotations

from stoker.tui.render.repaint import CLEAR_BELOW, CLEAR_LINE, Repaint


def test_the_second_text_stands_where_the_first_did() -> None:
    paint = Repaint()
    assert paint.over("a\nb\n", 80, 24) == f"a{CLEAR_LINE}\nb{CLEAR_LINE}\n{CLEAR_BELOW}"
    assert paint.over("c\n", 80, 24) == f"\x1b[2Fc{CLEAR_LINE}\n{CLEAR_BELOW}"
    assert paint.over("d\n", 80, 24).startswith("\x1b[1F")


def test_no_line_wraps_and_none_scrolls() -> None:
    paint = Repaint()
    assert paint.over("x" * 30 + "\n" + "y\n" * 30, 20, 10).count("\n") == 9
    again = paint.over("x" * 30 + "\n", 20, 10)
    assert again == f"\x1b[9F{'x' * 19}…{CLEAR_LINE}\n{CLEAR_BELOW}"


def test_no_mode_of_the_terminal_is_changed() -> None:
    assert "?" not in Repaint().over("a\n", 80, 24)
