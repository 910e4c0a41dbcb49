# SPDX-License-Identifier: Apache-2.0
"""Answers to the scheduler's queries about this node for a user: output, input, traces.

The number of queries in progress is bounded, and a query that fails is answered with its error.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from stoker.agent.devices import device_answers
from stoker.agent.devices.registry import Devices
from stoker.agent.jobs.attempt_folders import folder_name
from stoker.agent.jobs.attempts import BEFORE_RUN, AttemptPhase
from stoker.agent.jobs.job_output import Changed, JobOutput
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.link.ping import ping
from stoker.agent.tracing.job_trace import NO_SEGMENT, SUMMARY_FILE, TIMELINE_FILE
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.agent.tracing.trace_window import WINDOW_TIMELINE_FILE, stored_view
from stoker.mesh.broker.budgets import PROXIED_MAX
from stoker.mesh.connection.nats_frames import Delivery
from stoker.mesh.wire import queries as wire
from stoker.mesh.wire.queries import (
    AlertsQuery,
    AlertsReply,
    DevicesQuery,
    DevicesReply,
    LogsQuery,
    NodeQuery,
    PingQuery,
    PingReply,
    Query,
    RanksQuery,
    RanksReply,
    Reply,
    StdinQuery,
    StdinReply,
    TraceQuery,
    TraceReply,
    TracingQuery,
)
from stoker.mesh.wire.schema import KernelRow, TracingView
from stoker.native.errors import NotFound, Refused, StokerError
from stoker.native.structured_log import structlog
from stoker.probes.kernels.job_trace import TraceSummary
from stoker.scheduler.nouns import TaskKey

QUERIES_MAX = PROXIED_MAX + 64
"""The largest number of queries in progress; a further one is refused. The scheduler bounds the
queries of each user (`mesh/broker/budgets.py`)."""
KERNEL_ROWS_MAX = 1000
"""The largest number of rows of one `kernels` answer, the busiest first; the rest is cut."""
LIVE_TIMELINE = ".live.perfetto"
WINDOW_LOOK_S = 0.05

_log = structlog.get_logger("queries")

Summaries = dict[TaskKey, tuple[StartRecord, TraceSummary]]


def _no_alerts(query: AlertsQuery) -> AlertsReply:
    raise NotFound("this node has no rules of alerts")


async def _no_gossip(node: str) -> str:
    return ""


class QueryAnswers:
    """The answering side of `mesh/wire/queries.py`."""

    def __init__(
        self,
        name: str,
        jobs: Path,
        *,
        respond: Callable[[str, bytes], bool],
        node: NodeCore,
        logs: JobOutput,
        spawner: Spawner,
        tracer: TraceThread,
        changed: Changed,
        devices: Devices,
        ranks: Callable[[RanksQuery], bool] = lambda query: False,
        alerts: Callable[[AlertsQuery], AlertsReply] = _no_alerts,
        gossip: Callable[[str], Awaitable[str]] = _no_gossip,
    ) -> None:
        """`respond` sends a reply to its subject, or returns False. `ranks` takes what the leader
        says of ranks here, and returns whether they are here. `alerts` answers from files."""
        self._name = name
        self._jobs = jobs
        self._respond = respond
        self._node = node
        self._logs = logs
        self._spawner = spawner
        self._tracer = tracer
        self._changed = changed
        self._devices = devices
        self._ranks = ranks
        self._alerts = alerts
        self._gossip = gossip
        self._tasks: set[asyncio.Task[None]] = set()
        self.counters: Counter[str] = Counter()

    def handle(self, message: Delivery) -> None:
        """Begin to answer one message; returns at once."""
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Cancel all answers; the scheduler repeats its queries."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, message: Delivery) -> None:
        try:
            if len(self._tasks) > QUERIES_MAX:
                raise Refused(f"node {self._name} answers {QUERIES_MAX} queries already")
            reply = wire.encode(await self.answer(wire.decode_query(message.data)))
        except StokerError as error:
            self.counters[f"ask_{error.code}"] += 1
            reply = wire.encode_error(error)
        except Exception as error:
            self.counters["ask_failed"] += 1
            _log.exception("a query failed", error=str(error))
            reply = wire.encode_error(StokerError(f"node {self._name} could not answer: {error}"))
        if message.reply and not self._respond(message.reply, reply):
            self.counters["ask_reply_lost"] += 1  # without a connection, the query comes again

    async def answer(self, query: Query) -> Reply:
        """Return the answer to one query; raises StokerError if it is refused."""
        match query:
            case LogsQuery():
                return await self._logs.answer(query)
            case StdinQuery():
                return await self._stdin(query)
            case TracingQuery():
                data = msgspec.json.encode(await self._tracing(query))
                return TraceReply(data, len(data), eof=True, size=len(data))
            case DevicesQuery() | PingQuery() | RanksQuery() | AlertsQuery():
                return await self._about_node(query)
        return await self._trace(query)

    async def _about_node(self, query: NodeQuery) -> Reply:
        if isinstance(query, PingQuery):
            result, gossip = await asyncio.gather(ping(query.address), self._gossip(query.target))
            return PingReply(result, gossip)
        if isinstance(query, RanksQuery):
            return RanksReply(self._ranks(query))
        if isinstance(query, AlertsQuery):
            return await asyncio.to_thread(self._alerts, query)
        answer = partial(device_answers.data, self._devices, self._name, query)
        quick = device_answers.is_quick(query, time.time_ns())
        return DevicesReply(answer() if quick else await asyncio.to_thread(answer))

    async def _trace(self, query: TraceQuery) -> TraceReply:
        match query:
            case TraceQuery(what="kernels"):
                return _piece(await self._kernels(query.job), query, whole=True)
            case TraceQuery(what="summary"):
                return _piece(await self._summary(query), query, whole=self._is_over(query))
            case TraceQuery() if query.window:
                return await self._window(query)
        return await self._timeline(query)

    # --- input ------------------------------------------------------------------------------------

    async def _stdin(self, query: StdinQuery) -> StdinReply:
        key = query.key
        await self._arrived(key, query.wait_s)
        if self._node.phase(key) not in (*BEFORE_RUN, AttemptPhase.RUNNING):
            return StdinReply(query.offset, closed=True)
        try:
            taken = await self._spawner.write_stdin(key, query.offset, query.data, query.eof)
        except NotFound:  # it ended a moment ago
            return StdinReply(query.offset, closed=True)
        return StdinReply(taken)

    async def _arrived(self, key: TaskKey, wait_s: float) -> None:
        """Wait until the spawner has this attempt, or `wait_s` is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(wait_s, 0.5)
        while self._node.phase(key) in (None, AttemptPhase.SENT) and loop.time() < deadline:
            changed = self._changed(key.job)
            await asyncio.wait((changed,), timeout=min(0.05, deadline - loop.time()))
            changed.cancel()

    # --- traces -----------------------------------------------------------------------------------

    def _is_over(self, query: TraceQuery | TracingQuery) -> bool:
        return self._node.phase(query.key) in (None, AttemptPhase.ENDED)

    async def _summary(self, query: TraceQuery) -> bytes:
        path = self._jobs / folder_name(query.key) / SUMMARY_FILE
        await self._settled(query)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            pass
        try:
            return msgspec.json.encode(await self._call_tracer(self._tracer.so_far, query.key))
        except NotFound:
            raise NotFound(
                f"job {query.job} has no trace on node {self._name}: it was not traced"
            ) from None

    async def _settled(self, query: TraceQuery) -> None:
        """Wait for the summary of a job that is over, at most `wait_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + query.wait_s
        while self._node.phase(query.key) is AttemptPhase.SETTLING:
            if loop.time() >= deadline:
                return
            await asyncio.sleep(0.01)

    async def _timeline(self, query: TraceQuery) -> TraceReply:
        folder = self._jobs / folder_name(query.key)
        await self._settled(query)
        path = folder / TIMELINE_FILE
        if not path.exists():
            path = folder / LIVE_TIMELINE
            if (folder / SUMMARY_FILE).exists():
                raise NotFound(f"job {query.job} has no timeline: {NO_SEGMENT}")
            if query.offset == 0 or not path.exists():  # later pieces come from the same file
                await self._call_tracer(self._tracer.timeline, query.key, path)
        return _piece_of(path, query)

    async def _tracing(self, query: TracingQuery) -> TracingView:
        try:
            view: TracingView = await self._call_tracer(self._tracer.tracing, query)
        except NotFound:
            if query.do == "open" or not self._is_over(query):
                raise
            return stored_view(self._jobs / folder_name(query.key))
        return view

    async def _window(self, query: TraceQuery) -> TraceReply:
        """Return a piece of a window's file, an empty one while the window is open."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + query.wait_s
        look = TracingQuery(*query.key, "look", "")
        while True:
            window = (await self._tracing(look)).window
            if window is None or window.window != query.window:
                raise NotFound(f"the newest window of job {query.job} has another number")
            if window.state == "ready":
                folder = self._jobs / folder_name(query.key)
                return _piece_of(folder / WINDOW_TIMELINE_FILE, query)
            if window.state == "failed":
                raise StokerError(f"the window has no records: {window.reason}")
            if loop.time() >= deadline:
                return TraceReply(b"", query.offset, eof=False)
            await asyncio.sleep(WINDOW_LOOK_S)

    async def _kernels(self, job: int) -> bytes:
        rows = [
            KernelRow(
                key.job,
                self._name,
                kernel.name,
                kernel.count,
                kernel.total_ns,
                kernel.p50_ns,
                kernel.p99_ns,
                kernel.estimate,
                kernel.error_ns,
                kernel.unseen,
                kernel.seen,
                key.task,
            )
            for key, (_, summary) in (await self._summaries()).items()
            if job in (0, key.job)
            for kernel in summary.kernels
        ]
        rows.sort(key=lambda row: -row.total_ns)
        data = msgspec.json.encode(rows[:KERNEL_ROWS_MAX])
        while len(data) > wire.CHUNK_BYTES_MAX:
            rows = rows[: min(len(rows), KERNEL_ROWS_MAX) // 2]
            data = msgspec.json.encode(rows)
        return data

    async def _summaries(self) -> Summaries:
        found: Summaries = await self._call_tracer(self._tracer.summaries)
        return found

    async def _call_tracer(self, order: Callable[..., None], *arguments: Any) -> Any:
        """Give the tracing thread an order and return its answer."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(result: Any) -> None:
            if answer.done():
                return
            if isinstance(result, StokerError):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        order(*arguments, done)
        async with asyncio.timeout(wire.WAIT_S_MAX):
            return await answer


def _piece_of(path: Path, query: TraceQuery) -> TraceReply:
    with path.open("rb") as file:
        file.seek(query.offset)
        data, size = file.read(query.limit), path.stat().st_size
    end = query.offset + len(data)
    return TraceReply(data, end, eof=end >= size, size=size)


def _piece(data: bytes, query: TraceQuery, *, whole: bool) -> TraceReply:
    """Return the requested part of `data`; `whole`: it will not grow."""
    part = data[query.offset : query.offset + query.limit]
    end = query.offset + len(part)
    return TraceReply(part, end, eof=end >= len(data), size=len(data) if whole else None)
