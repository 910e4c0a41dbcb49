# SPDX-License-Identifier: Apache-2.0
"""Lines of a frame: spans of text with a tone each, cut and padded to cells.

Pure. Views make lines, the theme gives tones their colours, and `fitted` is the only way to the
terminal: it cleans every span and returns exactly the width that was asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from stoker.tui.render import text
from stoker.tui.top.marks import Marks

Tone: TypeAlias = Literal["", "good", "warn", "bad", "dim", "head", "title", "key", "cursor"]
"""The meaning of a span, never told by colour alone: the text says the same."""
TONES: tuple[Tone, ...] = ("", "good", "warn", "bad", "dim", "head", "title", "key", "cursor")


class Piece(NamedTuple):
    """Words of one tone."""

    words: str
    tone: Tone = ""


Line: TypeAlias = tuple[Piece, ...]


class Look(NamedTuple):
    """Everything beside its data that a view may use: the time (CLOCK_REALTIME), the marks, the
    room."""

    now_ns: int
    marks: Marks
    columns: int = 80
    rows: int = 24


def line(words: str, tone: Tone = "") -> Line:
    """Return a line of one span."""
    return (Piece(words, tone),)


def pairs(parts: Iterable[tuple[str, str]], tone: Tone = "") -> Line:
    """Return `label value` pairs side by side, the labels dim."""
    spans: list[Piece] = []
    for label, value in parts:
        spans += [Piece("  ")] if spans else []
        spans += [Piece(f"{label} ", "dim"), Piece(value, tone)]
    return tuple(spans)


@functools.lru_cache(maxsize=8192)
def cells(words: str) -> int:
    """Return the cells that a clean text takes; names come again and again."""
    return text.cells(words)


def blank(room: int) -> Line:
    """Return an empty line of a width."""
    return (Piece(" " * room),)


def width(spans: Iterable[Piece], marks: Marks) -> int:
    """Return the cells that spans take."""
    return sum(cells(marks.safe(span.words)) for span in spans)


def cell(words: str, room: int, marks: Marks, *, right: bool = False) -> str:
    """Return a text cleaned, and cut or padded to `room` cells."""
    words = marks.safe(words)
    taken = len(words) if words.isascii() else cells(words)
    if taken <= room:
        pad = " " * (room - taken)
        return pad + words if right else words + pad
    return cut(words, room, marks)


def cut(words: str, room: int, marks: Marks) -> str:
    """Return a clean text that is too long, cut to exactly `room` cells."""
    if room <= 0:
        return ""
    if words.isascii():
        return words[: room - 1] + marks.cut
    kept = text.fit(words, room)
    return kept.replace("…", marks.cut) if not marks.braille else kept


def fitted(spans: Sequence[Piece], room: int, marks: Marks) -> Line:
    """Return the spans as exactly `room` cells, the last one cut or the line padded."""
    made: list[Piece] = []
    left = room
    for span in spans:
        words = marks.safe(span.words)
        taken = len(words) if words.isascii() else cells(words)
        if taken > left:
            made.append(Piece(cut(words, left, marks), span.tone))
            left = 0
            break
        if words:
            made.append(Piece(words, span.tone))
            left -= taken
    if left:
        made.append(Piece(" " * left, made[-1].tone if made and made[-1].tone == "cursor" else ""))
    return tuple(made)


def ends(left: Sequence[Piece], right: Sequence[Piece], room: int, marks: Marks) -> Line:
    """Return a line whose right part stays whole where there is room for it."""
    taken = width(right, marks)
    if taken >= room:
        return fitted(right, room, marks)
    return (*fitted(left, room - taken, marks), *right)


def plain(spans: Iterable[Piece]) -> str:
    """Return a line's text without what fills it at its end."""
    return "".join(span.words for span in spans).rstrip()


def wrapped(label: str, words: str, room: int, tone: Tone = "") -> list[Line]:
    """Return a labelled text over as many lines as it needs, indented below its label."""
    indent = min(text.cells(label), max(0, room - 10))
    lines = text.wrap(words, max(room, indent + 10), indent).split("\n")
    first: Line = (Piece(label, "dim"), Piece(lines[0], tone))
    return [first, *((Piece(more, tone),) for more in lines[1:])]
