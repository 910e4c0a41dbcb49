# SPDX-License-Identifier: Apache-2.0
"""The verb `trace`: writes a job's timeline or a window of it, and sets a running job's mode.

Everything heavy is imported inside the verb.
"""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stoker.tui.commands.replies import show_one
from stoker.tui.options import completion
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import nouns, tables

if TYPE_CHECKING:
    from stoker.mesh.client.client import Client
    from stoker.mesh.wire import schema
    from stoker.tui.render.columns import Noun, Row

MODES = ("dormant", "governed", "full")


@click.command("trace")
@click.argument("job", default="last", shell_complete=completion.jobs)
@click.option("--for", "span", metavar="TIME", help="Trace fully for this time from now: 5s, 2m.")
@click.option("--mode", type=click.Choice(MODES), help="Tracing mode from now on, or with "
              "--for in the window.")  # fmt: skip
@click.option("--status", is_flag=True, help="Show how the job is traced.")
@click.option("--rank", type=click.IntRange(0), default=0, help="This rank of a gang, not rank 0.")
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@node_option
@output_option("table", file="--file FILE")
def trace_command(
    *,
    job: str,
    span: str | None,
    mode: Any,
    status: bool,
    rank: int,
    file: Path | None,
    state: str | None,
    output: tables.Output,
) -> None:
    """Write a job's timeline as a Perfetto file; open it at https://ui.perfetto.dev.

    With --for, trace a running job fully for that time and write only that window. Ctrl-C ends
    the window early and keeps what was recorded.
    """
    from stoker.native.errors import BadRequest
    from stoker.tui.options import quantity_parser

    if status and (span or mode or file):
        raise BadRequest("--status goes with no other option: it changes and writes nothing")
    if mode and not span and file:
        raise BadRequest("--mode alone writes no file; with --for it is the mode of the window")
    seconds = quantity_parser.seconds(span, "--for") if span else 0.0
    told = asyncio.run(_trace(state, _Asked(job, rank, seconds, mode, status, file)))
    show_one(told.noun, told.row, output, lambda: "".join(f"{line}\n" for line in told.page))


class _Asked(NamedTuple):
    job: str
    rank: int
    seconds: float
    mode: Any
    status: bool
    file: Path | None


class _Told(NamedTuple):
    """The outcome: as a row of a noun, and as lines of text."""

    noun: Noun
    row: Row
    page: list[str]


async def _trace(state: str | None, asked: _Asked) -> _Told:
    from stoker.mesh.client.client import Client
    from stoker.mesh.wire import schema
    from stoker.tui.calls import timeline, views

    async with Client.open(state) as client:
        number = await _number(client, asked.job)
        rank = f"-rank-{asked.rank}" if asked.rank else ""
        path = asked.file or Path(f"job-{number}{rank}.perfetto-trace")
        if asked.seconds:
            return await _window(client, number, asked, path)
        if asked.status or asked.mode:
            request = schema.TracingRequest(
                job=number,
                do="mode" if asked.mode else "look",
                mode=asked.mode or "full",
                rank=asked.rank,
            )
            view = await client.tracing(request)
            return _Told(nouns.TRACINGS, views.part(view), lines(view))
        size = await timeline.save(client, number, path, rank=asked.rank)
        row = {"file": str(path), "job": number, "rank": asked.rank, "size_bytes": size}
        return _Told(nouns.TIMELINES, row, [f"{path} ({size} bytes)"])


async def _number(client: Client, job: str) -> int:
    from stoker.native.errors import BadRequest
    from stoker.tui.calls import selected_jobs
    from stoker.tui.options import selectors

    chosen = selectors.parse(job)
    found = [] if chosen.all else await selected_jobs.numbers(client, chosen, job)
    if len(found) != 1:
        raise BadRequest(f"{job!r}: a timeline is of one job")
    return found[0]


async def _window(client: Client, job: int, asked: _Asked, path: Path) -> _Told:
    from stoker.tui.calls import timeline, views, windows

    early, seconds, rank = asyncio.Event(), asked.seconds, asked.rank
    mode: schema.Steered = asked.mode or "full"
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)  # a second one ends at once
        click.echo("ending the window", err=True)
        early.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        click.echo(f"job {job}: {mode} for {seconds:g} s; Ctrl-C ends it early", err=True)
        window = await windows.record(client, job, seconds, early, mode=mode, rank=rank)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    size = await timeline.save(client, job, path, window=window.window, rank=rank)
    took = ((window.to_ns or window.from_ns) - window.from_ns) / 1e9
    said = [f"{path} ({size} bytes): {window.records} records in {took:.3f} s"]
    if window.records_lost:
        said.append(f"{window.records_lost} older records of the window are not in it: it was long")
    row = {"file": str(path), "job": job, "rank": rank, "size_bytes": size}
    return _Told(nouns.TIMELINES, {**row, "window": views.part(window)}, said)


def lines(view: schema.TracingView) -> list[str]:
    """The tracing of a job as lines of text."""
    budget = f", budget {view.budget_ppm / 1e4:g} % of its time" if view.mode == "governed" else ""
    said = [f"job {view.job} on {view.node}: {view.mode}{budget}"]
    if view.wanted != view.mode:
        said.append(f"now {view.wanted}")
    if view.reason:
        said.append(f"governor: {view.reason}")
    if view.window is not None:
        window = view.window
        said.append(f"window of {window.seconds:g} s by {window.by}: {window.state}")
    said += [_tracer(each) for each in view.tracers] or ["no process has a tracer yet"]
    return said


def _tracer(tracer: schema.TracerView) -> str:
    notes = [
        f"held by {tracer.holder}" if tracer.holder else "",
        f"{tracer.switches} switches" if tracer.switches else "",
        f"{tracer.switches_late} put off" if tracer.switches_late else "",
        f"{tracer.pinned} queues cannot be switched" if tracer.pinned else "",
    ]
    told = ", ".join(note for note in notes if note)
    return f"process {tracer.pid}: {tracer.tracer} {tracer.mode}{f' ({told})' if told else ''}"
