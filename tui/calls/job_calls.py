# SPDX-License-Identifier: Apache-2.0
"""The requests about jobs that exist: one coroutine per verb, from a selector to plain rows."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import ReadChoice
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, NotFound
from stoker.tui.calls import attachment, selected_jobs, views
from stoker.tui.calls.views import ReadRows
from stoker.tui.options.selectors import ME, Selector

if TYPE_CHECKING:
    from stoker.tui.calls.rank_output import Which

Row = dict[str, Any]


WAITS_ASKED = 1024
"""The rows of a list whose reason to wait is asked for, where its pages lack it."""


@asynccontextmanager
async def _selected(
    state: str | None, selector: Selector, words: str, *, states: Sequence[str] = ()
) -> AsyncIterator[tuple[Client, list[int]]]:
    """A client and the numbers of the selected jobs; NotFound if there are none."""
    async with Client.open(state) as client:
        jobs = await selected_jobs.numbers(client, selector, words, states)
        yield client, jobs


async def jobs(
    state: str | None,
    reads: ReadChoice,
    *,
    states: Sequence[str],
    user: str,
    limit: int | None,
    arrays: bool = False,
) -> ReadRows:
    """The jobs, newest first, at most `limit` rows, with the position of the first page.

    With `arrays` each array is one row. A scheduler of an older version does not know that, and
    lists each job instead.
    """
    async with Client.open(state, reads=reads) as client:
        user = client.user if user == ME else user
        page = min(limit or schema.LIST_MAX, schema.LIST_MAX)
        request = schema.ListRequest(states=tuple(states), user=user, limit=page)  # type: ignore[arg-type]
        if not arrays:
            return await _listed(client, request, limit)
        try:
            return await _listed(client, msgspec.structs.replace(request, arrays=True), limit)
        except BadRequest:
            return await _listed(client, request, limit)


async def _listed(client: Client, request: schema.ListRequest, limit: int | None) -> ReadRows:
    rows: list[Row] = []
    position: schema.LogPosition | None = None
    async for found in client.pages(request):
        position = position or found.position
        rows += _alike(found.jobs, rows[-1]["spec"] if rows else None)
        if limit is not None and len(rows) >= limit:
            break
    rows = rows[:limit]
    await _tell_waits(client, rows)
    return ReadRows(rows, position)


async def _tell_waits(client: Client, rows: Sequence[Row]) -> None:
    """Give the oldest rows that wait, and have no reason yet, theirs: they start first."""
    from stoker.tui.calls import told_waits

    lacking = {job: row for row in rows if (job := told_waits.untold(row)) is not None}
    if not lacking:
        return
    found = await told_waits.reasons(client, sorted(lacking)[:WAITS_ASKED])
    for job, waits in found.items():
        if job in lacking:
            lacking[job]["waits"] = waits


def _alike(jobs: Sequence[schema.JobView], before: Any) -> Iterator[Row]:
    """The rows of jobs. Those of an array share one spec, which is most of a row: a list may have
    100,000 of them."""
    for row in map(views.part, jobs):
        if row["spec"] == before:
            row["spec"] = before
        before = row["spec"]
        yield row


def of_many(numbers: list[int], most: int | None) -> list[int]:
    """The jobs of a selection that have a page, which are the oldest if there are too many."""
    if most is None or len(numbers) <= most:
        return numbers
    left = len(numbers) - most
    attachment.warn(f"the first {most} jobs; {left:,} more are selected: -o jsonl tells of all")
    return sorted(numbers)[:most]


async def job_objects(
    state: str | None,
    selector: Selector,
    words: str,
    rank: int | None = None,
    most: int | None = None,
) -> list[Row]:
    """Each selected job with its trace, its devices and what its node lacks; of a gang the trace
    of one rank, or that of rank 0 with the device time of all."""
    async with _selected(state, selector, words) as (client, selected):
        numbers = of_many(selected, most)
        found = [await client.get(number, trace=True, rank=rank or 0) for number in numbers]
        if rank is not None:
            for job in found:
                views.check_rank(job.job, job.spec.tasks, rank)
            return await describe(client, found)
        times = [await rank_times(client, job) for job in found]
        rows = await describe(client, found)
        return [{**row, "rank_times": time} for row, time in zip(rows, times, strict=True)]


async def rank_times(client: Client, job: schema.JobView) -> list[Row]:
    """The device time of each rank of a gang, from its trace, or why there is none of it."""
    others = [client.get(job.job, trace=True, rank=rank.rank) for rank in job.ranks[1:]]
    ranks = [job, *await asyncio.gather(*others)] if job.ranks else []
    return [views.rank_time(rank, view) for rank, view in enumerate(ranks)]


async def describe(client: Client, found: Sequence[schema.JobView]) -> list[Row]:
    """The objects of `-o json` for jobs that were read with their traces."""
    devices, nodes = await client.devices(), await client.nodes()
    return [views.job_object(job, devices.devices, nodes.nodes) for job in found]


async def logs(
    state: str | None,
    selector: Selector,
    words: str,
    which: Which,
    *,
    follow: bool,
) -> int:
    """Copy the output of the selected jobs, one after another; returns the exit code.

    The output of a gang is that of one rank, or of all of them, line by line.
    """
    from stoker.tui.calls import rank_output  # a list needs no streams

    caught = attachment.catch_signals()
    number = 0
    lost: list[NotFound] = []
    try:
        async with _selected(state, selector, words) as (client, numbers):
            if follow:
                attachment.be_patient(client)
            for number in numbers:
                tasks = (await client.get(number)).spec.tasks
                views.check_rank(number, tasks, which.rank)
                copies = rank_output.copies(
                    client, number, tasks, follow=follow, which=which, lost=lost.append
                )
                attachment.say_dropped(number, sum(await attachment.together(*copies)))
                if lost:
                    said = dict.fromkeys(each.message for each in lost)
                    raise NotFound("; ".join(said), hint=lost[0].hint)
        return 0
    except asyncio.CancelledError:
        if follow and number:
            attachment.warn(f"left; job {number} is as it was. Back: stoker logs -f {number}")
        return 128 + (caught[0] if caught else signal.SIGINT)
    except BrokenPipeError:
        return 128 + signal.SIGPIPE


async def cancel(state: str | None, selector: Selector, words: str, reason: str) -> list[Row]:
    """Stop the selected jobs; returns the state of each."""
    async with Client.open(state) as client:
        chosen = await selected_jobs.selections(client, selector, words, selected_jobs.OPEN)
        done = [await client.cancel(each, reason) for each in chosen]
        return [views.part(job) for each in done for job in each.jobs]


async def remove(state: str | None, selector: Selector, words: str) -> list[Row]:
    """Delete the selected jobs and their output; returns their rows."""
    async with Client.open(state) as client:
        chosen = await selected_jobs.selections(client, selector, words, selected_jobs.OVER)
        done = [await client.remove(each) for each in chosen]
        return [views.part(job) for each in done for job in each.jobs]


async def wait(
    state: str | None, selector: Selector, words: str, timeout_s: float | None
) -> tuple[int, list[Row]]:
    """Wait for the selected jobs; returns one exit code for all, and their rows."""
    from stoker.tui.calls import job_waits  # a list needs no waiting

    open_states = selected_jobs.OPEN if selector.all or selector.me else ()
    async with _selected(state, selector, words, states=open_states) as (client, numbers):
        attachment.be_patient(client)
        try:
            async with asyncio.timeout(timeout_s):
                ended = await job_waits.ended(client, numbers)
        except TimeoutError:
            attachment.warn(f"not over within {timeout_s:g} s: the jobs go on")
            return views.TIMED_OUT, []
        codes = [views.exit_of_row(view) for view in ended]
        code = codes[0] if len(numbers) == 1 else int(any(codes))
        return code, [views.part(view) for view in ended]


async def explain(
    state: str | None, selector: Selector, words: str, rank: int = 0, most: int | None = None
) -> list[Row]:
    """The explanation of each selected job, with the efficiency of those that were started."""
    async with _selected(state, selector, words) as (client, selected):
        numbers = of_many(selected, most)
        return [await _explained(client, number, rank) for number in numbers]


async def _explained(client: Client, number: int, rank: int) -> Row:
    from stoker.tui.calls import efficiency

    found = views.part(await client.explain(number, rank))
    if found["state"] == "pending":
        return found
    job = await client.get(number, trace=True, rank=rank)
    times = await rank_times(client, job) if not rank else []
    found["efficiency"] = efficiency.efficiency(views.row(job), times, time.time_ns())
    return msgspec.to_builtins(found)  # type: ignore[no-any-return]
