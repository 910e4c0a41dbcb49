# SPDX-License-Identifier: Apache-2.0
"""A verb's requests, run to their end, and its replies, printed in the form that was chosen."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import click

from stoker.tui.render import tables, text

T = TypeVar("T")


def call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one verb's requests to their end."""
    return asyncio.run(coroutine)


def show(
    noun: tables.Noun, rows: Sequence[tables.Row], output: tables.Output, *, alone: bool = False
) -> None:
    """Print rows; with `alone`, one row in JSON is the object itself, not a list of one."""
    if alone and output == "json" and len(rows) == 1:
        text.show(tables.render_one({"schema": tables.SCHEMA, **rows[0]}))
        return
    colour = text.colours(sys.stdout)
    text.show(tables.render(noun, rows, output, now_ns=time.time_ns(), colour=colour))


def settle(state: str | None, noun: str, verb: str, request: Any, what: str) -> None:
    """Send an administrator's request, and say whether it changed anything."""
    from stoker.tui.calls import cluster_calls

    changed = call(cluster_calls.settle(state, noun, verb, request))
    click.echo(f"{what}: {'done' if changed else 'nothing to change'}")
