# SPDX-License-Identifier: Apache-2.0
"""The virtual table of the live view: only the rows on the screen become text.

Pure. Columns have fixed widths, so no row beyond the screen is measured: a frame takes as long with
ten rows as with a hundred thousand. A narrow table gives up whole columns in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from stoker.tui.top.lines import Line, Look, Piece, Tone, cell, fitted

GAP = "  "
T = TypeVar("T")

Cell = str | Line
"""A text, or spans whose width is that of their column."""


class ViewColumn(NamedTuple, Generic[T]):
    """One column: heading, width in cells, text of an item, and its behaviour in a narrow table."""

    title: str
    width: int
    says: Callable[[T, Look], Cell]
    right: bool = False
    leaves: int = 0
    """Its place among the columns that a narrow table gives up; 0: it stays."""
    grows: bool = False
    """True if it takes the room that is left."""
    most: int = 0
    """The width up to which it grows, so that short words stay beside their row; 0: any."""
    order: Callable[[T], Any] | None = None
    """The value by which the rows are sorted; None: this column sorts nothing."""


class Fitted(NamedTuple, Generic[T]):
    """The columns that a width has room for, each with its own width."""

    columns: tuple[ViewColumn[T], ...]
    widths: tuple[int, ...]


def fit_columns(columns: Sequence[ViewColumn[T]], room: int) -> Fitted[T]:
    """Return the columns for a room; the first one stays, however narrow it is."""
    stay = list(columns)
    while _total(stay) > room:
        leaving = [column for column in stay if column.leaves]
        if not leaving:
            break
        stay.remove(min(leaving, key=lambda column: column.leaves))
    while len(stay) > 1 and _total(stay) > room:
        stay.pop()
    return Fitted(tuple(stay), _widths(stay, room))


def _widths(columns: Sequence[ViewColumn[T]], room: int) -> tuple[int, ...]:
    """Return the widths: those that grow share what is left, each up to its most."""
    widths = [min(column.width, room) for column in columns]
    spare = room - _total(columns)
    growing = [at for at, column in enumerate(columns) if column.grows]
    while spare > 0 and growing:
        share = max(1, spare // len(growing))
        for at in growing:
            more = min(share, spare, (columns[at].most or room) - widths[at])
            widths[at] += more
            spare -= more
        growing = [at for at in growing if widths[at] < (columns[at].most or room)]
    return tuple(widths)


def _total(columns: Sequence[ViewColumn[T]]) -> int:
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def heading(table: Fitted[T], look: Look, sorted_by: str = "", *, down: bool = False) -> Line:
    """Return the line of titles; the one that sorts the rows has a mark."""
    mark = ("v" if down else "^") if sorted_by else ""
    texts = [
        cell(
            column.title + (mark if column.title == sorted_by else ""),
            width, look.marks, right=column.right,
        )
        for column, width in zip(table.columns, table.widths, strict=True)
    ]  # fmt: skip
    return fitted((Piece(GAP.join(texts), "head"),), look.columns, look.marks)


def row(table: Fitted[T], item: T, look: Look, tone: Tone) -> Line:
    """Return the line of one item; the cursor's tone covers the tones of its cells."""
    spans: list[Piece] = []
    for column, width in zip(table.columns, table.widths, strict=True):
        if spans:
            spans.append(Piece(GAP, tone))
        said = column.says(item, look)
        if isinstance(said, str):
            spans.append(Piece(cell(said, width, look.marks, right=column.right), tone))
        else:
            spans += _spans(said, width, look, tone)
    spare = look.columns - sum(table.widths) - len(GAP) * (len(table.widths) - 1)
    spans.append(Piece(" " * spare, tone if tone == "cursor" else ""))
    if tone == "cursor":
        return (Piece("".join(span.words for span in spans), tone),)
    return tuple(_joined(spans))


def _spans(said: Line, width: int, look: Look, tone: Tone) -> list[Piece]:
    return [Piece(words, own or tone) for words, own in fitted(said, width, look.marks)]


def _joined(spans: Sequence[Piece]) -> list[Piece]:
    """Join neighbours of one tone, because each span costs the terminal a control sequence."""
    made: list[Piece] = []
    for span in spans:
        if not span.words:
            continue
        if made and made[-1].tone == span.tone:
            made[-1] = Piece(made[-1].words + span.words, span.tone)
        else:
            made.append(span)
    return made


def window(cursor: int, offset: int, count: int, rows: int) -> tuple[int, int]:
    """Return cursor and offset within `count` rows, so that the cursor is on a screen of `rows`."""
    cursor = min(max(cursor, 0), max(count - 1, 0))
    rows = max(rows, 1)
    offset = min(offset, cursor)
    offset = max(offset, cursor - rows + 1)
    return cursor, min(max(offset, 0), max(count - rows, 0))
