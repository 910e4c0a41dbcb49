# SPDX-License-Identifier: Apache-2.0
"""The line of a TOML text at which a key is given.

tomllib tells no places, so the text is parsed up to a line: a key is given in the first statement
with which it is there. Pure. Invariant: a line that is told is right; else 0 is told.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
LINES_MAX = 4000
"""Places of longer texts are not looked for."""


def dotted(path: tuple[str | int, ...]) -> str:
    """Return the keys of a path as TOML spells them; items of a list count from 1."""
    said = ""
    for each in path:
        if isinstance(each, int):
            said += f"[{each + 1}]"
        else:
            name = each if _BARE.fullmatch(each) else json.dumps(each)
            said += f".{name}" if said else name
    return said


def of(text: str, path: tuple[str | int, ...]) -> int:
    """Return the line, from 1, at which the statement begins that gives this key; 0 if it is not
    found. An item that is written inside of a list has the line of the list."""
    lines = text.splitlines()
    names = [each for each in path if isinstance(each, str)]
    if not names or len(lines) > LINES_MAX:
        return 0
    for index, line in enumerate(lines):
        if names[-1] not in line:
            continue
        before = _parsed(lines[:index])
        if before is None or _has(before, path):
            continue  # inside of a text over several lines, or a later mention
        if _begun(lines[index:], lines[:index], path):
            return index + 1
    return 0


def _begun(rest: list[str], before: list[str], path: tuple[str | int, ...]) -> bool:
    """True if the statement with which `rest` begins gives the key."""
    for length in range(1, len(rest) + 1):
        tables = _parsed([*before, *rest[:length]])
        if tables is not None:
            return _has(tables, path)
    return False


def _parsed(lines: list[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return None


def _has(tables: Any, path: tuple[str | int, ...]) -> bool:
    for each in path:
        try:
            tables = tables[each]
        except (KeyError, IndexError, TypeError):
            return False
    return True
