# SPDX-License-Identifier: Apache-2.0
"""A verb's requests, run to their end, and its replies, printed in the form that was chosen."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stoker.native.errors import NotFound
from stoker.tui.render import tables, text

if TYPE_CHECKING:
    from stoker.mesh.client.read_choice import ReadChoice
    from stoker.tui.calls.views import ReadRows
    from stoker.tui.render.columns import Noun, Row

T = TypeVar("T")
KNOWN_JOBS = "`stoker jobs --all` lists those that are known to you"


def call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one verb's requests to their end.

    The task returns nothing: when a loop ends, Python's `signal` makes a text of its main task with
    all that it returned, which for a long list takes as long as the rest.
    """
    returned: list[T] = []

    async def main() -> None:
        returned.append(await coroutine)

    try:
        asyncio.run(main())
    except NotFound as error:
        if error.hint or not error.message.startswith("there is no job"):
            raise
        raise NotFound(error.message, hint=KNOWN_JOBS) from None
    return returned[0]


def show(noun: Noun, rows: Sequence[Row], output: tables.Output, *, alone: bool = False) -> None:
    """Print rows; with `alone`, one row in JSON is the object itself, not a list of one."""
    if alone and output == "json" and len(rows) == 1:
        text.show(tables.render_one({"schema": tables.SCHEMA, **rows[0]}))
        return
    colour, columns = text.colours(sys.stdout), text.columns(sys.stdout)
    now_ns = time.time_ns()
    text.show(tables.render(noun, rows, output, now_ns=now_ns, columns=columns, colour=colour))


def show_one(noun: Noun, row: Row, output: tables.Output, page: Callable[[], str]) -> None:
    """Print one object: `table` and `wide` are its page, the other forms have its fields."""
    if output in ("table", "wide"):
        text.show(page())
    else:
        show(noun, [row], output, alone=True)


def show_read(noun: Noun, read: ReadRows, output: tables.Output, reads: ReadChoice) -> None:
    """Print rows, and on stderr what they reflect if that may be an older state."""
    show(noun, read.rows, output)
    if reads.stale and read.position is not None:
        entry = f"entry {read.position.index}, term {read.position.term}"
        click.echo(f"stoker: this is the state after {entry}; newer entries may exist", err=True)


def settle(state: str | None, noun: str, verb: str, request: Any, what: str) -> None:
    """Send an administrator's request, and say whether it changed anything."""
    from stoker.tui.calls import cluster_calls

    changed = call(cluster_calls.settle(state, noun, verb, request))
    click.echo(f"{what}: {'done' if changed else 'nothing to change'}")
