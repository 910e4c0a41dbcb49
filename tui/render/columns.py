# SPDX-License-Identifier: Apache-2.0
"""Columns of a table, laid out in the width of a terminal.

Pure. A table that is too wide first cuts the cells that may be cut, then gives up whole columns in
a fixed order; a cut cell ends in `…`. Without a width nothing leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stoker.tui.render import text

GAP = "  "
CELL_MAX = 60
"""The most columns of a cell in `table`; `wide` cuts nothing."""

Row = Mapping[str, Any]
Says = Callable[[Row, int], str]
"""(row, now in CLOCK_REALTIME ns) -> text."""


class Column(NamedTuple):
    """One column: its heading, the text of a row, its alignment, and if only `wide` shows it."""

    title: str
    says: Says
    right: bool = False
    wide: bool = False
    least: int = 0
    """Cells that a cut leaves at least; 0: a cell of this column is never cut for room."""
    leaves: int = 0
    """Its place among the columns that a narrow table gives up; 0: it always stays."""
    brief: Says | None = None
    """The text in `table`, where it differs from that in `wide`."""

    def words(self, row: Row, now: int, *, wide: bool) -> str:
        """The text of this column for a row."""
        return (self.says if wide or self.brief is None else self.brief)(row, now)


class Noun(NamedTuple):
    """A kind of row: its plural in JSON, the field that names a row, its columns."""

    plural: str
    name: str
    columns: tuple[Column, ...]


def lay_out(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], width: int | None
) -> tuple[list[int], list[int]]:
    """The indexes of the columns that stay, and the width in cells of each of them.

    `width` is that of the terminal; None is as wide as the rows are. A terminal narrower than what
    must stay gets lines that are too long, rather than nothing.
    """
    natural = [
        max(text.cells(column.title), *(text.cells(line[i]) for line in lines), 0)
        for i, column in enumerate(columns)
    ]
    stay = list(range(len(columns)))
    while width is not None:
        widths = _cut(columns, natural, stay, width)
        leaving = [i for i in stay if columns[i].leaves]
        if _total(widths) <= width or not leaving:
            return stay, widths
        stay.remove(min(leaving, key=lambda i: columns[i].leaves))
    return stay, natural


def _cut(
    columns: Sequence[Column], natural: Sequence[int], stay: Sequence[int], width: int
) -> list[int]:
    """The widths of the columns that stay; the widest that may be cut gives a cell at a time."""
    widths = [natural[i] for i in stay]
    floors = [min(natural[i], columns[i].least or natural[i]) for i in stay]
    while _total(widths) > width:
        place = max(range(len(widths)), key=lambda j: (widths[j] > floors[j], widths[j]))
        if widths[place] <= floors[place]:
            break
        widths[place] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def joined(texts: Iterable[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """One line of a table: each text cut or padded to the width of its column."""
    parts = zip(texts, columns, widths, strict=True)
    return GAP.join(text.fit(words, width, right=c.right) for words, c, width in parts).rstrip()
