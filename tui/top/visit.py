# SPDX-License-Identifier: Apache-2.0
"""One visit to a view: which of its rows are shown, in which order, and where the cursor is.

Pure. Owns that the cursor stays on its row: it is held by the row's key, not by its number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from stoker.tui.top.view import View


class Visit(msgspec.Struct, frozen=True):
    """One view as it is shown: its subject, and where the cursor is."""

    view: View
    subject: str = ""
    key: str = ""
    """The key of the item under the cursor; empty before the first frame."""
    cursor: int = 0
    offset: int = 0
    pattern: str = ""
    sort: str = ""
    down: bool = False
    follow: bool = False
    """True while it stays at its end."""


def pattern_fault(pattern: str) -> str:
    """Return what is wrong with a filter, or nothing."""
    try:
        re.compile(pattern.removeprefix("!"))
    except (re.error, RecursionError) as error:
        return str(error)
    return ""


def chosen(items: Sequence[Any], visit: Visit) -> Sequence[Any]:
    """Return the items that match the pattern, sorted by a column."""
    if visit.pattern:
        wanted = not visit.pattern.startswith("!")
        found = re.compile(visit.pattern.removeprefix("!"), re.IGNORECASE).search
        text = visit.view.text
        items = [item for item in items if (found(text(item)) is not None) == wanted]
    order = next((c.order for c in visit.view.columns if c.title == visit.sort), None)
    if order is not None:
        by = order
        known = [item for item in items if by(item) is not None]
        unknown = [item for item in items if by(item) is None]
        return sorted(known, key=by, reverse=visit.down) + unknown
    return list(reversed(items)) if visit.down else items


def place(items: Sequence[Any], visit: Visit) -> int:
    """Return the index of the item under the cursor; the old one if that item is gone."""
    key = visit.view.key
    if visit.cursor < len(items) and key(items[visit.cursor]) == visit.key:
        return visit.cursor
    return next((i for i, item in enumerate(items) if key(item) == visit.key), visit.cursor)
