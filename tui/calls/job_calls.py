# SPDX-License-Identifier: Apache-2.0
"""The requests about jobs: one coroutine per verb, from a selector to plain rows.

`run` ends with the job's own exit code, or detaches and prints how to return; a job is never
stopped because nobody watches it any more.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import click

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, Busy, NotFound, StokerError, Unavailable
from stoker.scheduler.nouns import ENDED
from stoker.tui.calls import streams, views
from stoker.tui.options.selectors import Selector
from stoker.tui.render import text

FOLLOW_PATIENCE_S = 3600.0
"""The longest outage of the node that `run`, `logs -f` and `wait` sit out."""
WAITS_MAX = 16
SIGNALS = (signal.SIGINT, signal.SIGTERM)
Row = dict[str, Any]


# --- run and submit -------------------------------------------------------------------------------


def input_of(stdin_file: str | None, *, interactive: bool = False) -> int | None:
    """The descriptor that is copied to the job's stdin, or None."""
    if stdin_file:
        return os.open(stdin_file, os.O_RDONLY | os.O_CLOEXEC)
    return 0 if streams.wanted(0, interactive) else None


async def submit(
    state: str | None, request: schema.JobRequest, fd: int | None
) -> tuple[str, list[Row]]:
    """Submit a job or an array, and copy a file for stdin to its end.

    Returns the selector that names the jobs in other verbs, and their rows.
    """
    async with Client.open(state) as client:
        view = await client.submit(request)
        if fd is not None:
            await streams.feed(client, view.job, fd)
        if view.array is None:
            return str(view.job), [views.part(view)]
        name = f"{view.array.first}-{view.array.first + view.array.size - 1}"
        array = schema.ListRequest(select=name, limit=view.array.size)
        found = [views.part(job) async for job in client.list_all(array)]
        return name, found[::-1]


async def run(state: str | None, request: schema.JobRequest, fd: int | None) -> int:
    """Submit, stream, and return the exit code; a signal detaches."""
    if request.array:
        raise BadRequest("run shows one job", hint="submit an array with: stoker submit --array")
    caught = _catch_signals()
    job: int | None = None
    try:
        async with Client.open(state) as client:
            job = (await client.submit(request)).job
            _be_patient(client)
            return await _attend(client, job, fd)
    except asyncio.CancelledError:
        _say_detached(job, request.idempotency_key)
        return 128 + (caught[0] if caught else signal.SIGINT)
    except BrokenPipeError:
        _say_detached(job, request.idempotency_key)
        return 128 + signal.SIGPIPE
    except (Unavailable, Busy) as error:
        if job is None:
            raise
        _warn(f"{error}; job {job} goes on without this terminal: stoker logs -f {job}")
        return views.LOST


def _catch_signals() -> list[int]:
    """Let a signal cancel this task, not the job; returns the list that signals are added to."""
    caught: list[int] = []
    task = asyncio.current_task()
    assert task is not None

    def stop(number: int) -> None:
        caught.append(number)
        task.cancel()

    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return caught


def _say_detached(job: int | None, key: str) -> None:
    if job is None:
        _warn(
            "interrupted before the node answered; the job may or may not exist. "
            f"Repeating is safe and makes one job: --idempotency-key {key}"
        )
    else:
        _warn(f"detached; job {job} goes on. Back: stoker logs -f {job}; end: stoker cancel {job}")


async def _attend(client: Client, job: int, fd: int | None) -> int:
    """Copy a job's output and input until it is over; returns its exit code."""
    feeding = asyncio.ensure_future(_feed(client, job, fd)) if fd is not None else None
    try:
        dropped = await _together(
            streams.output(client, job, "out", 1, follow=True, again=_say_again),
            streams.output(client, job, "err", 2, follow=True),
        )
        view = await client.wait(job)
    finally:
        if feeding is not None:
            feeding.cancel()
    _say_dropped(job, sum(dropped))
    if view.state not in ("succeeded", "failed") or (view.exit_code is None and not view.signal):
        _warn(f"job {job}, {view.state}{view.reason and ': '}{view.reason}")
    return views.exit_code(view)


