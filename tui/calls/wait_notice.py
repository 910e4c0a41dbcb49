# SPDX-License-Identifier: Apache-2.0
"""The lines of `run` on stderr beside the job's output: why the job waits, and a bad end.

A job that starts soon and ends with exit code 0 costs no line.
"""

from __future__ import annotations

import asyncio

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.tui.calls import attachment

NOTICE_S = 2.0
"""A job that waits longer than this has its reason told."""
AGAIN_S = 5.0
"""The pause between two questions; a reason is told again only if it changed."""

ANSWER_S = 3.0
"""The longest wait for an explanation; the client itself sits out an outage of an hour."""


async def tell_why_it_waits(client: Client, job: int) -> None:
    """Tell why the job waits, whenever that changes, until it waits no more."""
    told = ""
    await asyncio.sleep(NOTICE_S)
    while (now := await _waits(client, job)) is not None:
        if now not in ("", told):
            attachment.warn(f"job {job} {now} (more: stoker explain {job})")
            told = now
        await asyncio.sleep(AGAIN_S)
    if told:
        attachment.warn(f"job {job} waits no more")


async def _waits(client: Client, job: int) -> str | None:
    """The reason why a job waits; None if it does not, "" if nobody can tell."""
    found = await _explained(client, job)
    if found is None:
        return ""
    return found.summary if found.state == "pending" else None


async def tell_its_end(client: Client, view: schema.JobView) -> None:
    """Tell of an end that is not exit code 0, with what would help besides reading the output."""
    if view.state == "succeeded":
        return
    words = f"job {view.job}, {view.state}{view.reason and ': '}{view.reason}"
    attachment.warn("; ".join([words, *(await _remedies(client, view))[:1]]))


async def _remedies(client: Client, view: schema.JobView) -> list[str]:
    found = await _explained(client, view.job)
    return [each for each in found.actions if "stoker logs" not in each] if found else []


async def _explained(client: Client, job: int) -> schema.ExplainView | None:
    """The explanation of a job, or None if there is none soon: nobody waits for a courtesy."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await client.explain(job)
    except (StokerError, TimeoutError):
        return None
