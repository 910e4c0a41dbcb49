# SPDX-License-Identifier: Apache-2.0
"""A view as lines of text, for a pipe, a screen reader or a log: nothing moves, and no colour.

Pure. In a width every column is cut as on the screen; without one each column is as wide as its
rows need, so that a reader can search all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.tui.render import text
from stoker.tui.top import table
from stoker.tui.top.browser import Browser
from stoker.tui.top.frame import Scene, age, alert_mark, is_sim
from stoker.tui.top.lines import Look, plain
from stoker.tui.top.table import Fitted, ViewColumn
from stoker.tui.top.view import View

WHOLE = 400
"""The width of a line without a terminal; only output of jobs is longer."""


def lines(browser: Browser, scene: Scene, width: int | None) -> list[str]:
    """Return the shown view as text, headed by its name and how old it is."""
    look = scene.look._replace(columns=width or WHOLE)
    scene = scene._replace(look=look)
    visit = browser.visit
    alarm = alert_mark(scene.answers, wide=True)
    marks = f"  {alarm.words}" if alarm is not None else ""
    marks += "  SIM" if is_sim(scene.answers) else ""
    head = f"{visit.view.title} {visit.subject}".strip()
    made = [f"{head}{marks}  {age(scene).words}"]
    if scene.replayed is not None and scene.replayed.gap:
        made.append(f"a gap of the recording: {scene.replayed.gap}")
    if scene.service.lost_ns:
        made.append(f"no answer: {scene.service.why}; this is what was read before")
    if visit.view.lines is not None:
        body = visit.view.lines(scene.answers, visit.subject, look)
        return [*made, *(look.marks.safe(plain(each)) for each in body)]
    return [*made, *_table(browser, scene, width)]


def _table(browser: Browser, scene: Scene, width: int | None) -> list[str]:
    view, look = browser.visit.view, scene.look
    head = view.head(scene.answers, browser.visit.subject, look)
    made = [look.marks.safe(plain(each)) for each in head]
    items = browser.items(scene.answers)
    columns = table.fit_columns(view.columns, width) if width else _natural(view, items, look)
    wide = look._replace(columns=max(look.columns, sum(columns.widths) + 2 * len(columns.widths)))
    made.append(plain(table.heading(columns, wide)))
    made += [plain(table.row(columns, item, wide, "")) for item in items]
    return made if items else [*made, view.empty]


def _natural(view: View, items: Sequence[Any], look: Look) -> Fitted[Any]:
    """Return all columns, each as wide as its longest cell."""
    widths = tuple(
        max([len(column.title), *(_cells(column, item, look) for item in items)])
        for column in view.columns
    )
    return Fitted(view.columns, widths)


def _cells(column: ViewColumn[Any], item: Any, look: Look) -> int:
    said = column.says(item, look)
    return text.cells(look.marks.safe(said if isinstance(said, str) else plain(said)))