async def _together(*calls: Coroutine[Any, Any, int]) -> list[int]:
    """Run all calls to their end, or raise the first error and cancel the rest."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _feed(client: Client, job: int, fd: int) -> None:
    try:
        await streams.feed(client, job, fd)
    except StokerError as error:
        if (await client.get(job)).state not in ENDED:
            _warn(f"input ends here: {error}")


def _be_patient(client: Client) -> None:
    client.patience_s = FOLLOW_PATIENCE_S
    client.on_trouble = lambda error: _warn(f"{error.message}; trying again (Ctrl-C leaves)")


def _say_dropped(job: int, dropped: int) -> None:
    if dropped:
        _warn(f"job {job} wrote {dropped} bytes past its output limit; they were not kept")


def _say_again(job: schema.JobView) -> None:
    why = f" ({job.attempts[-1].reason})" if job.attempts else ""
    _warn(f"job {job.job}: attempt {job.attempt - 1} is over{why}, attempt {job.attempt} follows")


def _warn(words: str) -> None:
    click.echo(f"stoker: {text.clean(words)}", err=True)


# --- reading --------------------------------------------------------------------------------------


@asynccontextmanager
async def _selected(
    state: str | None, selector: Selector, words: str, *, states: Sequence[str] = ()
) -> AsyncIterator[tuple[Client, list[int]]]:
    """A client and the numbers of the selected jobs; NotFound if there are none."""
    async with Client.open(state) as client:
        if selector.all:
            request = schema.ListRequest(states=tuple(states), limit=schema.LIST_MAX)  # type: ignore[arg-type]
            jobs = [job.job async for job in client.list_all(request)]
        elif selector.last:
            jobs = [(await client.get("last")).job]
        else:
            jobs = list(selector.numbers())
        if not jobs:
            raise NotFound(f"no job matches {words!r}")
        yield client, jobs


async def jobs(
    state: str | None, *, states: Sequence[str], user: str, limit: int | None
) -> list[Row]:
    """The jobs, newest first, at most `limit`."""
    async with Client.open(state) as client:
        page = min(limit or schema.LIST_MAX, schema.LIST_MAX)
        request = schema.ListRequest(states=tuple(states), user=user, limit=page)  # type: ignore[arg-type]
        rows: list[Row] = []
        async for job in client.list_all(request):
            rows.append(views.part(job))
            if len(rows) == limit:
                break
        return rows


async def job_objects(state: str | None, selector: Selector, words: str) -> list[Row]:
    """Each selected job with its trace, its devices and what its node lacks."""
    async with _selected(state, selector, words) as (client, numbers):
        found = [await client.get(number, trace=True) for number in numbers]
        return await describe(client, found)


async def describe(client: Client, found: Sequence[schema.JobView]) -> list[Row]:
    """The objects of `-o json` for jobs that were read with their traces."""
    devices, nodes = await client.devices(), await client.nodes()
    return [views.job_object(job, devices.devices, nodes.nodes) for job in found]


async def logs(
    state: str | None,
    selector: Selector,
    words: str,
    which: Sequence[str],
    *,
    follow: bool,
    attempt: int = 0,
) -> int:
    """Copy the output of the selected jobs, one after another; returns the exit code."""
    caught = _catch_signals()
    number = 0
    try:
        async with _selected(state, selector, words) as (client, numbers):
            if follow:
                _be_patient(client)
            for number in numbers:
                copies = [
                    streams.output(client, number, stream, fd, follow=follow, attempt=attempt)  # type: ignore[arg-type]
                    for stream, fd in (("out", 1), ("err", 2))
                    if stream in which
                ]
                _say_dropped(number, sum(await _together(*copies)))
        return 0
    except asyncio.CancelledError:
        if follow and number:
            _warn(f"left; job {number} is as it was. Back: stoker logs -f {number}")
        return 128 + (caught[0] if caught else signal.SIGINT)
    except BrokenPipeError:
        return 128 + signal.SIGPIPE


async def cancel(state: str | None, words: str, reason: str) -> list[Row]:
    """Stop the selected jobs; returns the state of each."""
    async with Client.open(state) as client:
        done = await client.cancel(words, reason)
        return [views.part(job) for job in done.jobs]


async def remove(state: str | None, words: str) -> list[Row]:
    """Delete the selected jobs and their output; returns their rows."""
    async with Client.open(state) as client:
        done = await client.remove(words)
        return [views.part(job) for job in done.jobs]


async def wait(
    state: str | None, selector: Selector, words: str, timeout_s: float | None
) -> tuple[int, list[Row]]:
    """Wait for the selected jobs; returns one exit code for all, and their rows."""
    open_states = ("pending", "starting", "running", "stopping") if selector.all else ()
    async with _selected(state, selector, words, states=open_states) as (client, numbers):
        _be_patient(client)
        gate = asyncio.Semaphore(WAITS_MAX)

        async def one(number: int) -> schema.JobView:
            async with gate:
                return await client.wait(number)

        try:
            async with asyncio.timeout(timeout_s):
                ended = await asyncio.gather(*map(one, numbers))
        except TimeoutError:
            _warn(f"not over within {timeout_s:g} s: the jobs go on")
            return views.TIMED_OUT, []
        codes = [views.exit_code(view) for view in ended]
        code = codes[0] if len(codes) == 1 else int(any(codes))
        return code, [views.part(view) for view in ended]


async def explain(state: str | None, selector: Selector, words: str) -> list[Row]:
    """The explanation of each selected job."""
    async with _selected(state, selector, words) as (client, numbers):
        return [views.part(await client.explain(number)) for number in numbers]
