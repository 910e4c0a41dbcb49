# SPDX-License-Identifier: Apache-2.0
"""The output of a job as this terminal shows it: that of one process, or of all ranks of a gang.

Owns the form of merged output: whole lines, each behind the number of its rank. A line that has no
end yet is held back until it has one, its rank has ended, or it is LINE_BYTES_MAX long.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from stoker.mesh.client.client import Client
from stoker.mesh.client.job_output import Asked, Stream
from stoker.mesh.wire import schema
from stoker.native.errors import NotFound
from stoker.tui.calls import streams
from stoker.tui.calls.terminal_output import TerminalOutput

LINE_BYTES_MAX = 64 * 1024
STREAMS: tuple[tuple[Stream, int], ...] = (("out", 1), ("err", 2))
"""Each stream with the descriptor on which this terminal shows it."""

Again = Callable[[schema.JobView], None]
Lost = Callable[[NotFound], None]
Write = Callable[[bytes], None]
End = Callable[[], None]


class Which(NamedTuple):
    """The part of a job's output that is meant. Attempt 0 is the last one, and rank None all of
    them. `raw`: a terminal gets the bytes as they are."""

    streams: Sequence[str] = ("out", "err")
    attempt: int = 0
    rank: int | None = None
    raw: bool = False


EVERYTHING = Which(raw=True)
"""The output of a program that the user of this terminal has just started."""


class RankLines:
    """The lines of one rank on their way out."""

    def __init__(self, write: Write, rank: int, tasks: int) -> None:
        self._write = write
        self._label = f"{rank:>{len(str(tasks - 1))}}: ".encode()
        self._rest = b""

    def write(self, data: bytes) -> None:
        """Write the lines that are whole now."""
        *lines, rest = (self._rest + data).split(b"\n")
        if len(rest) >= LINE_BYTES_MAX:
            lines, rest = [*lines, rest], b""
        self._rest = rest
        if lines:
            self._write(b"".join(self._label + line + b"\n" for line in lines))

    def end(self) -> None:
        """Write what has no end of line."""
        if self._rest:
            self.write(b"\n")


def copies(
    client: Client,
    job: int,
    tasks: int,
    *,
    follow: bool,
    which: Which = EVERYTHING,
    again: Again = lambda view: None,
    lost: Lost | None = None,
) -> list[Coroutine[Any, Any, int]]:
    """Return what copies the output of a job with so many tasks; each returns the bytes that a
    limit dropped. `again` is called once for each further attempt, and `lost` with the error why
    the output of a rank cannot be read; without `lost` that is a NotFound, which ends all."""
    ranks = list(range(tasks)) if which.rank is None else [which.rank]
    made: list[Coroutine[Any, Any, int]] = []
    for number in ranks:
        for stream, fd in STREAMS:
            if stream not in which.streams:
                continue
            write, ends = _way_out(fd, raw=which.raw)
            if len(ranks) > 1:
                lines = RankLines(write, number, tasks)
                write, ends = lines.write, [lines.end, *ends]
            asked = Asked(job, stream, which.attempt, number, follow)
            copy = _copy(client, asked, write, ends, again if not made else lambda view: None)
            made.append(copy if lost is None else _or_lost(copy, lost))
    return made


def _way_out(fd: int, *, raw: bool) -> tuple[Write, list[End]]:
    """Return what writes to a descriptor, and what is to be called at the end."""
    write = partial(streams.write_all, fd)
    if raw or not os.isatty(fd):
        return write, []
    shown = TerminalOutput(write, os.device_encoding(fd) or "ascii")
    return shown.write, [shown.end]


async def _or_lost(copy: Coroutine[Any, Any, int], lost: Lost) -> int:
    try:
        return await copy
    except NotFound as error:
        lost(error)
        return 0


async def _copy(
    client: Client,
    asked: Asked,
    write: Write,
    ends: Sequence[End],
    again: Again,
) -> int:
    try:
        return await streams.output(client, asked, write, again=again)
    finally:
        for end in ends:
            end()
