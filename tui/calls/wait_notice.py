# SPDX-License-Identifier: Apache-2.0
"""The lines of `run` on stderr beside the job's output: why the job waits, and how it ended.

A job that starts soon, is over within some seconds and ends with exit code 0 costs no line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError
from stoker.tui.calls import attachment, efficiency, job_calls, views
from stoker.tui.render import units

NOTICE_S = 2.0
"""A job that waits longer than this has its reason told."""
AGAIN_S = 5.0
"""The pause between two questions; a reason is told again only if it changed."""

BOUND_NS = 10_000_000_000
"""A job with devices that ran for longer has its bottleneck told at its end."""
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


async def tell_its_end(client: Client, view: schema.JobView, lost: Sequence[str] = ()) -> None:
    """Tell what bounded a job that ran for some time; of an end that is not exit code 0 also what
    would help, and where nothing else is known, how to read the output again. `lost`: why parts of
    the output cannot be read."""
    unread = list(dict.fromkeys(lost))
    bound = await _bound(client, view)
    if view.state == "succeeded":
        if bound:
            attachment.warn(f"job {view.job}, succeeded: {bound} (more: stoker explain {view.job})")
        if unread:
            attachment.warn(f"job {view.job}, succeeded; {'; '.join(unread)}")
        return
    words = f"job {view.job}, {view.state}{view.reason and ': '}{view.reason}"
    said = [words, *filter(None, [bound]), *(await _remedies(client, view))[:1], *unread]
    attachment.warn("; ".join(said))


async def _bound(client: Client, view: schema.JobView) -> str:
    """The bottleneck of an ended job: "GPU-bound for 83 % of its device time"; empty for a short
    job, and where its device time is not known soon."""
    started_ns, ended_ns = view.times.started_ns, view.times.ended_ns
    ran_ns = ended_ns - started_ns if started_ns is not None and ended_ns is not None else 0
    if not view.spec.gpu_milli or ran_ns < BOUND_NS:
        return ""
    try:
        async with asyncio.timeout(ANSWER_S):
            job = await client.get(view.job, trace=True)
            times = await job_calls.rank_times(client, job)
    except (StokerError, TimeoutError):
        return ""
    made = efficiency.efficiency(views.row(job), times, ended_ns or 0)
    found = made.bottleneck if made is not None else None
    return f"{found.name} for {units.percent(found.share)} of its device time" if found else ""


async def _remedies(client: Client, view: schema.JobView) -> list[str]:
    found = await _explained(client, view.job)
    actions = found.actions if found else ()
    others = [each for each in actions if "stoker logs" not in each]
    again = [f"its output may say why, again: stoker logs {view.job}"]
    return others or (again if actions else [])


async def _explained(client: Client, job: int) -> schema.ExplainView | None:
    """The explanation of a job, or None if there is none soon: nobody waits for a courtesy."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await client.explain(job)
    except (StokerError, TimeoutError):
        return None
