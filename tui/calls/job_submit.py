# SPDX-License-Identifier: Apache-2.0
"""Submission of a job, or of an array, without a terminal attached to it.

`stoker submit` relies on it. Owns that what only a job with input needs is loaded for such a one.
"""

from __future__ import annotations

import os
from typing import Any

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.tui.calls import views

Row = dict[str, Any]


def input_of(stdin_file: str | None, *, interactive: bool = False) -> int | None:
    """The descriptor that is copied to the job's stdin, or None."""
    if stdin_file:
        return os.open(stdin_file, os.O_RDONLY | os.O_CLOEXEC)
    from stoker.tui.calls import streams

    return 0 if streams.wanted(0, interactive) else None


async def submit(
    state: str | None, request: schema.JobRequest, fd: int | None, *, rows: bool = True
) -> tuple[str, list[Row]]:
    """Submit a job or an array, and copy a file for stdin to its end.

    Returns the selector that names the jobs in other verbs, and with `rows` their rows.
    """
    async with Client.open(state) as client:
        view = await client.submit(request)
        if fd is not None:
            from stoker.tui.calls import streams

            await streams.feed(client, view.job, fd)
        if view.array is None:
            return str(view.job), [views.part(view)]
        name = f"{view.array.first}-{view.array.first + view.array.size - 1}"
        if not rows:
            return name, []
        array = schema.ListRequest(select=name, limit=min(view.array.size, schema.LIST_MAX))
        found = [views.part(job) async for job in client.list_all(array)]
        return name, found[::-1]
