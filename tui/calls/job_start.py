# SPDX-License-Identifier: Apache-2.0
"""Submission of a job with this terminal attached to it.

`run` ends with the job's own exit code, or detaches and prints how to return.
"""

from __future__ import annotations

import asyncio
import signal

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, Busy, NotFound, StokerError, Unavailable
from stoker.scheduler.nouns import ENDED
from stoker.tui.calls import attachment, rank_output, streams, views, wait_notice


async def run(state: str | None, request: schema.JobRequest, fd: int | None) -> int:
    """Submit, stream, and return the exit code; a signal detaches."""
    if request.array:
        raise BadRequest("run shows one job", hint="submit an array with: stoker submit --array")
    caught = attachment.catch_signals()
    job: int | None = None
    try:
        async with Client.open(state) as client:
            made = await client.submit(request)
            job = made.job
            attachment.be_patient(client)
            return await _attend(client, made, fd)
    except asyncio.CancelledError:
        _say_detached(job, request.idempotency_key)
        return 128 + (caught[0] if caught else signal.SIGINT)
    except BrokenPipeError:
        _say_detached(job, request.idempotency_key)
        return 128 + signal.SIGPIPE
    except (Unavailable, Busy) as error:
        if job is None:
            raise
        attachment.warn(f"{error}; job {job} goes on without this terminal: stoker logs -f {job}")
        return views.LOST


async def _attend(client: Client, made: schema.JobView, fd: int | None) -> int:
    """Copy a job's output and input until it is over; returns its exit code."""
    job = made.job
    aside = [asyncio.ensure_future(wait_notice.tell_why_it_waits(client, job))]
    if fd is not None:
        aside.append(asyncio.ensure_future(_feed(client, job, fd)))
    lost: list[NotFound] = []
    try:
        copies = rank_output.copies(
            client, job, made.spec.tasks, follow=True, again=_say_again, lost=lost.append
        )
        dropped = await attachment.together(*copies)
        view = await client.wait(job)
    finally:
        for each in aside:
            each.cancel()
    attachment.say_dropped(job, sum(dropped))
    await wait_notice.tell_its_end(client, view, [each.message for each in lost])
    return views.exit_code(view)


async def _feed(client: Client, job: int, fd: int) -> None:
    try:
        await streams.feed(client, job, fd)
    except StokerError as error:
        if (await client.get(job)).state not in ENDED:
            attachment.warn(f"input ends here: {error}")


def _say_detached(job: int | None, key: str) -> None:
    if job is None:
        attachment.warn(
            "interrupted before the node answered; the job may or may not exist. "
            f"Repeating is safe and makes one job: --idempotency-key {key}"
        )
    else:
        attachment.warn(
            f"detached; job {job} goes on. Back: stoker logs -f {job}; end: stoker cancel {job}"
        )


def _say_again(job: schema.JobView) -> None:
    why = f" ({job.attempts[-1].reason})" if job.attempts else ""
    attachment.warn(
        f"job {job.job}: attempt {job.attempt - 1} is over{why}, attempt {job.attempt} follows"
    )
