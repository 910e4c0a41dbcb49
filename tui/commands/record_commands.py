# SPDX-License-Identifier: Apache-2.0
"""The verbs `record` and `replay`: a stretch of the cluster's time in one file.

Everything heavy is imported inside the verbs.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.native.errors import BadRequest, Denied, NotFound
from stoker.tui.commands.replies import call, show_one
from stoker.tui.options.quantity import SPAN
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import nouns, tables, text

if TYPE_CHECKING:
    from stoker.mesh.recording.recording_file import RecordingFile

FILE = click.Path(path_type=Path)
LAST_S = 600.0


@click.command("record")
@click.argument("file", type=FILE)
@click.option("--last", "last_s", type=SPAN, help="The past time, such as 10m. [default: 10m]")
@click.option("--for", "for_s", type=SPAN, help="The time from now on, such as 60s.")
@click.option("--interval", type=click.FloatRange(0.1, 60), default=1.0, show_default=True,
              help="Seconds between two samples, with --for.")  # fmt: skip
@click.option("--redact", is_flag=True,
              help="Replace users, commands, hosts, names and paths by stand-ins.")  # fmt: skip
@node_option
@output_option("table", file="an argument: stoker record FILE")
def record_command(
    *, last_s: float | None, for_s: float | None, file: Path, interval: float, redact: bool,
    state: str | None, output: tables.Output,
) -> None:  # fmt: skip
    """Record what the cluster did, or does now, into FILE, which `top --replay` shows.

    The past comes from the ring of this machine's node, for its administrator. Other users record
    what the bus tells them.
    """
    if last_s is not None and for_s is not None:
        raise BadRequest("--last is about the past and --for about what comes: name one of them")
    _writable(file)
    if for_s is not None:
        data = call(_for(state, for_s, interval))
    else:
        data = _last(state, LAST_S if last_s is None else last_s)
    if redact:
        from stoker.mesh.recording import stand_ins

        data = stand_ins.redacted(data, str(file))
    _write(file, data)
    _tell(file, output)


def _last(state: str | None, seconds: float) -> bytes:
    from stoker.tui.calls import recordings

    folder = recordings.ring_folder(state)
    if folder is not None:
        return recordings.of_ring(folder, seconds, time.time_ns())
    return call(_of_bus(state, seconds))


async def _of_bus(state: str | None, seconds: float) -> bytes:
    from stoker.mesh.client.client import Client
    from stoker.tui.calls import recordings

    made = bytearray()
    async with Client.open(state) as client:
        await recordings.of_bus(client, seconds, made.extend)
    return bytes(made)


async def _for(state: str | None, seconds: float, interval: float) -> bytes:
    """Record until the time is over or a person presses Ctrl-C."""
    from stoker.mesh.client.client import Client
    from stoker.tui.calls import recordings

    made, stop = bytearray(), asyncio.Event()
    loop = asyncio.get_running_loop()
    async with Client.open(state, patience_s=0.0) as client:
        loop.add_signal_handler(signal.SIGINT, stop.set)
        click.echo(f"recording for {seconds:g} s; Ctrl-C ends it and keeps what there is", err=True)
        await recordings.for_a_while(client, seconds, interval, made.extend, stop)
    return bytes(made)


def _writable(path: Path) -> None:
    """Refuse a file that cannot be written before anything is recorded."""
    folder = path.parent
    if not folder.is_dir():
        raise NotFound(f"there is no folder {folder}")
    if path.is_dir():
        raise BadRequest(f"{path} is a folder; name a file in it")
    if not os.access(folder, os.W_OK):
        raise Denied(f"{folder} cannot be written by this user")


def _write(path: Path, data: bytes) -> None:
    """Replace a file by a whole one that its owner alone may read."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".record-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _tell(path: Path, output: tables.Output) -> None:
    from stoker.mesh.recording.recording_file import RecordingFile

    _show(RecordingFile.open(path), output, f"watch    stoker top --replay {text.clean(path)}")


@click.command("replay")
@click.argument("file", type=FILE)
@output_option("table", file="--redact COPY")
@click.option("--redact", "copy", type=FILE, metavar="COPY",
              help="Write a copy with stand-ins for users, commands, hosts, paths.")  # fmt: skip
def replay_command(file: Path, output: tables.Output, copy: Path | None) -> None:
    """Tell what a recording holds: its time, its nodes, devices and jobs, and its gaps."""
    from stoker.mesh.recording.recording_file import RecordingFile

    found = RecordingFile.open(file)
    if copy is not None:
        from stoker.mesh.recording import stand_ins

        _writable(copy)
        _write(copy, stand_ins.redacted(file.read_bytes(), str(file)))
        found = RecordingFile.open(copy)
    _show(found, output)


def _show(file: RecordingFile, output: tables.Output, *more: str) -> None:
    from stoker.tui.render import recording_page

    def page() -> str:
        return recording_page.page((*recording_page.lines(file), *more), text.columns(sys.stdout))

    show_one(nouns.RECORDINGS, recording_page.described(file), output, page)
