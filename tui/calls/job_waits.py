# SPDX-License-Identifier: Apache-2.0
"""The wait for many jobs: few are asked about one by one, many in lists.

`stoker wait` relies on it for arrays. Guarantees that each job was over when its row was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.scheduler.nouns import ENDED
from stoker.tui.calls.selected_jobs import OPEN

WAITS_MAX = 16
"""The number of jobs that are waited for at once."""
SINGLY_MAX = 64
"""The most jobs that are asked about one by one."""


async def ended(client: Client, numbers: Sequence[int]) -> list[schema.JobView]:
    """Wait until all of these jobs are over; return them in this order."""
    found = await _listed(client, set(numbers)) if len(numbers) > SINGLY_MAX else {}
    gate = asyncio.Semaphore(WAITS_MAX)

    async def one(number: int) -> schema.JobView:
        if (known := found.get(number)) is not None:
            return known
        async with gate:
            return await client.wait(number)

    return list(await asyncio.gather(*map(one, numbers)))


async def _listed(client: Client, numbers: set[int]) -> dict[int, schema.JobView]:
    """Wait for those of the jobs that lists have, and return them."""
    span = f"{min(numbers)}-{max(numbers)}"
    going_on = schema.ListRequest(select=span, states=OPEN, limit=schema.LIST_MAX)
    while (job := await _newest(client, going_on, numbers)) is not None:
        await client.wait(job)  # the newest one, since it starts last as a rule
    everything = schema.ListRequest(select=span, limit=schema.LIST_MAX)
    jobs = [job async for job in client.list_all(everything) if job.job in numbers]
    return {job.job: job for job in jobs if job.state in ENDED}


async def _newest(client: Client, request: schema.ListRequest, numbers: set[int]) -> int | None:
    """Return the newest of the jobs that a request lists; None if it lists none of them."""
    async for job in client.list_all(request):
        if job.job in numbers:
            return job.job
    return None
