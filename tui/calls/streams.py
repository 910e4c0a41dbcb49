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
from typing import Literal, NamedTuple, TypeVar

from stoker.mesh.client.client import HOLD_S, Client
from stoker.mesh.wire import schema
from stoker.scheduler.nouns import ENDED

READ_BYTES = 128 * 1024
PAUSE_S = (0.01, 0.25)
"""The shortest and longest pause after a request that was answered at once with nothing."""

AGAIN_S = 1.0
"""The longest pause between two looks for the next attempt of a job."""

T = TypeVar("T")
Stream = Literal["out", "err"]


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


class Asked(NamedTuple):
    """The part of the output that is copied.

    `attempt` 0 stands for the last attempt and, with `follow`, those after it; `rank` is 0 for a
    job of one task. With `follow` it is copied until the job is over, else as much as there is now.
    """

    job: schema.JobRef
    stream: Stream
    attempt: int
    rank: int
    follow: bool


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
    dropped, chosen = 0, asked
    while True:
        view = await _attempt(client, chosen, write)
        dropped += view.dropped_bytes
        if not asked.follow or asked.attempt or not view.again:
            return dropped
        after = await _next_attempt(client, asked.job, view.attempt)
        if after is None:
            return dropped
        again(after)
        chosen = asked._replace(attempt=view.attempt + 1)


async def _attempt(client: Client, asked: Asked, write: Callable[[bytes], None]) -> schema.LogsView:
    """Copy the output of one attempt; returns its last piece."""
    attempt, offset, pause = asked.attempt, 0, PAUSE_S[0]
    while True:
        began = time.monotonic()
        view = await client.logs(
            schema.LogsRequest(
                job=asked.job,
                stream=asked.stream,
                offset=offset,
                wait_s=HOLD_S if asked.follow else 0.0,
                attempt=attempt,
                rank=asked.rank,
            )
        )
        if attempt and view.attempt != attempt:  # the attempt was not placed yet
            return view
        attempt = view.attempt
        if view.data:
            await blocking(write, view.data)
            offset, pause = view.next_offset, PAUSE_S[0]
        if view.eof or (not asked.follow and not view.data):
            return view
        if not view.data and time.monotonic() - began < pause:
            await asyncio.sleep(pause)
            pause = min(pause * 2, PAUSE_S[1])


async def _next_attempt(client: Client, job: schema.JobRef, attempt: int) -> schema.JobView | None:
    """The job once a later attempt is placed; None if it ended without one."""
    pause = PAUSE_S[0]
    while True:
        view = await client.get(job)
        if view.attempt > attempt:
            return view
        if view.state in ENDED:
            return None
        await asyncio.sleep(pause)
        pause = min(pause * 2, AGAIN_S)


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
