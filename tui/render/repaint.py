# SPDX-License-Identifier: Apache-2.0
"""Lines that are written over the ones before, in place: `metrics -w` on a terminal.

Pure. Owns that no mode of the terminal is changed, so that nothing has to be set back however the
program ends, and that no line wraps, so that the cursor finds its way back.
"""

from __future__ import annotations

from stoker.tui.render import text

UP, CLEAR_LINE, CLEAR_BELOW = "\x1b[{}F", "\x1b[K", "\x1b[J"
"""ECMA-48: CPL, EL, ED."""


class Repaint:
    """What is written to show one text after another at the same place."""

    def __init__(self) -> None:
        self._lines = 0

    def over(self, words: str, columns: int, rows: int) -> str:
        """Bytes for a terminal of this size; lines that find no room are left out."""
        lines = [cut(line, columns) for line in words.splitlines()[: max(1, rows - 1)]]
        up = UP.format(min(self._lines, rows - 1)) if self._lines else ""
        self._lines = len(lines)
        return up + "".join(f"{line}{CLEAR_LINE}\n" for line in lines) + CLEAR_BELOW


def cut(line: str, columns: int) -> str:
    """The line, or as much of it as fits into a row."""
    return line if text.cells(line) <= columns else text.fit(line, columns).rstrip()
