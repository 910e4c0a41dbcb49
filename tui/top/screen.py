# SPDX-License-Identifier: Apache-2.0
"""The application of `stoker top`: keys in, frames out, on one widget of Textual's Line API.

A shell without decisions: `browser.py` says what a key does, `frame.py` what is shown. Owns the
pace: a frame is painted when something changed and the terminal has taken the one before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from stoker.native.errors import StokerError
from stoker.tui.top.answers import Answers, ServerState
from stoker.tui.top.browser import Browser, Effect, OpenShell, Quit, ReadNow, Seek, ViewChange
from stoker.tui.top.clock import Replayed
from stoker.tui.top.frame import Scene, frame
from stoker.tui.top.lines import Line, Look
from stoker.tui.top.marks import Marks
from stoker.tui.top.reader import Wanted
from stoker.tui.top.terminal import FrameWriter, TopDriver
from stoker.tui.top.theme import THEMES, Theme, ToneInk
from stoker.tui.top.view import EVERYWHERE

FRAME_S = 0.1
"""The time between two looks whether a frame is due."""
CLOCK_S = 0.5
"""A frame is painted at least this often, because ages grow; so stale data is marked in time."""


class AnswerSource(Protocol):
    """Where the screen's answers come from; `reader.Reader` is one."""

    answers: Answers
    service: ServerState
    changed: Callable[[], None]

    def want(self, wanted: Wanted) -> None:
        """Say what is shown."""

    def hurry(self) -> None:
        """Let everything be read at the next `start`."""

    def start(self) -> Sequence[Any]:
        """Send the requests that are due."""

    async def close(self) -> None:
        """End the open requests."""


class SeekSource(Protocol):
    """A source whose time a person moves; `replay.RecordingReplay` is one."""

    @property
    def replayed(self) -> Replayed:
        """The clock as it is shown."""

    def now_ns(self) -> int:
        """Return the moment that is shown."""

    def seek(self, seek: Seek) -> str:
        """Go to another moment; return what to say of it."""


Act = Callable[[ViewChange], Awaitable[str]]
"""Carries out a confirmed change; returns what became of it in one line."""


class Canvas(Widget, can_focus=True):
    """The whole terminal: it paints the lines that it was given, and only those that changed."""

    DEFAULT_CSS = "Canvas { width: 100%; height: 100%; }"

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.lines: list[Line] = []
        self._styles = {tone: _style(ink) for tone, ink in theme.items()}

    def show(self, lines: list[Line]) -> None:
        """Paint the lines that differ from those on the screen."""
        before, self.lines = self.lines, lines
        if len(before) != len(lines):
            self.refresh()
            return
        changed = [y for y, each in enumerate(lines) if each != before[y]]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, count) for y, count in runs(changed)))

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        spans: Line = self.lines[y] if y < len(self.lines) else ()
        styles = self._styles
        strip = Strip([Segment(words, styles[tone]) for words, tone in spans])
        return strip.adjust_cell_length(self.size.width, styles[""])

    def selection_updated(self, selection: Any) -> None:
        """Do nothing: text is selected by the terminal, which gets no mouse requests."""


def runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of numbers that follow each other, because each region costs."""
    first = count = 0
    for number in numbers:
        if count and number == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = number, 1
    if count:
        yield first, count


def calm_collector() -> None:
    """Let Python's collector of cycles run seldom, and never through what was imported.

    Answers hold no cycles; to look through thousands of them takes longer than a frame.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Call a function in the loop, unless that has ended."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(function)


def _style(ink: ToneInk) -> Style:
    return Style(
        color=ink.colour or None, bgcolor=ink.ground or None, bold=ink.bold or None,
        dim=ink.dim or None, reverse=ink.reverse or None, underline=ink.underline or None,
    )  # fmt: skip


