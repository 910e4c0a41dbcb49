# SPDX-License-Identifier: Apache-2.0
"""Rows of a verb in the four forms for programs: json, jsonl, csv, name.

Pure: rows in, text out; every verb that reads relies on it, so that one form is the same in all of
them. Numbers are plain, in SI units, under the names of the rows' fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

SCHEMA: Final = "stoker/v1"
Row = Mapping[str, Any]
Form = Literal["table", "wide", "json", "jsonl", "csv", "name"]
FORMS: tuple[Form, ...] = ("table", "wide", "json", "jsonl", "csv", "name")
"""All output forms; `table` and `wide` are for people, and each verb makes its own."""
SHORT_ID: Final = 12
"""The length of a device's short id: `GPU-` or `MIG-` and eight digits of a UUID."""
_NESTED = ("times", "spec", "usage", "decision")


def rendered(plural: str, name: str, rows: Sequence[Row], form: Form) -> str:
    """Return rows in a form for programs, each line ended by a newline; no rows may give no text.

    `plural` is the key of the list in JSON, `name` the field that names a row.
    """
    if form == "json":
        return one({"schema": SCHEMA, plural: list(rows)})
    if form == "jsonl":
        return "".join(_json({"schema": SCHEMA, **row}) for row in rows)
    if form == "csv":
        return _csv(rows)
    return "".join(f"{clean(row[name])}\n" for row in rows)


def one(value: object) -> str:
    """Return one object as `-o json` prints it."""
    return _json(value, indent=True)


def short_id(device: str) -> str:
    """Return the beginning of a device's id, which every verb accepts in place of the whole."""
    return device if len(device) <= SHORT_ID + 2 else device[:SHORT_ID]


def clean(text: object) -> str:
    """Return the text with every unprintable character replaced by `?`."""
    return "".join(char if char.isprintable() else "?" for char in str(text))


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
    """Return the row with nested records as dotted columns such as `times.started_ns`."""
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
    return ("'" if formula else "") + clean(value)
