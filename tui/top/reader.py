# SPDX-License-Identifier: Apache-2.0
"""Reads what the shown view needs, each request by itself, so that a slow node delays no other.

The only I/O of the live view beside the terminal. Owns the rate: a request is never sent twice at
once, and one that takes long is repeated so much later that it takes a fifth of the time at most.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import KindReader, Told
from stoker.mesh.wire import schema
from stoker.native.errors import BadRequest, StokerError, Unavailable
from stoker.scheduler.nouns import ENDED
from stoker.tui.calls import told_waits, views
from stoker.tui.top.answers import Answers, Need, ServerState
from stoker.tui.top.output_tail import OutputTail
from stoker.tui.top.views import arrays
from stoker.tui.top.views import device as device_view

JOBS_MAX = 10_000
"""The most jobs that are read; more are told of, not shown."""
WAITS_ASKED = 128
"""The jobs whose reason to wait is asked for at each reading, where the pages lack it."""
ARRAY_MAX = 1_000
"""The most jobs of one array that are read."""
TOLD_MAX = 5_000
"""The most rows of telemetry of one kind that are held."""
SINCE_S = 600.0
SHARE = 4
"""A request waits this many times its own duration before it is sent again."""
ABOUT_SUBJECT: tuple[Need, ...] = ("job", "array", "logs", "readings", "topology")

FROM_A_NODE: tuple[Need, ...] = ("logs", "readings", "topology")
"""The needs that one node answers; its silence says nothing of the server."""


class Wanted(NamedTuple):
    """The things to read: the needs of the shown view, its subject, the job under the cursor."""

    needs: tuple[Need, ...]
    subject: str = ""
    explained: str = ""
    """The job whose explanation is needed."""


class Reader:
    """The newest answers, and how the server answers. `changed` is called after each change."""

    def __init__(
        self, client: Client, period_s: float, changed: Callable[[], None] = lambda: None
    ) -> None:
        self._client, self._period_s, self.changed = client, period_s, changed
        self.answers = Answers()
        self.service = ServerState()
        self.wanted = Wanted(())
        self._times: dict[str, int] = {}
        self._next: dict[Need, float] = {}
        self._open: dict[Need, asyncio.Task[None]] = {}
        self._observations: dict[str, int] = {}
        self._whole_arrays = True
        """True as long as no scheduler has said that it knows no rows of arrays."""
        self._tail: tuple[str, OutputTail] | None = None
        self._kinds: dict[str, tuple[KindReader, deque[Told]]] = {}

    # --- when ------------------------------------------------------------------------------------

    def want(self, wanted: Wanted) -> None:
        """Say what is shown; parts about another subject are forgotten and read at once."""
        if wanted.subject != self.wanted.subject:
            gone: dict[str, Any] = dict.fromkeys(ABOUT_SUBJECT)
            self.answers = msgspec.structs.replace(
                self.answers, subject=wanted.subject, refused={}, **gone
            )
            self._forget(ABOUT_SUBJECT)
        if wanted.explained != self.wanted.explained:
            self._forget(("explain",))
        self.wanted = wanted

    def _forget(self, needs: tuple[Need, ...]) -> None:
        for need in needs:
            self._next.pop(need, None)
            self._times.pop(need, None)
            if task := self._open.pop(need, None):
                task.cancel()

    def hurry(self) -> None:
        """Let every need be read at the next `start`."""
        self._next.clear()

    def start(self) -> list[asyncio.Task[None]]:
        """Send the requests that are due; return the open ones."""
        now = time.monotonic()
        for need in self.wanted.needs:
            if need not in self._open and now >= self._next.get(need, 0.0):
                task = asyncio.create_task(self._read(need))
                self._open[need] = task
        return list(self._open.values())

    async def once(self) -> None:
        """Read everything that is wanted, once."""
        self.hurry()
        await asyncio.gather(*self.start())
        if self.wanted.subject and "readings" in self.wanted.needs:  # it needs the devices' names
            self.hurry()
            await asyncio.gather(*self.start())

    async def close(self) -> None:
        """End the open requests."""
        tasks = list(self._open.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, need: Need) -> None:
        began = time.monotonic()
        wanted, took = self.wanted, 0.0
        try:
            parts = await _READS[need](self)
            took = time.monotonic() - began
            if parts is not None and self._still(need, wanted):
                self._answered(need, parts)
        except Unavailable as error:
            self._failed(need, error)
        except StokerError as error:
            self._answered(need, {}, error.message)
        finally:
            if self._open.get(need) is asyncio.current_task():
                del self._open[need]
                # A failure is tried again soon, however long it took: the server may be back.
                self._next[need] = time.monotonic() + max(self._period_s, SHARE * took)
            self.changed()

    def _still(self, need: Need, wanted: Wanted) -> bool:
        """Return False for an answer about what is no longer shown."""
        if need == "explain":
            return self.wanted.explained == wanted.explained
        return need not in ABOUT_SUBJECT or self.wanted.subject == wanted.subject

    def _answered(self, need: Need, parts: Mapping[str, Any], refused: str = "") -> None:
        now_ns = time.time_ns()
        self._times[need] = now_ns
        told = {k: why for k, why in self.answers.refused.items() if k != need}
        if refused:
            told[need] = refused
        times = [self._times[each] for each in self.wanted.needs if each in self._times]
        self.answers = msgspec.structs.replace(
            self.answers, at_ns=min(times, default=0), refused=told, **parts
        )
        if self.service.lost_ns:
            gone = now_ns - self.service.lost_ns
            self.service = ServerState(back_ns=now_ns, gone_ns=gone)

    def _failed(self, need: Need, error: StokerError) -> None:
        if need in FROM_A_NODE and not self.service.lost_ns:  # one node may be away by itself
            told = {**self.answers.refused, need: error.message}
            self.answers = msgspec.structs.replace(self.answers, refused=told)
            return
        lost_ns = self.service.lost_ns or time.time_ns()
        self.service = self.service._replace(lost_ns=lost_ns, why=error.message)

    # --- what ------------------------------------------------------------------------------------

    async def _nodes(self) -> dict[str, Any]:
        nodes = (await self._client.nodes()).nodes
        now_ns = time.time_ns()
        heard = {}
        for node in nodes:
            seen = node.observation if node.observation is not None else -1
            known = self._observations.get(node.node)
            before = self.answers.heard.get(node.node, now_ns)
            heard[node.node] = before if known == seen else now_ns
            self._observations[node.node] = seen
        return {"nodes": nodes, "heard": heard}

    async def _devices(self) -> dict[str, Any]:
        return {"devices": (await self._client.devices()).devices}

    async def _jobs(self) -> dict[str, Any]:
        try:
            found = await self._listed(arrays=self._whole_arrays)
        except BadRequest:  # a scheduler of an older version
            self._whole_arrays = False
            found = await self._listed(arrays=False)
        return {**found, "jobs": await self._with_waits(found["jobs"])}

    async def _with_waits(self, jobs: tuple[schema.JobView, ...]) -> tuple[schema.JobView, ...]:
        """Return the jobs, of which the oldest that wait without a reason have theirs."""
        lacking = [number for job in jobs if (number := told_waits.untold_job(job)) is not None]
        if not lacking:
            return jobs
        found = await told_waits.reasons(self._client, sorted(lacking)[:WAITS_ASKED])
        given = [found.get(told_waits.untold_job(job) or 0, job.waits) for job in jobs]
        pairs = zip(jobs, given, strict=True)
        return tuple(msgspec.structs.replace(job, waits=waits) for job, waits in pairs)

    async def _listed(self, *, arrays: bool) -> dict[str, Any]:
        jobs: list[schema.JobView] = []
        request = schema.ListRequest(limit=schema.LIST_MAX, arrays=arrays)
        async for page in self._client.pages(request):
            jobs += page.jobs
            if len(jobs) >= JOBS_MAX and page.next is not None:
                return {"jobs": tuple(jobs), "jobs_cut": True}
            # Old jobs that are over do not change: the newest page of them is enough.
            if all(job.state in ENDED for job in page.jobs):
                return {"jobs": tuple(jobs), "jobs_cut": page.next is not None}
        return {"jobs": tuple(jobs), "jobs_cut": False}

    async def _array(self) -> dict[str, Any]:
        found: list[schema.JobView] = []
        for states in arrays.READ_BY:
            request = schema.ListRequest(select=self.wanted.subject, states=states)
            room = ARRAY_MAX - len(found)
            if room:
                request = msgspec.structs.replace(request, limit=room)
                found += await self._first(request)
        return {"array": tuple(sorted(found, key=lambda job: job.job))}

    async def _first(self, request: schema.ListRequest) -> list[schema.JobView]:
        """Return as many jobs as a request has as its limit."""
        jobs: list[schema.JobView] = []
        async for page in self._client.pages(request):
            jobs += page.jobs
            if len(jobs) >= request.limit:
                break
        return jobs[: request.limit]

    async def _queues(self) -> dict[str, Any]:
        return {"queues": (await self._client.queues()).queues}

    async def _cluster(self) -> dict[str, Any]:
        return {"cluster": await self._client.cluster()}

    async def _streams(self) -> dict[str, Any]:
        return {"streams": await self._client.telemetry_streams()}

    async def _alerts(self) -> dict[str, Any]:
        return {"alerts": await self._client.alerts()}

    async def _alert_counts(self) -> dict[str, Any]:
        return {"alert_counts": await self._client.alerts(counts=True)}

    async def _told(self, kind: str, part: str) -> dict[str, Any]:
        if kind not in self._kinds:
            self._kinds[kind] = KindReader(kind, SINCE_S), deque(maxlen=TOLD_MAX)  # type: ignore[arg-type]
        reader, kept = self._kinds[kind]
        reader.more = True
        before = len(kept), kept[-1] if kept else None
        while reader.more:
            await reader.read(self._client)
            while reader.told:
                kept.append(reader.told.popleft())
        if (len(kept), kept[-1] if kept else None) == before and part in self._times:
            return {}
        return {part: tuple(kept)}

    async def _job(self) -> dict[str, Any]:
        job, devices, nodes = await asyncio.gather(
            self._client.get(_number(self.wanted.subject), trace=True),
            self._client.devices(),
            self._client.nodes(),
        )
        return {"job": views.job_object(job, devices.devices, nodes.nodes)}

    async def _logs(self) -> dict[str, Any]:
        subject = self.wanted.subject
        if self._tail is None or self._tail[0] != subject:
            view = await self._client.get(_number(subject))
            self._tail = subject, OutputTail(view.job)
        return {"logs": await self._tail[1].read(self._client)}

    async def _explain(self) -> dict[str, Any] | None:
        """Explain the job under the cursor; None if there is none."""
        if not self.wanted.explained:
            return None
        return {"explain": await self._client.explain(_number(self.wanted.explained))}

    async def _readings(self) -> dict[str, Any] | None:
        """Read a device, once it is known; None as long as it is not."""
        device = device_view.device_of(self.answers, self.wanted.subject)
        if device is None:
            return None if self.answers.devices is None else {}
        return {"readings": await self._client.readings(device.node, device.id, device_view.FIELDS)}

    async def _topology(self) -> dict[str, Any]:
        return {"topology": await self._client.topology(self.wanted.subject)}


_READS: dict[Need, Callable[[Reader], Awaitable[dict[str, Any] | None]]] = {
    "nodes": Reader._nodes,
    "devices": Reader._devices,
    "jobs": Reader._jobs,
    "queues": Reader._queues,
    "cluster": Reader._cluster,
    "streams": Reader._streams,
    "events": lambda reader: reader._told("events", "events"),
    "summaries": lambda reader: reader._told("kernels", "summaries"),
    "alerts": Reader._alerts,
    "alert_counts": Reader._alert_counts,
    "job": Reader._job,
    "array": Reader._array,
    "logs": Reader._logs,
    "explain": Reader._explain,
    "readings": Reader._readings,
    "topology": Reader._topology,
}


def _number(subject: str) -> schema.JobRef:
    """Return a job as requests name it: a number, also after a `j`, or `last`."""
    digits = subject.removeprefix("j")
    return int(digits) if digits.isascii() and digits.isdigit() else subject
