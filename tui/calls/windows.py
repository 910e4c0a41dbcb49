# SPDX-License-Identifier: Apache-2.0
"""A window of full tracing in a running job: opened, awaited, ended early on request.

If the opener fails, it closes the window as long as the node can be reached; otherwise the window
ends when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError, Unavailable

LOOK_S = (0.05, 1.0)
"""The shortest pause between two requests, near the end of a window, and the longest."""
LATE_S = 30.0
"""The longest wait for the records of a window after its end."""
CLOSE_S = 3.0

Progress = Callable[[schema.WindowView], None]


async def record(
    client: Client,
    job: int,
    seconds: float,
    early: asyncio.Event,
    *,
    mode: schema.Steered = "full",
    records: bool = False,
    rank: int = 0,
    progress: Progress = lambda window: None,
) -> schema.WindowView:
    """Open a window, wait for its end or for `early`, and return it with its records ready.

    `rank`: the one of a gang that is traced in it.
    """
    number = secrets.randbelow(1 << 48) + 1
    which = schema.TracingRequest(job=job, rank=rank)
    view = await client.tracing(
        msgspec.structs.replace(
            which, do="open", mode=mode, seconds=seconds, window=number, records=records
        )
    )
    try:
        return await _finish(client, which, _of(view, number), early, progress)
    except BaseException:
        with contextlib.suppress(StokerError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(CLOSE_S):
                await _close(client, which, number)
        raise


async def _finish(
    client: Client,
    which: schema.TracingRequest,
    window: schema.WindowView,
    early: asyncio.Event,
    progress: Progress,
) -> schema.WindowView:
    number = window.window
    ends = time.monotonic() + window.seconds
    asked = False
    while window.state in ("opening", "open", "closing"):
        progress(window)
        if early.is_set() and not asked:
            asked, ends = True, time.monotonic()
            view = await _close(client, which, number)
        else:
            left = ends - time.monotonic()
            if left < -LATE_S:
                raise Unavailable(f"the window of job {which.job} was not written in {LATE_S:g} s")
            await _pause(early, asked, left)
            view = await client.tracing(which)
        window = _of(view, number)
    if window.state == "failed":
        raise StokerError(f"the window has no records: {window.reason}")
    return window


async def _pause(early: asyncio.Event, asked: bool, left: float) -> None:
    pause = min(max(left, LOOK_S[0]), LOOK_S[1])
    if asked:
        await asyncio.sleep(LOOK_S[0])
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause):
            await early.wait()


async def _close(client: Client, which: schema.TracingRequest, number: int) -> schema.TracingView:
    return await client.tracing(msgspec.structs.replace(which, do="close", window=number))


def _of(view: schema.TracingView, number: int) -> schema.WindowView:
    if view.window is None or view.window.window != number:
        raise Unavailable(
            f"the node of job {view.job} no longer knows the window: it was restarted"
        )
    return view.window
