# SPDX-License-Identifier: Apache-2.0
"""Each view has its needs, its lines, its rows, and a view to which enter leads.

Values and pure functions. The browser knows no single view, and the reader sends the requests that
the shown view needs and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from stoker.tui.top.answers import Answers, Need
from stoker.tui.top.lines import Line, Look, Tone
from stoker.tui.top.table import ViewColumn

EVERYWHERE: Final[tuple[Need, ...]] = ("alert_counts",)
"""The needs of every view, for the first line."""


def _nothing(answers: Answers, subject: str, look: Look) -> list[Line]:
    return []


def _no_subject(item: Any) -> str:
    return ""


def _itself(item: Any) -> Any:
    return item


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One view. Its rows are items of a table with columns, or whole lines if it has none."""

    name: str
    title: str
    says: str
    """One line of help."""
    needs: tuple[Need, ...]
    items: Callable[[Answers, str], Sequence[Any]] | None = None
    """(answers, subject) -> items of the table; the same answers give the same object."""
    lines: Callable[[Answers, str, Look], list[Line]] | None = None
    """(answers, subject, look) -> the lines of a view without a table."""
    head: Callable[[Answers, str, Look], list[Line]] = _nothing
    foot: Callable[[Answers, Any, Look], list[Line]] | None = None
    """(answers, item under the cursor, look) -> lines below the table."""
    foot_rows: int = 0
    columns: tuple[ViewColumn[Any], ...] = ()
    key: Callable[[Any], str] = str
    """The identity of an item, on which the cursor stays through updates."""
    text: Callable[[Any], str] = str
    """The words of an item that a filter looks at."""
    tone: Callable[[Any, Answers, Look], Tone] = msgspec.field(
        default=lambda item, answers, look: ""
    )
    empty: str = "nothing"
    subject: str = ""
    """The kind of its subject: `job`, `node`, `device`; empty for a view of the whole cluster."""
    into: str = ""
    """The view that enter opens."""
    into_of: Callable[[Any], str] = _no_subject
    """The view that enter opens for an item for which it is another one."""
    into_subject: Callable[[Any], str] = _no_subject
    job: Callable[[Any], str] = _no_subject
    """The number of the job that an item stands for, if it stands for one."""
    several: Callable[[Any], str] = _no_subject
    """The jobs that an item stands for, `5-14`, if they are several: cancel is about all."""
    node: Callable[[Any], str] = _no_subject
    device: Callable[[Any], str] = _no_subject
    """The device that an item stands for, as `node:device`."""
    alert: Callable[[Any], str] = _no_subject
    """The alert that an item stands for, as `node:aN`, while it fires."""
    object: Callable[[Any], Any] = _itself
    """The item as it is shown as JSON."""
    ends: bool = False
    """True if it opens at its end and follows it, as output does."""
    cursor_needs: tuple[Need, ...] = ()
    """Needs about the item under the cursor, beside those about the subject."""
