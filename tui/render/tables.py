# SPDX-License-Identifier: Apache-2.0
"""Rows of every read verb in the six output forms: table, wide, json, jsonl, csv, name.

Pure: rows in, text out. The forms for programs are those of `native/row_forms.py`; only `table` and
`wide` are formatted for reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from stoker.native import row_forms
from stoker.tui.render import text
from stoker.tui.render.columns import CELL_MAX, Noun, Row, joined, lay_out

SCHEMA = row_forms.SCHEMA
Output: TypeAlias = row_forms.Form
OUTPUTS = row_forms.FORMS


def render(
    noun: Noun,
    rows: Sequence[Row],
    output: Output,
    *,
    now_ns: int = 0,
    columns: int | None = None,
    colour: bool = False,
) -> str:
    """The rows in one of the six forms, each line ended by a newline; no rows may give no text.

    `columns` is the width that `table` shall fit; None gives each column the room it needs.
    """
    if output not in ("table", "wide"):
        return row_forms.rendered(noun.plural, noun.name, rows, output)
    wide = output == "wide"
    return _table(noun, rows, wide=wide, now_ns=now_ns, columns=columns, colour=colour)


def render_one(value: object) -> str:
    """One object as `-o json` prints it."""
    return row_forms.one(value)


def _table(
    noun: Noun,
    rows: Sequence[Row],
    *,
    wide: bool,
    now_ns: int,
    columns: int | None,
    colour: bool,
) -> str:
    if not rows:
        return f"no {noun.plural}\n"
    shown = [c for c in noun.columns if wide or not c.wide]
    cell_max = 10_000 if wide else CELL_MAX
    lines = [[_cell(c.words(row, now_ns, wide=wide), cell_max) for c in shown] for row in rows]
    stay, widths = lay_out(shown, lines, None if wide else columns)
    kept = [shown[i] for i in stay]
    heading = joined([c.title for c in kept], kept, widths)
    body = (joined([line[i] for i in stay], kept, widths) for line in lines)
    top = f"\x1b[1m{heading}\x1b[0m" if colour else heading
    return "\n".join([top, *body]) + "\n"


def _cell(words: str, cell_max: int) -> str:
    words = text.clean(words)
    return words if text.cells(words) <= cell_max else text.fit(words, cell_max).rstrip()
