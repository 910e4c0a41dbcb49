# SPDX-License-Identifier: Apache-2.0
"""Lines of generated Python: heads, docstrings and lists that end before column 100."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

COLUMNS: Final = 100
UNSORTED: Final = ("# ruff: noqa: I001",)
"""A comment that lets the linter accept generated imports, which are not sorted."""


def head(says: str, imports: Iterable[str], notes: Iterable[str] = ()) -> list[str]:
    """Return the first lines of a generated module; `notes` are comments for a checker."""
    lines = ["# SPDX-License-Identifier: Apache-2.0", "# fmt: off", *notes, *docstring(says, "")]
    return [*lines, "", "from __future__ import annotations", "", *imports, ""]


def docstring(text: str, indent: str) -> list[str]:
    """A docstring of one paragraph, or of several that are separated by an empty line."""
    text = text.replace('"""', "'''")
    if len(indent) + len(text) + 6 <= COLUMNS and "\n\n" not in text:
        return [f'{indent}"""{text}"""']
    first, *rest = text.split("\n\n")
    lines = textwrap.wrap(f'"""{first}', COLUMNS - len(indent))
    for paragraph in rest:
        lines += ["", *textwrap.wrap(paragraph, COLUMNS - len(indent))]
    if len(lines) == 1 or len(indent) + len(lines[-1]) + 3 > COLUMNS or rest:
        lines.append('"""')
    else:
        lines[-1] += '"""'
    return [indent + line if line else "" for line in lines]


def sentence(text: str) -> str:
    """Return the text with a capital and a full stop."""
    text = text.strip()
    if not text:
        return ""
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?" else f"{text}."


def listed(before: str, items: Iterable[str], after: str, indent: str) -> list[str]:
    """`before`, the items with commas, `after`: on one line where they fit."""
    items = list(items)
    whole = f"{indent}{before}{', '.join(items)}{after}"
    if len(whole) <= COLUMNS:
        return [whole]
    lines = [f"{indent}{before}"]
    line = ""
    for item in _in_pieces(items):
        if line and len(indent) + 4 + len(line) + len(item) + 2 > COLUMNS:
            lines.append(f"{indent}    {line.rstrip()}")
            line = ""
        line += f"{item}, "
    return [*lines, f"{indent}    {line.rstrip()}", f"{indent}{after}"]


def _in_pieces(items: Iterable[str]) -> Iterator[str]:
    """Yield the items; one that is longer than a line comes in several pieces."""
    for item in items:
        yield from item.split(", ") if len(item) > COLUMNS - 12 else (item,)


def joined(lines: Iterable[str]) -> str:
    """The text of a file."""
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).rstrip("\n") + "\n"
