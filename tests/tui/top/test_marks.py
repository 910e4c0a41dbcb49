# SPDX-License-Identifier: Apache-2.0
"""Hostile text comes out as cells that every terminal counts alike; plots draw their values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyte.screens import wcwidth

from stoker.tui.render import text
from stoker.tui.top.marks import ASCII, UNICODE, braille


@given(st.text(st.characters(codec="utf-8")))
def test_no_text_moves_the_terminal_or_takes_other_cells_than_counted(words: str) -> None:
    safe = UNICODE.safe(words)
    assert safe.isprintable()
    assert all(wcwidth(char) in (1, 2) for char in safe if ord(char) < 0x1F000)
    assert ASCII.safe(words).isascii()


@pytest.mark.parametrize(
    ("words", "safe"),
    [
        ("\x1b[2J", "?[2J"),
        ("a\nb\tc\r", "a?b?c?"),
        ("\x9b31m", "?31m"),
        ("\u202eabc", "?abc"),
        ("e\u0301", "é"),
        ("x\u0301", "x?"),
        ("日本", "日本"),
        ("\u200b\u200d\ufe0f", "???"),
    ],
)
def test_what_a_cell_cannot_hold_is_a_question_mark(words: str, safe: str) -> None:
    assert UNICODE.safe(words) == safe


def test_ascii_takes_as_many_cells() -> None:
    assert ASCII.safe("日本 é") == "???? ?"
    assert text.cells(UNICODE.safe("日本 é")) == len(ASCII.safe("日本 é"))


def test_a_plot_rises_from_its_low_to_its_high_end_and_gaps_stay_empty() -> None:
    assert braille([0.0, 0.0, 1.0, 1.0], 0.0, 1.0, 1) == ["⣀⠉"]
    assert braille([0.0, None, None, None, 1.0, None], 0.0, 1.0, 2) == ["  ⠁", "⡀  "]
    assert braille([5.0, 5.0], 5.0, 5.0, 1) != [" "]
    assert braille([None, None], 0.0, 1.0, 1) == [" "]


def test_levels_grow_with_the_share() -> None:
    for marks in (UNICODE, ASCII):
        drawn = [marks.level(at / 8) for at in range(9)]
        assert drawn == list(marks.levels) and len(set(drawn)) == 9
        assert marks.level(-1) == drawn[0] and marks.level(2) == drawn[-1]
