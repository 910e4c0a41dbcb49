# SPDX-License-Identifier: Apache-2.0
"""The wait for many jobs: few are asked about one by one, many in lists, a large array as one row.

`stoker wait` relies on it for arrays. Guarantees that each job was over when its row was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import ENDED
from stoker.tui.calls.selected_jobs import OPEN

WAITS_MAX = 16
"""The number of jobs that are waited for at once."""
SINGLY_MAX = 64
"""The most jobs that are asked about one by one."""
ROWS_MAX = 256
"""An array of more jobs is one row, with the number of its jobs in each state."""


async def ended(client: Client, numbers: Sequence[int]) -> list[schema.JobView]:
    """Wait until all of these jobs are over; return them in this order, a large array as one row
    with `array.states`, where its first job stands."""
    rows: dict[int, schema.JobView] = {}
    if len(numbers) > SINGLY_MAX:
        await _all_over(client, set(numbers))
        rows = await _large_arrays(client, set(numbers))
        numbers = [number for number in numbers if number in rows or not _is_of(number, rows)]
    singles = [number for number in numbers if number not in rows]
    found = await _listed(client, set(singles)) if len(singles) > SINGLY_MAX else {}
    gate = asyncio.Semaphore(WAITS_MAX)

    async def one(number: int) -> schema.JobView:
        if (known := rows.get(number) or found.get(number)) is not None:
            return known
        async with gate:
            return await client.wait(number)

    return list(await asyncio.gather(*map(one, numbers)))


def _is_of(number: int, rows: dict[int, schema.JobView]) -> bool:
    """Return True for a job of an array that has a row."""
    arrays = (row.array for row in rows.values() if row.array is not None)
    return any(each.first <= number < each.first + each.size for each in arrays)


async def _all_over(client: Client, numbers: set[int]) -> None:
    """Wait for those of the jobs that lists have."""
    going_on = schema.ListRequest(select=_span(numbers), states=OPEN, limit=schema.LIST_MAX)
    while (job := await _newest(client, going_on, numbers)) is not None:
        await client.wait(job)  # the newest one, since it starts last as a rule


async def _large_arrays(client: Client, numbers: set[int]) -> dict[int, schema.JobView]:
    """Return the rows of large arrays of which all jobs are waited for, by their first jobs."""
    request = schema.ListRequest(select=_span(numbers), limit=schema.LIST_MAX, arrays=True)
    try:
        rows = [row async for row in client.list_all(request)]
    except BadRequest:  # a scheduler of an older version knows no such rows
        return {}
    found: dict[int, schema.JobView] = {}
    for row in rows:
        array = row.array
        if array is None or not array.states or array.size <= ROWS_MAX:
            continue
        whole = numbers.issuperset(range(array.first, array.first + array.size))
        if whole and sum(array.states.values()) == array.size and not array.states.keys() - ENDED:
            found[array.first] = row
    return found


async def _listed(client: Client, numbers: set[int]) -> dict[int, schema.JobView]:
    """Return those of the jobs that lists have and that are over."""
    everything = schema.ListRequest(select=_span(numbers), limit=schema.LIST_MAX)
    jobs = [job async for job in client.list_all(everything) if job.job in numbers]
    return {job.job: job for job in jobs if job.state in ENDED}


def _span(numbers: set[int]) -> str:
    return f"{min(numbers)}-{max(numbers)}"


async def _newest(client: Client, request: schema.ListRequest, numbers: set[int]) -> int | None:
    """Return the newest of the jobs that a request lists; None if it lists none of them."""
    async for job in client.list_all(request):
        if job.job in numbers:
            return job.job
    return None
