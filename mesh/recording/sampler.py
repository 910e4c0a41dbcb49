# SPDX-License-Identifier: Apache-2.0
"""Samples what a cluster says of itself, as one user may read it, into rows that have changed.

A node's recorder and `stoker record --for` use it. Owns that a recording holds nothing that its
user may not read, no environment and no output of a job, and that time without an answer is a gap
with its reason.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import KindReader, LastRead
from stoker.mesh.recording.blocks import Recorded
from stoker.mesh.recording.sampled_jobs import JobReader
from stoker.mesh.recording.subjects_due import SubjectsDue
from stoker.mesh.wire.schema import JobView
from stoker.native.errors import NotFound, StokerError, Unavailable

RESOLVED_KEPT: Final = 32
"""The most alerts that were resolved and are recorded beside those that fire."""
DETAILS_KEPT: Final = 64
"""The most jobs, and the most nodes, of which details are held for the next key block."""
HISTORY: Final = ("busy_ratio", "power_w", "temperature_c")
"""The fields of a device whose points between two readings are recorded."""
EVERY: Final[Mapping[str, int]] = {
    "nodes": 1, "devices": 1, "events": 1, "summaries": 1, "jobs": 5, "queues": 5, "alerts": 5,
    "cluster": 10, "streams": 10,
}  # fmt: skip
"""A part is read in every so many samples; jobs also whenever an event was told."""
WINDOWED: Final = ("events", "summaries", "readings", "gap")
"""The parts whose rows tell of a moment or a stretch: they replace nothing, and no key repeats
them."""
OF_ARRAYS: Final = "array_jobs"
"""The part with jobs of large arrays, each of which is one row among the jobs."""
POSITIONS: Final = "positions"
"""The part with how far events and summaries were read; the next recorder of a ring reads on."""

Rows: TypeAlias = dict[str, bytes | None]


class SampledPart(NamedTuple):
    """The rows of one part as they were read; `whole` if rows that are not here are gone."""

    rows: Mapping[str, bytes]
    whole: bool = True


def encoded(view: msgspec.Struct) -> bytes:
    """Return a row as it is recorded."""
    return msgspec.json.encode(view)


class ClusterSampler:
    """The rows as they were sampled last. Its client is the user whose recording it is."""

    def __init__(
        self, client: Client, *, since_s: float = 0.0, details: int = 4,
        positions: Mapping[str, LastRead] = MappingProxyType({}),
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:  # fmt: skip
        """`positions`: how far events and summaries were read before; `since_s`: how far the first
        sample looks back for one that has none. `details`: the most requests about single jobs and
        devices in one sample."""
        self._client, self._now_ns = client, now_ns
        self._kinds = {
            "events": KindReader("events", since_s, positions.get("events")),
            "summaries": KindReader("kernels", since_s, positions.get("summaries")),
        }
        self._job_reader, self._of_arrays = JobReader(client), SampledPart({})
        self._rows: dict[str, dict[str, bytes]] = {}
        self._due = SubjectsDue(details)
        self._samples = self._told = 0
        self._jobs_due = True
        self._points: dict[str, int] = {}
        self._heard_ns = 0
        self._lost: tuple[int, str] | None = None
        self._kept: list[Recorded] = []
        """The changes of a sample that was not finished."""

    async def sample(self) -> list[Recorded]:
        """Return what has changed since the sample before, under one time: a sample is never seen
        by halves. Empty while nobody answers."""
        made, self._kept = self._kept, []
        try:
            for part in EVERY:
                if self._samples % EVERY[part] == 0 or (part == "jobs" and self._jobs_due):
                    made += await self._part(part)
            for part, subject in self._due.take():
                made += await self._detail(part, subject)
        except Unavailable as error:
            if self._lost is None:
                self._lost = self._heard_ns or self._now_ns(), error.message
            self._kept = made
            return []
        self._samples += 1
        open_gap, self._heard_ns = self.gap(), self._now_ns()
        self._lost = None
        made = open_gap + made or [Recorded(0, "alive", {})]
        return [msgspec.structs.replace(each, t_ns=self._heard_ns) for each in made]

    def gap(self) -> list[Recorded]:
        """Return the gap that is open since the last whole sample, if there is one."""
        if self._lost is None:
            return []
        return [gap(self._lost[0], self._now_ns(), self._lost[1])]

    def whole(self) -> list[Recorded]:
        """Return all rows as they are known, for a key block, under the time of the last sample."""
        return [
            Recorded(self._heard_ns, part, dict(rows), True) for part, rows in self._rows.items()
        ]

    # --- parts -----------------------------------------------------------------------------------

    async def _part(self, part: str) -> list[Recorded]:
        if part in self._kinds:
            return await self._tell(part, self._kinds[part])
        try:
            read = await _READS[part](self)
        except Unavailable:
            raise
        except StokerError as error:
            return self._changed("refused", SampledPart({part: _word(error.message)}, whole=False))
        cleared: SampledPart | None = None
        if part in self._rows.get("refused", {}):
            left = {each: row for each, row in self._rows["refused"].items() if each != part}
            cleared = SampledPart(left)
        made = [*(self._changed("refused", cleared) if cleared else ()),
                *self._changed(part, read)]  # fmt: skip
        if part == "jobs" and (self._of_arrays.rows or self._rows.get(OF_ARRAYS)):
            made += self._changed(OF_ARRAYS, self._of_arrays)
        return made

    def _changed(self, part: str, read: SampledPart) -> list[Recorded]:
        first = part not in self._rows
        known = self._rows.setdefault(part, {})
        rows: Rows = {key: row for key, row in read.rows.items() if known.get(key) != row}
        if read.whole:
            rows |= dict.fromkeys(known.keys() - read.rows.keys())
        for key, row in rows.items():
            if row is None:
                del known[key]
            else:
                known[key] = row
        return [Recorded(0, part, rows)] if rows or first else []

    async def _tell(self, part: str, reader: KindReader) -> list[Recorded]:
        """Read what was told since the last sample. Rows of a moment have numbers as keys."""
        rows: Rows = {}
        reader.more = True
        try:
            while reader.more:
                await reader.read(self._client)
        except Unavailable:
            raise
        except StokerError as error:
            return self._changed("refused", SampledPart({part: _word(error.message)}, whole=False))
        while reader.told:
            self._told += 1
            rows[str(self._told)] = msgspec.json.encode(reader.told.popleft())
        self._jobs_due = self._jobs_due or (part == "events" and bool(rows))
        if not rows or reader.position is None:
            return []
        position = SampledPart({part: msgspec.json.encode(reader.position)}, whole=False)
        return [Recorded(0, part, rows), *self._changed(POSITIONS, position)]

    async def _jobs(self) -> SampledPart:
        """Read the jobs; those of large arrays become a part of their own."""
        self._jobs_due = False
        found = await self._job_reader.read()
        self._due.jobs(found.singly)
        self._of_arrays = SampledPart(_rows_of(found.of_arrays), whole=True)
        return SampledPart(_rows_of(found.rows), whole=found.is_all)

    async def _devices(self) -> SampledPart:
        devices = (await self._client.devices()).devices
        names = [f"{each.node}:{each.id}" for each in devices]
        self._due.devices(names)
        return SampledPart(dict(zip(names, map(encoded, devices), strict=True)))

    async def _nodes(self) -> SampledPart:
        nodes = (await self._client.nodes()).nodes
        self._due.nodes(each.node for each in nodes)
        return SampledPart({each.node: encoded(each) for each in nodes})

    async def _queues(self) -> SampledPart:
        queues = (await self._client.queues()).queues
        return SampledPart({each.queue: encoded(each) for each in queues})

    async def _alerts(self) -> SampledPart:
        """Read all alerts that fire and the newest that were resolved. Those of a node that does
        not answer stay as they were: they are not over."""
        found = await self._client.alerts()
        firing = [each for each in found.alerts if each.state == "firing"]
        over = found.alerts[len(firing) : len(firing) + RESOLVED_KEPT]
        rows = {f"{each.node}:{each.alert}": encoded(each) for each in (*firing, *over)}
        return SampledPart(rows, whole=not found.absent)

    async def _cluster(self) -> SampledPart:
        return SampledPart({"": encoded(await self._client.cluster())})

    async def _streams(self) -> SampledPart:
        return SampledPart({"": encoded(await self._client.telemetry_streams())})

    # --- details ---------------------------------------------------------------------------------

    async def _detail(self, part: str, subject: str) -> list[Recorded]:
        """Read one job, device or node by itself; a node that is away is no gap of the cluster."""
        try:
            row = await _DETAILS[part](self, subject)
        except StokerError:
            return []
        if part in WINDOWED:
            return [Recorded(0, part, {subject: row})]
        known = self._rows.get(part, {})
        kept = sorted((*known, subject), key=_age)[-DETAILS_KEPT:]
        return self._changed(part, SampledPart({subject: row}, whole=False)) + self._forget(
            part, set(known) - set(kept)
        )

    def _forget(self, part: str, keys: set[str]) -> list[Recorded]:
        for key in keys:
            del self._rows[part][key]
        return [Recorded(0, part, dict.fromkeys(keys))] if keys else []

    async def _job(self, subject: str) -> bytes:
        job = await self._client.get(int(subject), trace=True)
        if not self._due.read(job):
            raise NotFound(f"the trace of job {subject} is not there yet")
        return encoded(without_secrets(job))

    async def _explain(self, subject: str) -> bytes:
        return encoded(await self._client.explain(int(subject)))

    async def _readings(self, subject: str) -> bytes:
        node, _, device = subject.partition(":")
        since_ns = self._points.get(subject, 0)
        view = await self._client.readings(node, device, HISTORY, since_ns)
        newest = [points[-1][0] for points in view.history.values() if points]
        self._points[subject] = max(newest, default=since_ns)
        return encoded(view)

    async def _topology(self, subject: str) -> bytes:
        return encoded(await self._client.topology(subject))


def without_secrets(job: JobView) -> JobView:
    """Return a job without its environment, which may hold passwords and is never recorded."""
    if not job.spec.env:
        return job
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, env=None))


def _rows_of(jobs: Iterable[JobView]) -> dict[str, bytes]:
    return {str(job.job): encoded(without_secrets(job)) for job in jobs}


def gap(from_ns: int, to_ns: int, why: str) -> Recorded:
    """Return a gap as it is recorded, at its end."""
    row = {"from_ns": from_ns, "to_ns": to_ns, "why": why}
    return Recorded(to_ns, "gap", {str(from_ns): msgspec.json.encode(row)})


def _age(subject: str) -> tuple[int, str]:
    """Return the order of subjects: jobs by number, which the oldest has lowest."""
    return (int(subject), "") if subject.isdigit() else (0, subject)


def _word(message: str) -> bytes:
    return msgspec.json.encode(message)


_READS: dict[str, Callable[[ClusterSampler], Awaitable[SampledPart]]] = {
    "nodes": ClusterSampler._nodes,
    "devices": ClusterSampler._devices,
    "jobs": ClusterSampler._jobs,
    "queues": ClusterSampler._queues,
    "alerts": ClusterSampler._alerts,
    "cluster": ClusterSampler._cluster,
    "streams": ClusterSampler._streams,
}
_DETAILS: dict[str, Callable[[ClusterSampler, str], Awaitable[Any]]] = {
    "job": ClusterSampler._job,
    "explain": ClusterSampler._explain,
    "readings": ClusterSampler._readings,
    "topology": ClusterSampler._topology,
}
