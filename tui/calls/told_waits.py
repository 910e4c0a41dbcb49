# SPDX-License-Identifier: Apache-2.0
"""The reasons why jobs wait, for the rows of a list that came without.

The scheduler tells them in the first 64 waiting rows of a page, so that one request stays short.
Owns that the others are asked for as long as the leader answers with reasons, and never for more
rows than the caller says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema

ROWS_AT_ONCE = 64
"""The rows of one request: as many as are told in one page."""


async def reasons(client: Client, jobs: Sequence[int]) -> dict[int, str]:
    """Return the reason of each of these jobs that still waits. A follower tells none."""
    found: dict[int, str] = {}
    for at in range(0, len(jobs), ROWS_AT_ONCE):
        part = jobs[at : at + ROWS_AT_ONCE]
        select = ",".join(map(str, part))
        request = schema.ListRequest(select=select, states=("pending",), limit=len(part))
        told: dict[int, str] = {}
        async for page in client.pages(request):
            told |= {job.job: job.waits for job in page.jobs if job.waits}
        if not told:
            break
        found |= told
    return found


def untold_job(job: schema.JobView) -> int | None:
    """Return the job whose reason the row of a job or of an array lacks; None if it lacks none."""
    if job.waits:
        return None
    if job.array is not None and job.array.states:
        return job.array.waiting
    return job.job if job.state == "pending" else None


def untold(row: Mapping[str, Any]) -> int | None:
    """Return the job whose reason a row of `-o json` lacks; None if it lacks none."""
    if row["waits"]:
        return None
    array = row.get("array") or {}
    if array.get("states"):
        return array.get("waiting")
    return int(row["job"]) if row["state"] == "pending" else None
