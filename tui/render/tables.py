# SPDX-License-Identifier: Apache-2.0
"""Rows of every read verb in the six output forms: table, wide, json, jsonl, csv, name.

Pure: rows in, text out. `json`, `jsonl` and `csv` hold SI numbers under the names of the schema;
only `table` and `wide` are formatted for reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from stoker.tui.render import text
from stoker.tui.render.columns import CELL_MAX, Noun, Row, joined, lay_out

SCHEMA = "stoker/v1"
_NESTED = ("times", "spec", "usage", "decision")
Output = Literal["table", "wide", "json", "jsonl", "csv", "name"]
OUTPUTS: tuple[Output, ...] = ("table", "wide", "json", "jsonl", "csv", "name")


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
    if output == "json":
        return _json({"schema": SCHEMA, noun.plural: list(rows)}, indent=True)
    if output == "jsonl":
        return "".join(_json({"schema": SCHEMA, **row}) for row in rows)
    if output == "csv":
        return _csv(rows)
    if output == "name":
        return "".join(f"{text.clean(row[noun.name])}\n" for row in rows)
    wide = output == "wide"
    return _table(noun, rows, wide=wide, now_ns=now_ns, columns=columns, colour=colour)


def render_one(value: object) -> str:
    """One object as `-o json` prints it."""
    return _json(value, indent=True)


def _json(value: object, indent: bool = False) -> str:
    import msgspec  # imported late: every verb loads this file, and `--help` must be quick

    data = msgspec.json.encode(value)
    return (msgspec.json.format(data, indent=2) if indent else data).decode() + "\n"


def _csv(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    import csv
    import io

    out = io.StringIO()
    rows = [_flat(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_csv_cell(row.get(name)) for name in names])
    return out.getvalue()


def _flat(row: Row, prefix: str = "") -> dict[str, Any]:
    """The row with nested records as dotted columns such as `times.started_ns`."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        nested = isinstance(value, Mapping) and value and key in _NESTED
        flat |= _flat(value, f"{prefix}{key}.") if nested else {prefix + key: value}
    return flat


def _csv_cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, list | tuple | dict):
        return _json(value).rstrip("\n")
    if not isinstance(value, str):
        return value
    # A spreadsheet evaluates text that starts like a formula (OWASP, "CSV injection").
    formula = value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return ("'" if formula else "") + text.clean(value)


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
