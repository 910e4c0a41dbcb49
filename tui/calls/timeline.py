# SPDX-License-Identifier: Apache-2.0
"""A job's timeline file, fetched from its node in pieces.

The file appears under its name complete or not at all.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from stoker.mesh.client.client import HOLD_S, Client
from stoker.mesh.wire import schema

PAUSE_S = 0.1


async def save(
    client: Client, job: schema.JobRef, path: Path, *, window: int = 0, rank: int = 0
) -> int:
    """Write the Perfetto file of a rank of a job, or of a window of it; returns its bytes."""
    whole = schema.TraceRequest(job=job, wait_s=HOLD_S, window=window, rank=rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            size = 0
            async for piece in _pieces(client, whole):
                file.write(piece)
                size += len(piece)
            os.fchmod(file.fileno(), 0o644)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
    return size


async def _pieces(client: Client, whole: schema.TraceRequest) -> AsyncIterator[bytes]:
    offset = 0
    while True:
        view = await client.trace(msgspec.structs.replace(whole, offset=offset))
        if view.data:
            yield view.data
        if view.eof:
            return
        if view.next_offset == offset:
            await asyncio.sleep(PAUSE_S)
        offset = view.next_offset
