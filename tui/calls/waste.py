# SPDX-License-Identifier: Apache-2.0
"""The device time that jobs hold and do not use: of each running job, and of those that ended.

The fold is pure. A job whose device time is not known has its reason and no number, and is never
counted as used or as wasted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.mesh.wire.bottleneck import Name, bottleneck
from stoker.native.errors import StokerError
from stoker.tui.calls import job_calls, views

AT_ONCE = 16
"""The traces that are requested at once."""
JOBS_MAX = 2_000
"""The most jobs that are looked at, the newest first."""
MILLI = 1000


class Wasted(msgspec.Struct, frozen=True):
    """One job: the time of the devices that it held, and the part that nobody used, in ns.

    A share of a device counts as that share of its time. null with `absent` where it is not known.
    """

    job: int
    user: str
    name: str
    state: str
    gpu_milli: int
    held_ns: int | None
    idle_ns: int | None
    bottleneck: Name | None
    absent: str
    command: str
    """The command that ends the job; empty if it is over."""


class UserWaste(msgspec.Struct, frozen=True):
    """All jobs of one user together."""

    user: str
    jobs: int
    held_ns: int
    idle_ns: int
    unknown: int
    """The jobs whose device time is not known; the times lack them."""


class Found(NamedTuple):
    """The jobs with the most wasted time first; `cut` if there are more than were looked at."""

    jobs: list[Wasted]
    cut: bool


async def waste(state: str | None, user: str, since_s: float | None) -> Found:
    """Every running job that holds devices, and those that ended in the past `since_s`."""
    from_ns = time.time_ns() - round(since_s * 1e9) if since_s else None
    states: tuple[Any, ...] = () if since_s else ("running",)
    async with Client.open(state) as client:
        request = schema.ListRequest(states=states, user=user, limit=schema.LIST_MAX)
        listed, cut = await _listed(client, request, from_ns)
        gate = asyncio.Semaphore(AT_ONCE)
        found = await asyncio.gather(*(_of(client, job, gate) for job in listed))
    return Found(sorted(found, key=lambda each: -(each.idle_ns or 0)), cut)


async def _listed(
    client: Client, request: schema.ListRequest, from_ns: int | None
) -> tuple[list[schema.JobView], bool]:
    """The jobs to look at, and whether there were more."""
    looked = 0
    kept: list[schema.JobView] = []
    async for job in client.list_all(request):
        looked += 1
        if looked > JOBS_MAX:
            return kept, True
        if job.spec.gpu_milli and _counts(job, from_ns):
            kept.append(job)
    return kept, False


def _counts(job: schema.JobView, from_ns: int | None) -> bool:
    if job.state == "running":
        return True
    ended_ns = job.times.ended_ns
    return from_ns is not None and ended_ns is not None and ended_ns >= from_ns


async def _of(client: Client, listed: schema.JobView, gate: asyncio.Semaphore) -> Wasted:
    """Judge one job; one that is gone since it was listed has that for a reason."""
    async with gate:
        try:
            job = await client.get(listed.job, trace=True)
            times = await job_calls.rank_times(client, job)
        except StokerError as error:
            job, times = msgspec.structs.replace(listed, trace_absent=error.message), []
    return wasted(views.row(job), times)


def wasted(job: Mapping[str, Any], times: Sequence[Mapping[str, Any]]) -> Wasted:
    """Judge one job. `times` are the device times of the ranks of a gang, else those of its trace
    count."""
    trace, milli = job.get("trace") or {}, job["spec"]["gpu_milli"]
    found = bottleneck(times or trace.get("devices") or (), trace.get("kernels") or ())
    part = min(milli, MILLI) / MILLI
    over = job["state"] != "running"
    return Wasted(
        job["job"],
        job["user"],
        job["name"] or job["spec"]["argv"][0].rpartition("/")[2],
        job["state"],
        milli * (job["spec"].get("tasks") or 1),
        round(found.held_ns * part) if found else None,
        round(found.idle_ns * part) if found else None,
        found.name if found else None,
        "" if found else str(job.get("trace_absent") or "no device time is known yet"),
        "" if over else f"stoker cancel {job['job']}",
    )


def by_user(jobs: Iterable[Wasted]) -> list[UserWaste]:
    """Add up the jobs of each user, the one with the most wasted time first."""
    users: dict[str, list[Wasted]] = {}
    for job in jobs:
        users.setdefault(job.user, []).append(job)
    found = (_user(user, theirs) for user, theirs in users.items())
    return sorted(found, key=lambda each: (-each.idle_ns, each.user))


def _user(user: str, jobs: Sequence[Wasted]) -> UserWaste:
    return UserWaste(
        user,
        len(jobs),
        sum(job.held_ns or 0 for job in jobs),
        sum(job.idle_ns or 0 for job in jobs),
        sum(job.idle_ns is None for job in jobs),
    )
