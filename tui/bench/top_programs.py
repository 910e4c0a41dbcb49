# SPDX-License-Identifier: Apache-2.0
"""The programs that the benchmark of the live view runs on a terminal: ours, and a DataTable.

`python -m stoker.tui.bench.top_programs ours|datatable FOLDER HZ` shows the cluster of a folder,
which changes HZ times a second, until `q`. It leaves a line of JSON for each frame in the folder:
where in the output the frame ended, how long it took, how many keys came before it, and the lines
of ours.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

import msgspec
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable

from stoker.mesh.wire import schema
from stoker.tui.bench import top_cluster
from stoker.tui.bench.top_cluster import START_NS
from stoker.tui.top.answers import Answers, ServerState
from stoker.tui.top.browser import Browser
from stoker.tui.top.lines import Look, plain
from stoker.tui.top.marks import UNICODE
from stoker.tui.top.reader import Wanted
from stoker.tui.top.screen import Top, calm_collector
from stoker.tui.top.terminal import TopDriver
from stoker.tui.top.views import cluster
from stoker.tui.top.views.catalogue import START, VIEWS
from stoker.tui.top.visit import Visit

LOOK = Look(START_NS, UNICODE, 160, 50)
FRAMES = "frames.jsonl"
"""The file of frames in the folder."""


class FrameLog(msgspec.Struct):
    """One frame: `end` counts the characters of the output up to its end."""

    end: int
    began_s: float
    ended_s: float
    cpu_s: float
    """The processor time of it."""
    keys: int
    lines: list[Any] = []


class Feed:
    """The answers of a cluster, decoded anew at each change, as they would be from the wire."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._turn = folder, 0
        self.service = ServerState()
        self.changed: Callable[[], None] = lambda: None
        nodes: Any = schema.decode_reply("node", "list", top_cluster.load(folder, "nodes"))
        jobs: Any = schema.decode_reply("job", "list", top_cluster.load(folder, "jobs"))
        self.answers = Answers(at_ns=START_NS, nodes=nodes.nodes, jobs=jobs.jobs)
        self.change()

    def change(self) -> None:
        """Let every device have another reading."""
        data = top_cluster.load(self._folder, f"devices-{self._turn % top_cluster.VARIANTS}")
        self._turn += 1
        found: Any = schema.decode_reply("device", "list", data)
        self.answers = msgspec.structs.replace(self.answers, devices=found.devices)
        self.changed()

    def want(self, wanted: Wanted) -> None:
        """Do nothing: everything is there."""

    def hurry(self) -> None:
        """Do nothing: everything is there."""

    def start(self) -> Sequence[Any]:
        """Return nothing that is open."""
        return ()

    async def close(self) -> None:
        """Do nothing: nothing is open."""


class MeasuredTop(Top):
    """The live view, which notes each frame."""

    def __init__(self, feed: Feed, log: IO[bytes], hertz: float) -> None:
        browser = Browser(VIEWS, [Visit(VIEWS[START])])
        super().__init__(feed, browser, UNICODE, now_ns=lambda: START_NS)
        self.feed, self.frame_log, self.hertz = feed, log, hertz
        self._keys, self._began_s, self._cpu_s = 0, 0.0, 0.0

    def on_mount(self) -> None:
        """Begin to change the cluster as well."""
        super().on_mount()
        self.set_interval(1 / self.hertz, self.feed.change)

    def take(self, event: events.Key) -> None:
        """Count keys."""
        self._keys += 1
        super().take(event)

    def paint(self) -> None:
        """Note when a frame begins."""
        self._began_s, self._cpu_s = time.monotonic(), time.thread_time()
        super().paint()

    def post_display_hook(self) -> None:
        """Note a frame that was handed to the terminal."""
        if self._began_s and self.writer is not None:
            spans = [[(words, tone) for words, tone in line] for line in self.canvas.lines]
            now, cpu_s = time.monotonic(), time.thread_time() - self._cpu_s
            end = self.writer.taken
            note(self.frame_log, FrameLog(end, self._began_s, now, cpu_s, self._keys, spans))
        self._began_s = 0.0


class PeerTable(App[None]):
    """Those rows in Textual's DataTable, with update_cell for each cell that has changed."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("q", "quit", "quit")]

    def __init__(self, feed: Feed, log: IO[bytes], hertz: float) -> None:
        super().__init__(driver_class=TopDriver)
        self.feed, self.frame_log, self.hertz = feed, log, hertz
        self.skipped_frames = 0
        self._keys, self._began_s, self._cpu_s = 0, 0.0, 0.0
        self._texts: list[list[str]] = []
        self.table: DataTable[str] = DataTable(cursor_type="row")

    def compose(self) -> ComposeResult:
        """Return the table."""
        yield self.table

    def on_mount(self) -> None:
        """Fill the table and begin to change it."""
        for column in cluster.COLUMNS:
            self.table.add_column(column.title, key=column.title)
        self._texts = self._rows()
        for at, texts in enumerate(self._texts):
            self.table.add_row(*texts, key=str(at))
        self.table.focus()
        self.set_interval(1 / self.hertz, self.change)

    def _rows(self) -> list[list[str]]:
        items = VIEWS[START].items
        assert items is not None
        return [
            [_text(column.says(item, LOOK)) for column in cluster.COLUMNS]
            for item in items(self.feed.answers, "")
        ]

    def change(self) -> None:
        """Put the new readings into the cells that differ."""
        self.feed.change()
        self._began_s, self._cpu_s = time.monotonic(), time.thread_time()
        for at, texts in enumerate(self._rows()):
            for column, now, then in zip(cluster.COLUMNS, texts, self._texts[at], strict=True):
                if now != then:
                    self.table.update_cell(str(at), column.title, now)
            self._texts[at] = texts

    async def on_event(self, event: events.Event) -> None:
        """Count keys, and note when the frame of a key begins."""
        if isinstance(event, events.Key) and not event.is_forwarded:
            self._keys += 1
            if not self._began_s:
                self._began_s, self._cpu_s = time.monotonic(), time.thread_time()
        await super().on_event(event)

    def post_display_hook(self) -> None:
        """Note a frame that was handed to the terminal."""
        driver = self._driver
        if self._began_s and isinstance(driver, TopDriver) and driver.writer is not None:
            now, cpu_s = time.monotonic(), time.thread_time() - self._cpu_s
            end = driver.writer.taken
            note(self.frame_log, FrameLog(end, self._began_s, now, cpu_s, self._keys))
        self._began_s = 0.0


def _text(said: Any) -> str:
    return said if isinstance(said, str) else plain(said)


def note(log: IO[bytes], frame: FrameLog) -> None:
    """Write one frame into the log."""
    log.write(msgspec.json.encode(frame) + b"\n")


def main(program: str, folder: str, hertz: str) -> None:
    """Run a program until its end, and leave how many frames it has skipped."""
    feed = Feed(Path(folder))
    calm_collector()
    kinds: dict[str, Any] = {"ours": MeasuredTop, "datatable": PeerTable}
    with (Path(folder) / FRAMES).open("wb") as log:
        app = kinds[program](feed, log, float(hertz))
        asyncio.run(app.run_async(mouse=False))
        log.write(msgspec.json.encode({"skipped": app.skipped_frames}) + b"\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
