# SPDX-License-Identifier: Apache-2.0
"""`stoker top`: nodes, devices, jobs and kernels live in one terminal; `q` quits.

It sends the requests of the other verbs and keeps only the last answer. A timer starts a worker
that reads; a failed read is shown in the headline and never ends the view.
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
"""A function that reads the cluster once; raises StokerError if it cannot."""


class Top(App[None]):
    """Four tables under a headline; Tab moves between them, space pauses."""

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
        """Focus the jobs, read at once, and start the timer."""
        self.query_one("#jobs").focus()
        self.refresh_now()
        self.set_interval(self._period_s, self._tick)

    def _tick(self) -> None:
        if not self.paused:
            self.refresh_now()

    @work(exclusive=True)
    async def refresh_now(self) -> None:
        """Read once and show the frame; the headline tells of a failure."""
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
        """Focus one table."""
        self.query_one(f"#{name}").focus()
