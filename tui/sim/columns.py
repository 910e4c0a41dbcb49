# SPDX-License-Identifier: Apache-2.0
"""Figures of a simulator as an aligned table of text.

A figure that is not known is shown as `-`, never as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Columns = Sequence[tuple[str, Callable[[Any], str]]]
"""(heading, text of a row) of each column."""


def plain(value: float | None, form: str) -> str:
    """A number in a format of Python."""
    return "-" if value is None else format(value, form)


def table(columns: Columns, rows: Sequence[Any]) -> list[str]:
    """Lines of a table, the first column to the left and all others to the right."""
    cells = [[title for title, _ in columns], *([says(row) for _, says in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]


def cell(value: float | None, sign: str = "") -> str:
    """A percentage of a report in seven columns."""
    return f"{'-':>7}" if value is None else f"{value:{sign}7.2f}"
