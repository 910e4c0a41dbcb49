# SPDX-License-Identifier: Apache-2.0
"""`stoker top`: nodes, devices, jobs and kernels live in one terminal; `q` quits.

One more subscriber: it asks the same subjects as the command line and holds no state but the last
answer. A worker reads, the frame timer paints; a broken answer is shown and never ends the view.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from stoker.native.errors import StokerError
from stoker.tui.top.table_view import TableView
from stoker.tui.top.top_model import TABLES, Frame

Reader = Callable[[], Awaitable[Frame]]
"""Asks the cluster once; raises StokerError when it cannot."""


class Top(App[None]):
    """Four tables under a headline; Tab walks them, space pauses."""

    TITLE = "stoker top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("space", "pause", "pause"),
        Binding("tab", "app.focus_next", "next table"),
        Binding("1", "go('nodes')", "nodes", show=False),
        Binding("2", "go('devices')", "devices", show=False),
        Binding("3", "go('jobs')", "jobs", show=False),
        Binding("4", "go('kernels')", "kernels", show=False),
    ]
    CSS = """
    #headline { height: 1; padding: 0 1; background: $panel; }
    #nodes { height: 1fr; min-height: 5; }
    #devices { height: 2fr; min-height: 5; }
    #jobs, #kernels { height: 2fr; }
    """

    def __init__(self, read: Reader, *, period_s: float = 1.0) -> None:
        super().__init__()
        self._read = read
        self._period_s = period_s
        self.paused = False

    def compose(self) -> ComposeResult:
        """Headline, four tables, key line."""
        yield Static("connecting ...", id="headline", markup=False)
        for name, layout in TABLES.items():
            table = TableView(layout.columns, empty=layout.empty, id=name)
            table.border_title = name
            yield table
        yield Footer()

    def on_mount(self) -> None:
        """Start with the jobs under the cursor, and read at once."""
        self.query_one("#jobs").focus()
        self.refresh_now()
        self.set_interval(self._period_s, self._tick)

    def _tick(self) -> None:
        if not self.paused:
            self.refresh_now()

    @work(exclusive=True)
    async def refresh_now(self) -> None:
        """Read once and show it; what cannot be read is said in the headline."""
        try:
            frame = await self._read()
        except StokerError as error:
            self.say(f"no answer: {error.message} (the tables show the last one)")
            return
        self.paint(frame)

    def paint(self, frame: Frame) -> None:
        """Show one frame."""
        with self.batch_update():
            self.say(frame.headline)
            for name, rows in frame.tables.items():
                self.query_one(f"#{name}", TableView).show(rows)

    def say(self, text: str) -> None:
        """Set the headline."""
        self.query_one("#headline", Static).update(f"{text}  [paused]" if self.paused else text)

    def action_pause(self) -> None:
        """Stop or resume reading; the tables stay as they are."""
        self.paused = not self.paused
        if self.paused:
            self.say("paused, space resumes")
        else:
            self.refresh_now()

    def action_go(self, name: str) -> None:
        """Put the cursor into one table."""
        self.query_one(f"#{name}").focus()
