# SPDX-License-Identifier: Apache-2.0
"""The verb `top`.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from stoker.native.errors import BadRequest
from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option
from stoker.tui.render import text

if TYPE_CHECKING:
    from stoker.mesh.client.client import Client
    from stoker.tui.top.browser import Browser
    from stoker.tui.top.marks import Marks
    from stoker.tui.top.reader import Reader, Wanted
    from stoker.tui.top.replay import RecordingReplay

THEMES = ("dark", "light", "high-contrast", "mono")
IN_A_PIPE = ("cluster", "devices", "jobs")
"""The views that a pipe gets when none is named."""


class TopOptions(NamedTuple):
    """The options of `top`."""

    view: str
    subject: str
    interval: float
    once: bool
    plain: bool
    readonly: bool
    theme: str
    ascii: bool
    state: str | None
    replay: Path | None = None
    at_s: float | None = None


@click.command("top")
@click.argument("view", default="")
@click.argument("subject", default="")
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=1.0,
    show_default=True,
    help="Seconds between two readings.",
)
@click.option("--once", is_flag=True, help="Print the view once as text and exit.")
@click.option("--plain", is_flag=True, help="Print the view as lines of text at each interval.")
@click.option("--readonly", is_flag=True, help="Refuse every key that changes something.")
@click.option("--theme", type=click.Choice(THEMES), default="dark", show_default=True,
              help="Colours; NO_COLOR uses mono.")  # fmt: skip
@click.option("--ascii", "only_ascii", is_flag=True, help="Draw with ASCII characters alone.")
@click.option("--replay", type=click.Path(path_type=Path), metavar="FILE",
              help="Show a recording in place of the cluster.")  # fmt: skip
@click.option("--at", "at_s", type=SPAN, help="Begin a replay so long after its start, as 90s.")
@node_option
def top_command(
    *, view: str, subject: str, interval: float, once: bool, plain: bool, readonly: bool,
    theme: str, only_ascii: bool, state: str | None, replay: Path | None, at_s: float | None,
) -> None:  # fmt: skip
    """Watch the cluster, a node, a device, jobs, users, events live; `?` has the keys, `q` quits.

    VIEW is a view to begin with, such as jobs, and SUBJECT what it is about, such as a node.
    """
    once = once or not (sys.stdout.isatty() or plain)
    if at_s is not None and replay is None:
        raise BadRequest("--at is a moment of a recording: name one with --replay FILE")
    wish = TopOptions(
        view, subject, interval, once, plain, readonly, theme, only_ascii, state, replay, at_s
    )
    asyncio.run(_replay(wish, replay) if replay is not None else _top(wish))


async def _replay(wish: TopOptions, path: Path) -> None:
    """Show a recording, or print a view as it was at one moment of it: by default at its end."""
    from stoker.mesh.recording.recording_file import RecordingFile
    from stoker.tui.top.replay import RecordingReplay

    _browser(wish)
    file = RecordingFile.open(path)
    at_ns = file.last_ns if wish.once or wish.plain else file.first_ns
    if wish.at_s is not None:
        at_ns = file.first_ns + int(wish.at_s * 1e9)
    source = RecordingReplay(file, at_ns, playing=not (wish.once or wish.plain))
    if wish.once or wish.plain:
        await _print(wish._replace(once=True), source, source)
    else:
        await _show(wish, None, source, source)


async def _top(wish: TopOptions) -> None:
    from stoker.mesh.client.client import Client
    from stoker.tui.top.reader import Reader

    _browser(wish)  # a wrong view is refused before anything is connected
    async with Client.open(wish.state, patience_s=1.0) as client:
        reader = Reader(client, wish.interval)
        if wish.once or wish.plain:
            await _print(wish, reader, None)
        else:
            await _show(wish, client, reader, None)


def _browser(wish: TopOptions, view: str = "") -> Browser:
    from stoker.tui.top.browser import Browser
    from stoker.tui.top.views.catalogue import START, VIEWS
    from stoker.tui.top.visit import Visit

    browser = Browser(
        VIEWS, [Visit(VIEWS[START])], readonly=wish.readonly, replay=wish.replay is not None
    )
    if name := view or wish.view:
        browser.go(f"{name} {wish.subject}")
        if browser.said:
            raise BadRequest(browser.said)
        del browser.visits[: len(browser.visits) - 1]
    return browser


def _marks(wish: TopOptions) -> Marks:
    from stoker.tui.top.marks import ASCII, UNICODE

    can = text.encodable(sys.stdout) and os.environ.get("TERM") != "dumb"
    return UNICODE if can and not wish.ascii else ASCII


async def _print(
    wish: TopOptions, reader: Reader | RecordingReplay, replay: RecordingReplay | None
) -> None:
    """Print the view as text, once or at each interval."""
    from stoker.tui.top import plain
    from stoker.tui.top.frame import Scene
    from stoker.tui.top.lines import Look

    names = IN_A_PIPE if not wish.view and wish.once else (wish.view,)
    while True:
        for name in names:
            browser = _browser(wish, name)
            reader.want(_wanted(browser))
            await reader.once()
            now_ns = time.time_ns() if replay is None else replay.now_ns()
            clock = replay.replayed if replay is not None else None
            scene = Scene(reader.answers, reader.service, Look(now_ns, _marks(wish)), clock)
            said = plain.lines(browser, scene, text.columns(sys.stdout))
            text.show("\n".join(said) + "\n" + ("\n" if len(names) > 1 or not wish.once else ""))
        if wish.once:
            return
        sys.stdout.flush()
        await asyncio.sleep(wish.interval)


def _wanted(browser: Browser) -> Wanted:
    from stoker.tui.top.reader import Wanted
    from stoker.tui.top.view import EVERYWHERE

    visit = browser.visit
    return Wanted((*EVERYWHERE, *visit.view.needs), visit.subject, visit.subject)


async def _show(
    wish: TopOptions,
    client: Client | None,
    reader: Reader | RecordingReplay,
    replay: RecordingReplay | None,
) -> None:
    """Run the live view until a key quits it."""
    from stoker.tui.top import changes, theme
    from stoker.tui.top.browser import ViewChange
    from stoker.tui.top.screen import Top, calm_collector

    async def act(change: ViewChange) -> str:
        assert client is not None, "a replay refuses every change"
        return await changes.carry_out(client, change)

    def shell(job: str) -> None:
        changes.open_shell(wish.state or os.environ.get("STOKER_STATE"), job)

    calm_collector()
    chosen = theme.chosen(wish.theme, os.environ)
    top = Top(reader, _browser(wish), _marks(wish), chosen, act=act, shell=shell, replay=replay)
    await top.run_async(mouse=False)
