# SPDX-License-Identifier: Apache-2.0
"""Lines that overwrite the previous ones in place, for `metrics -w` on a terminal.

Pure. No terminal mode is changed, so nothing must be restored however the program ends, and no line
wraps, so the cursor returns to the first line.
"""

from __future__ import annotations

from stoker.tui.render import text

UP, CLEAR_LINE, CLEAR_BELOW = "\x1b[{}F", "\x1b[K", "\x1b[J"
"""The control sequences CPL, EL and ED of ECMA-48."""


class Repaint:
    """Writes one text after another at the same place of a terminal."""

    def __init__(self) -> None:
        self._lines = 0

    def over(self, words: str, columns: int, rows: int) -> str:
        """The characters for a terminal of this size; lines that do not fit on it are left out."""
        lines = [cut(line, columns) for line in words.splitlines()[: max(1, rows - 1)]]
        up = UP.format(min(self._lines, rows - 1)) if self._lines else ""
        self._lines = len(lines)
        return up + "".join(f"{line}{CLEAR_LINE}\n" for line in lines) + CLEAR_BELOW


def cut(line: str, columns: int) -> str:
    """The line, cut to the width of a row."""
    return line if text.cells(line) <= columns else text.fit(line, columns).rstrip()
