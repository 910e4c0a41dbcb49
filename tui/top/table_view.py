# SPDX-License-Identifier: Apache-2.0
"""A table that paints only the lines on the screen, whatever the number of rows.

Textual's DataTable measures and stores each cell, which takes 0.3 ms a row at every refill. Here
rows are plain tuples of the caller, and a frame of a 160 x 50 terminal takes a few milliseconds
with ten rows or a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip


class ViewColumn(NamedTuple):
    """One column: its heading, its width in cells, and its alignment."""

    title: str
    width: int
    right: bool = False


class ViewRow(NamedTuple):
    """One line: a key that identifies the row across updates, and one text per column."""

    key: str
    cells: tuple[str, ...]
    tone: str = ""
    """The colour: `good`, `bad`, `dim` or empty; the text says the same."""


TONES = {
    "": Style.null(),
    "good": Style(color="green"),
    "bad": Style(color="red", bold=True),
    "dim": Style(dim=True),
}
HEADING = Style(bold=True, underline=True)
CURSOR = Style(reverse=True)
GAP = "  "


class TableView(ScrollView, can_focus=True):
    """Rows under a heading, with a cursor that stays on the key of its row through updates."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "move_to(0)", "first", show=False),
        Binding("end,G", "move_to(-1)", "last", show=False),
    ]
    DEFAULT_CSS = """
    TableView { height: 1fr; border: round $panel; padding: 0 1; }
    TableView:focus { border: round $accent; }
    """

    cursor: reactive[int] = reactive(0)

    def __init__(self, columns: Sequence[ViewColumn], *, empty: str, id: str | None = None) -> None:
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.empty = empty
        self.rows: Sequence[ViewRow] = ()
        self._width = sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)

    def show(self, rows: Sequence[ViewRow]) -> None:
        """Replace all rows; repaints only the screen lines whose row changed."""
        before, self.rows = self.rows, rows
        if before and self.cursor < len(before):
            key = before[self.cursor].key
            found = next((i for i, row in enumerate(rows) if row.key == key), None)
            self.cursor = min(self.cursor, max(0, len(rows) - 1)) if found is None else found
        if len(before) != len(rows):
            self.virtual_size = Size(self._width, len(rows) + 1)
            self.refresh(layout=True)
            return
        for index in self._visible():
            if before[index] != rows[index]:
                self._refresh_row(index)

    @property
    def selected(self) -> ViewRow | None:
        """The row under the cursor, or None when the table is empty."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def render_line(self, y: int) -> Strip:
        """One screen line: the heading stays, the rows scroll below it."""
        scroll_x, scroll_y = self.scroll_offset
        width = self.scrollable_content_region.width
        if y == 0:
            strip = self._line([column.title for column in self.columns], HEADING)
        else:
            strip = self._row_line(scroll_y + y - 1)
        return strip.crop_extend(scroll_x, scroll_x + width, None)

    def _row_line(self, index: int) -> Strip:
        if index >= len(self.rows):
            text = self.empty if not self.rows and index == 0 else ""
            return Strip([Segment(text, TONES["dim"])])
        row = self.rows[index]
        style = TONES[row.tone]
        if index == self.cursor and self.has_focus:
            style += CURSOR
        return self._line(row.cells, style)

    def _line(self, cells: Sequence[str], style: Style) -> Strip:
        texts = [_fit(text, column) for text, column in zip(cells, self.columns, strict=True)]
        return Strip([Segment(GAP.join(texts), style)])

    def _visible(self) -> range:
        top = self.scroll_offset.y
        return range(top, min(len(self.rows), top + max(0, self.size.height - 1)))

    def _refresh_row(self, index: int) -> None:
        y = index - self.scroll_offset.y + 1
        self.refresh(Region(0, y, self.size.width, 1))

    def watch_cursor(self, before: int, after: int) -> None:
        """Keep the cursor on the screen and repaint the two rows it moved between."""
        self._refresh_row(before)
        self._refresh_row(after)
        # Scroll after the refresh, because new rows may not be laid out yet.
        self.call_after_refresh(self._scroll_to_cursor)

    def _scroll_to_cursor(self) -> None:
        if self.cursor < self.scroll_offset.y:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= self.scroll_offset.y + self.size.height - 1:
            self.scroll_to(y=self.cursor - self.size.height + 2, animate=False)

    def on_focus(self) -> None:
        """Show the cursor."""
        self._refresh_row(self.cursor)

    def on_blur(self) -> None:
        """Hide the cursor."""
        self._refresh_row(self.cursor)

    def action_move(self, by: int) -> None:
        """Move the cursor by some rows, stopping at both ends."""
        self.cursor = max(0, min(len(self.rows) - 1, self.cursor + by))

    def action_page(self, by: int) -> None:
        """Move the cursor by screens."""
        self.action_move(by * max(1, self.size.height - 2))

    def action_move_to(self, index: int) -> None:
        """Move the cursor to a row; -1 is the last."""
        self.cursor = max(0, len(self.rows) - 1) if index < 0 else index


def _fit(text: str, column: ViewColumn) -> str:
    # Control characters in a job's name must not reach the terminal.
    clean = "".join(char if char.isprintable() else "?" for char in text)
    if cell_len(clean) > column.width:
        return set_cell_size(clean, column.width - 1) + "…"
    return (
        " " * (column.width - cell_len(clean)) + clean
        if column.right
        else set_cell_size(clean, column.width)
    )
