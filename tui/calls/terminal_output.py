# SPDX-License-Identifier: Apache-2.0
"""The output of a job on its way to a terminal, of which it must not get hold.

Owns that no escape sequence and no other control character of a job reaches the terminal: what
would move the cursor, change a colour or ask the terminal for something is shown as `?`. Ends of
lines, tabs and returns to the line's start stay, as a bar of progress needs them.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable

KEPT = "\n\t\r"


class TerminalOutput:
    """One stream. `write` gets what may be shown, in the encoding of the terminal."""

    def __init__(self, write: Callable[[bytes], None], encoding: str) -> None:
        self._write, self._encoding = write, encoding
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        """Show a piece; a character that is cut waits for its rest."""
        self._show(self._decoder.decode(data))

    def end(self) -> None:
        """Show what is left of a character that never came whole."""
        self._show(self._decoder.decode(b"", True))

    def _show(self, words: str) -> None:
        if words:
            self._write(shown(words).encode(self._encoding, "replace"))


def shown(words: str) -> str:
    """Return the text with `?` for each character that a terminal would act on."""
    if all(line.isprintable() for line in words.split("\n")):  # nearly all are
        return words
    return "".join(char if _harmless(char) else "?" for char in words)


def _harmless(char: str) -> bool:
    return char.isprintable() or char in KEPT or unicodedata.category(char) == "Zs"