class Top(App[None]):
    """The live view."""

    TITLE = "stoker top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = []  # noqa: RUF012
    CSS = "Screen { overflow: hidden; }"

    def __init__(
        self, source: AnswerSource, browser: Browser, marks: Marks, theme: str = "dark", *,
        act: Act | None = None, shell: Callable[[str], None] | None = None,
        now_ns: Callable[[], int] = time.time_ns, replay: SeekSource | None = None,
    ) -> None:  # fmt: skip
        super().__init__(driver_class=TopDriver, ansi_color=True)
        self.source, self.browser, self.marks = source, browser, marks
        self._act, self._open_shell = act, shell
        self._now_ns = now_ns if replay is None else replay.now_ns
        self._replay = replay
        self.canvas = Canvas(THEMES[theme])
        self._due = True
        self._waits = False
        self._open_changes, self._quits = 0, False
        self._last_said: list[str] = []
        self._painted = 0.0
        self.skipped_frames = 0
        """Frames that were not painted, because the terminal had not taken the one before."""

    def compose(self) -> ComposeResult:
        """Return the only widget."""
        yield self.canvas

    def on_mount(self) -> None:
        """Read at once, and look every FRAME_S whether a frame is due."""
        self.canvas.focus()
        self.source.changed = self.changed
        self._watch_writer()
        self.set_interval(FRAME_S, self.tick)
        self.tick()

    def _watch_writer(self) -> None:
        if self.writer is not None:
            loop = asyncio.get_running_loop()
            self.writer.on_clear = lambda: _call(loop, self.cleared)

    async def on_unmount(self) -> None:
        """End the open requests."""
        await self.source.close()

    def changed(self) -> None:
        """Say that there is something new to show."""
        self._due = True

    def tick(self) -> None:
        """Send what is due to be read, and paint if anything changed."""
        if not self.browser.paused:
            self.source.want(self.wanted())
            self.source.start()
        if self._due or time.monotonic() - self._painted > CLOCK_S:
            self.paint()

    def wanted(self) -> Wanted:
        """Return what the shown view needs to be read."""
        visit = self.browser.visit
        view = visit.view
        explained = ""
        if "explain" in view.needs:
            explained = visit.subject
        elif "explain" in view.cursor_needs:
            explained = self.browser.job_of(self.browser.under_cursor(self.source.answers))
        needs = (*EVERYWHERE, *view.needs, *view.cursor_needs)
        return Wanted(needs, visit.subject, explained)

    def paint(self) -> None:
        """Paint the newest frame, unless the terminal still takes the one before."""
        if not self.is_clear():
            self.skipped_frames += 1
            self._due = self._waits = True
            return
        self._due, self._waits, self._painted = False, False, time.monotonic()
        self.canvas.show(self.frame())

    def cleared(self) -> None:
        """Paint what had to wait for the terminal, now that it has taken everything."""
        if self._waits:
            self.paint()

    def frame(self) -> list[Line]:
        """Return the frame for this moment."""
        columns, rows = self.size
        look = Look(self._now_ns(), self.marks, max(columns, 1), max(rows, 1))
        replayed = self._replay.replayed if self._replay is not None else None
        scene = Scene(self.source.answers, self.source.service, look, replayed)
        return frame(self.browser, scene)

    @property
    def writer(self) -> FrameWriter | None:
        """The thread that writes to the terminal, if there is a terminal."""
        return self._driver.writer if isinstance(self._driver, TopDriver) else None

    def is_clear(self) -> bool:
        """Return True if the terminal has taken all that was painted."""
        return self.writer is None or self.writer.is_clear()

    # --- events ----------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Take keys before Textual's own bindings can; the rest is Textual's."""
        if isinstance(event, events.Key):
            event.stop()
            event.prevent_default()
            self.take(event)
            return
        await super().on_event(event)

    def take(self, event: events.Key) -> None:
        """Press one key and show what it does."""
        effects = self.browser.press(event.key, event.character, self.source.answers)
        for effect in effects:
            self._carry_out(effect)
        self._due = True
        self.tick()

    def on_resize(self, event: events.Resize) -> None:
        """Paint anew at another size, whatever is on its way."""
        self.canvas.show([])
        self.changed()
        self.call_after_refresh(self.paint)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Quit):
            self._quit()
        elif isinstance(effect, ReadNow):
            self.source.hurry()
        elif isinstance(effect, OpenShell):
            self._shell(effect.job)
        elif isinstance(effect, Seek):
            self.browser.said = self._replay.seek(effect) if self._replay is not None else ""
        elif self._act is not None:
            self._open_changes += 1
            self.run_worker(self._change(effect))

    def _quit(self) -> None:
        """Exit once every confirmed change was answered; the second time, at once."""
        if self._quits or not self._open_changes:
            self.exit()
        else:
            self._quits = True
            self.browser.said = "quits when the change was answered; q quits at once"

    async def _change(self, change: ViewChange) -> None:
        """Send a confirmed change and say what became of it, below the view if that has ended."""
        assert self._act is not None
        try:
            self.browser.said = await self._act(change)
        except StokerError as error:
            self.browser.said = str(error)
        self._open_changes -= 1
        if self._quits:
            self._last_said.append(self.browser.said)
            if not self._open_changes:
                self.exit(message="\n".join(self._last_said))
        self.source.hurry()
        self.changed()

    def _shell(self, job: str) -> None:
        if self._open_shell is None:
            return
        with self.suspend():
            self._open_shell(job)
        self._watch_writer()  # it is another one now
        self.canvas.show([])
        self.changed()
