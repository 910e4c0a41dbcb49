# SPDX-License-Identifier: Apache-2.0
"""The virtual table: only rows on the screen become text, and columns leave in a fixed order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.tui.render import text
from stoker.tui.top.lines import Look, Piece, plain
from stoker.tui.top.marks import UNICODE
from stoker.tui.top.table import ViewColumn, fit_columns, heading, row, window

LOOK = Look(0, UNICODE, 30, 10)
COLUMNS = (
    ViewColumn[int]("ID", 4, lambda item, look: str(item), right=True),
    ViewColumn[int]("NAME", 8, lambda item, look: f"row {item}", leaves=2),
    ViewColumn[int]("NOTE", 6, lambda item, look: "a long note", grows=True, leaves=1),
)


def test_columns_leave_in_their_order_and_the_first_stays() -> None:
    for room, titles in ((22, "ID NAME NOTE"), (21, "ID NAME"), (13, "ID"), (2, "ID")):
        assert " ".join(c.title for c in fit_columns(COLUMNS, room).columns) == titles
    assert fit_columns(COLUMNS, 2).widths == (2,)


def test_what_grows_takes_the_room_that_is_left() -> None:
    assert fit_columns(COLUMNS, 40).widths == (4, 8, 24)


def test_a_cell_is_cut_or_padded_and_numbers_stand_right() -> None:
    fitted = fit_columns(COLUMNS, 22)
    look = LOOK._replace(columns=22)
    assert plain(heading(fitted, look)) == "  ID  NAME      NOTE"
    assert plain(row(fitted, 7, look, "")) == "   7  row 7     a lon…"


def test_the_cursor_covers_the_tones_of_cells() -> None:
    column = ViewColumn[int]("X", 4, lambda item, look: (Piece("ab", "bad"), Piece("cd", "good")))
    fitted = fit_columns((column,), 4)
    look = LOOK._replace(columns=4)
    assert row(fitted, 1, look, "") == (Piece("ab", "bad"), Piece("cd", "good"))
    assert row(fitted, 1, look, "cursor") == (Piece("abcd", "cursor"),)


@given(st.text(), st.integers(1, 60))
def test_a_row_is_exactly_as_wide_as_its_terminal(words: str, room: int) -> None:
    column = ViewColumn[str]("NAME", 8, lambda item, look: item, grows=True)
    look = LOOK._replace(columns=room)
    line = row(fit_columns((column,), room), words, look, "")
    assert text.cells("".join(span.words for span in line)) == room


@given(st.integers(-5, 300), st.integers(0, 300), st.integers(0, 200), st.integers(0, 50))
def test_the_cursor_is_a_row_and_on_the_screen(
    cursor: int, offset: int, count: int, rows: int
) -> None:
    at, top = window(cursor, offset, count, rows)
    assert 0 <= at < max(count, 1)
    assert top <= at < top + max(rows, 1)
    assert 0 <= top <= max(count - max(rows, 1), 0)


def test_what_grows_shares_the_room_up_to_its_most() -> None:
    name = ViewColumn[int]("NAME", 8, lambda item, look: "x", grows=True, most=12)
    why = ViewColumn[int]("WHY", 6, lambda item, look: "x", grows=True)
    assert fit_columns((name, why), 20).widths == (10, 8)
    assert fit_columns((name, why), 61).widths == (12, 47), "the rest is for the other one"
    assert fit_columns((name,), 40).widths == (12,)
    assert fit_columns((name,), 5).widths == (5,)
