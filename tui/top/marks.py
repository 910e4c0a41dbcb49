# SPDX-License-Identifier: Apache-2.0
"""The characters that the live view draws with, and its gate for text that others wrote.

Every text of a frame passes `Marks.safe`, which owns this promise: what reaches the terminal moves
no cursor, changes no colour, and takes exactly the cells that were counted for it.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from stoker.tui.render import text

UNKNOWN = "?"
"""The character in place of one that a cell cannot hold."""


class Marks(NamedTuple):
    """One set of characters; the ASCII set has a mark for each of the other one."""

    levels: str
    full: str
    rule: str
    dot: str
    cut: str
    path: str
    braille: bool

    def safe(self, words: str) -> str:
        """Return the text with nothing in it that a cell of this terminal cannot show."""
        if words.isascii() and words.isprintable():
            return words
        return _safe(words, self.braille)

    def level(self, share: float) -> str:
        """Return the mark of a share between 0 and 1."""
        top = len(self.levels) - 1
        return self.levels[min(max(round(share * top), 0), top)]


UNICODE = Marks(" ▁▂▃▄▅▆▇█", "█", "─", "·", "…", "›", True)
ASCII = Marks(" .:-=+*#@", "#", "-", ".", "~", ">", False)


@functools.lru_cache(maxsize=4096)
def _safe(words: str, unicode: bool) -> str:
    # A mark that joins the character before it would need cells that terminals do not agree on.
    composed = unicodedata.normalize("NFC", words)
    return "".join(_shown(char, unicode) for char in composed)


def _shown(char: str, unicode: bool) -> str:
    if char.isascii():
        return char if char.isprintable() else UNKNOWN
    if not char.isprintable() or unicodedata.category(char)[0] == "M" or _has_no_cell(char):
        return UNKNOWN
    return char if unicode else UNKNOWN * text.cells(char)


def _has_no_cell(char: str) -> bool:
    """Return True for the vowels and finals of Hangul, which join the character before them."""
    return "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7fb"


def braille(values: Sequence[float | None], low: float, high: float, height: int) -> list[str]:
    """Draw two values in each cell, four dots high, over `height` lines; an absent one is a gap."""
    rows = height * 4
    columns = [_dot_row(value, low, high, rows) for value in values]
    columns += [None] * (len(columns) % 2)
    return [
        "".join(_cell(columns[at], columns[at + 1], line) for at in range(0, len(columns), 2))
        for line in range(height)
    ]


_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of a braille cell from the top down, in its left and its right column (Unicode 2800)."""


def _dot_row(value: float | None, low: float, high: float, rows: int) -> int | None:
    if value is None:
        return None
    share = (value - low) / (high - low) if high > low else 0.5
    return rows - 1 - min(max(round(share * (rows - 1)), 0), rows - 1)


def _cell(left: int | None, right: int | None, line: int) -> str:
    bits = 0
    for side, row in enumerate((left, right)):
        if row is not None and row // 4 == line:
            bits |= _DOTS[side][row % 4]
    return chr(0x2800 + bits) if bits else " "
