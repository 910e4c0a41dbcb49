# SPDX-License-Identifier: Apache-2.0
"""Copies of a job's output to this process, and of this process's input to a job.

Every piece is addressed by its offset, so no restart loses a byte or writes one twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stoker.mesh.client.client import HOLD_S, Client
from stoker.mesh.client.job_output import PAUSE_S, Asked, pieces
from stoker.mesh.wire import schema
from stoker.tui.render import text

READ_BYTES = 128 * 1024

T = TypeVar("T")


async def blocking(call: Callable[..., T], *args: object) -> T:
    """Run a call that may block for ever on a thread that never keeps the program from ending."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no task waits
            loop.call_soon_threadsafe(lambda: None if future.done() else act())

    def work() -> None:
        try:
            result = call(*args)
        except OSError as error:
            failure = error
            settle(lambda: future.set_exception(failure))
        else:
            settle(lambda: future.set_result(result))

    threading.Thread(target=work, daemon=True).start()
    return await future


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, in as many writes as it takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


async def output(
    client: Client,
    asked: Asked,
    write: Callable[[bytes], None],
    *,
    again: Callable[[schema.JobView], None] = lambda view: None,
) -> int:
    """Copy one stream of a job; returns the bytes dropped past the job's limit.

    `again` is called with the job before each further attempt.
    """
    dropped: dict[int, int] = {}
    async for piece in pieces(client, asked, again=again):
        dropped[piece.attempt] = piece.dropped_bytes
        if piece.data:
            await blocking(write, piece.data)
        if piece.eof and piece.spooled and not piece.lacks:
            text.tell(piece.spooled)
    return sum(dropped.values())


async def feed(client: Client, job: schema.JobRef, fd: int) -> None:
    """Copy a descriptor to a job's stdin until either ends, then close the stdin."""
    offset = 0
    while True:
        data = await blocking(os.read, fd, READ_BYTES)
        taken = await _put(client, job, offset, data)
        if taken is None or not data:
            return
        offset = taken


async def _put(client: Client, job: schema.JobRef, offset: int, data: bytes) -> int | None:
    """Send one piece, again from where the node stopped; None once the job reads no more."""
    end, pause = offset + len(data), PAUSE_S[0]
    while True:
        asked = time.monotonic()
        request = schema.StdinRequest(
            job=job,
            offset=offset,
            data=data[len(data) - (end - offset) :],
            eof=not data,
            wait_s=HOLD_S,
        )
        view = await client.stdin(request)
        if view.closed:
            return None
        if not view.waiting and view.next_offset >= end:
            return end
        if view.next_offset == offset and time.monotonic() - asked < pause:
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_S[1])
        offset = view.next_offset


def wanted(fd: int, interactive: bool) -> bool:
    """True if a job should get this descriptor as stdin: a pipe or file, or one asked for."""
    try:
        found = os.fstat(fd)
        empty = Path(os.devnull).stat()
    except OSError:
        return False
    if stat.S_ISCHR(found.st_mode) and found.st_rdev == empty.st_rdev:
        return False
    return interactive or not os.isatty(fd)
