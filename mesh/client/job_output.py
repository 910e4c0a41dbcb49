# SPDX-License-Identifier: Apache-2.0
"""The output of a job, piece by piece, over attempts and restarts of the node.

Every piece is addressed by its offset, so none is lost and none comes twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Literal, NamedTuple

import msgspec

from stoker.mesh.client.client import HOLD_S, Client
from stoker.mesh.wire import schema
from stoker.native.errors import NotFound
from stoker.scheduler.nouns import ENDED

PAUSE_S = (0.01, 0.25)
"""The shortest and longest pause after a request that was answered at once with nothing."""
AGAIN_S = 1.0
"""The longest pause between two looks for the next attempt of a job."""

Stream = Literal["out", "err"]


class Asked(NamedTuple):
    """The part of the output that is read.

    `attempt` 0 stands for the last attempt and, with `follow`, those after it; `rank` is 0 for a
    job of one task. With `follow` it is read until the job is over, else as much as there is now.
    """

    job: schema.JobRef
    stream: Stream = "out"
    attempt: int = 0
    rank: int = 0
    follow: bool = True


async def pieces(
    client: Client, asked: Asked, *, again: Callable[[schema.JobView], None] = lambda view: None
) -> AsyncIterator[schema.LogsView]:
    """Yield one stream of a job in order; the last piece of each attempt may hold no data.

    `again` is called with the job before each further attempt. Raise NotFound at the end if the
    last one's output is on a host that is given up, or was spooled in part, so that nobody takes a
    part for all of it.
    """
    chosen = asked
    while True:
        last: schema.LogsView | None = None
        async for last in _attempt(client, chosen):
            yield last
        assert last is not None
        after = None
        if asked.follow and not asked.attempt and last.again:
            after = await _next_attempt(client, asked.job, last.attempt)
        if after is None:
            _check_present(last, asked)
            return
        again(after)
        chosen = asked._replace(attempt=last.attempt + 1)


def _check_present(last: schema.LogsView, asked: Asked) -> None:
    if last.absent:
        attempt = f"attempt {last.attempt} of job {last.job}"
        raise NotFound(f"the output of {attempt} cannot be read now: {last.absent}")
    if last.lacks:
        rank = f" (rank {asked.rank})" if asked.rank else ""
        raise NotFound(f"job {last.job}{rank}: {last.spooled}")


async def _attempt(client: Client, asked: Asked) -> AsyncIterator[schema.LogsView]:
    """Yield the output of one attempt; at least one piece."""
    attempt, offset, pause = asked.attempt, 0, PAUSE_S[0]
    while True:
        began = time.monotonic()
        request = schema.LogsRequest(
            job=asked.job,
            stream=asked.stream,
            offset=offset,
            wait_s=HOLD_S if asked.follow else 0.0,
            attempt=attempt,
            rank=asked.rank,
        )
        view = await client.logs(request)
        if attempt and view.attempt != attempt:  # the attempt was not placed yet
            yield msgspec.structs.replace(view, data=b"")
            return
        attempt = view.attempt
        yield view
        if view.eof or (not asked.follow and not view.data):
            return
        if view.data:
            offset, pause = view.next_offset, PAUSE_S[0]
        elif time.monotonic() - began < pause:
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
