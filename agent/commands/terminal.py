# SPDX-License-Identifier: Apache-2.0
"""Lines for a person, within the width of the terminal that they are written to.

Into a pipe nothing is cut or broken, since its reader may search for what that would hide.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

LEAST = 40
"""The fewest columns of a text; a narrower terminal breaks its lines itself."""
GAP = "  "


def columns() -> int | None:
    """Return the width of the terminal, or None if there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(text: str, indent: int = 2) -> str:
    """Return a text in lines that fit; all but the first are indented."""
    import textwrap  # imported late: most verbs write short lines

    width = columns()
    if width is None or len(text) <= width:
        return text
    first = len(text) - len(text.lstrip())
    lines = textwrap.wrap(text.strip(), max(width - indent, LEAST) - first, break_on_hyphens=False)
    return "\n".join(" " * (first + (indent if at else 0)) + line for at, line in enumerate(lines))


def table(rows: Sequence[Sequence[str]], cut: int, right: Sequence[int] = ()) -> list[str]:
    """Return lines of a table whose column `cut` is cut where the terminal has no room for it.

    The first row is the heading; the columns in `right` stand at their right ends.
    """
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - (columns() or sys.maxsize)
    if over > 0:
        widths[cut] = max(widths[cut] - over, min(widths[cut], len(rows[0][cut]) + 4))
    return [_line(row, widths, right) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> str:
    cells = []
    for at, (word, width) in enumerate(zip(row, widths, strict=True)):
        shown = word if len(word) <= width else f"{word[: width - 1]}…"
        cells.append(f"{shown:>{width}}" if at in right else f"{shown:<{width}}")
    return GAP.join(cells).rstrip()
