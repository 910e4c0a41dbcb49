# SPDX-License-Identifier: Apache-2.0
"""Untrusted text on a terminal: cleaned of control characters, measured and cut in cells.

Names of jobs, kernels and files come from users; no character that moves the cursor or changes
colours gets through.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import TextIO

PAGE = 80
"""The width of text that is not a table, where no terminal says another one."""
PAGE_LEAST, PAGE_MOST = 72, 100
"""Narrower text cannot be laid out; wider lines are hard to read."""
SAYS = "stoker: "
WRAP_LEAST = 20
"""Words are not wrapped into fewer columns than this."""


def clean(text: object) -> str:
    """The text with every unprintable character replaced by `?`."""
    words = str(text)
    if words.isprintable():  # nearly all are, and tables have many
        return words
    return "".join(char if char.isprintable() else "?" for char in words)


def cells(text: str) -> int:
    """Terminal columns that the text takes: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_cell(char) for char in text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """The text cut or padded to exactly `width` columns; a cut ends in `…`."""
    taken = cells(text)
    if taken > width:
        text, taken = _cut(text, width)
    pad = " " * (width - taken)
    return pad + text if right else text + pad


def wrap(text: str, width: int, indent: int) -> str:
    """Lines of at most `width` columns; all but the first are indented."""
    import textwrap  # imported late, as each module that only some texts need

    room = max(width - indent, WRAP_LEAST)
    lines = textwrap.wrap(text, room, break_long_words=True, break_on_hyphens=False) or [""]
    return ("\n" + " " * indent).join(lines)


def fitted(text: str, stream: TextIO) -> str:
    """An untrusted text in lines that fit a stream's terminal; one line for a pipe."""
    width = columns(stream)
    return wrap(clean(text), width, 2) if width else clean(text)


def joined(parts: Iterable[str], separator: str = "  ") -> str:
    """The parts that are not empty, side by side."""
    return separator.join(part for part in parts if part)


def colours(stream: TextIO) -> bool:
    """True on a terminal, unless NO_COLOR (no-color.org) or TERM=dumb forbids colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def columns(stream: TextIO) -> int | None:
    """The width that text for people shall fit, which COLUMNS overrides; None for a pipe, whose
    reader may search what a cut would hide."""
    if not stream.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


def page(stream: TextIO) -> int:
    """The width of a report or an explanation: that of the terminal, within limits, else PAGE."""
    return min(max(columns(stream) or PAGE, PAGE_LEAST), PAGE_MOST)


def encodable(stream: TextIO) -> bool:
    """True if the stream can encode block characters and typographic marks."""
    return (stream.encoding or "ascii").lower().replace("-", "") in ("utf8", "utf16", "utf32")


def show(words: str) -> None:
    """Print on stdout; a character that its encoding lacks is replaced."""
    import click

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    click.echo(words, nl=False)


def tell(words: object) -> None:
    """Print a message of stoker's own on stderr: one line, which a terminal is given wrapped."""
    import click

    said, width = clean(words), columns(sys.stderr)
    click.echo(f"{SAYS}{wrap(said, width, len(SAYS)) if width else said}", err=True)


@lru_cache(maxsize=1024)
def _cell(char: str) -> int:
    import unicodedata

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cut(text: str, width: int) -> tuple[str, int]:
    if text.isascii() and width > 0:
        return text[: width - 1] + "…", width
    kept, taken = [], 0
    for char in text:
        if taken + _cell(char) > width - 1:
            break
        kept.append(char)
        taken += _cell(char)
    return ("".join(kept) + "…", taken + 1) if width > 0 else ("", 0)
