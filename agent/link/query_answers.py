# SPDX-License-Identifier: Apache-2.0
"""Answers what the scheduler asks of this node for a user: output, input, traces.

Owns the bound on asks in progress; an ask that fails is answered with its error, never with
silence.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from nats.aio.msg import Msg

from stoker.agent.devices import looks
from stoker.agent.devices.registry import Devices
from stoker.agent.jobs.attempt_folders import folder_name
from stoker.agent.jobs.attempts import AttemptPhase
from stoker.agent.jobs.job_output import Changed, JobOutput
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.start_records import Begun
from stoker.agent.jobs.steps import Key
from stoker.agent.tracing.job_trace import NO_SEGMENT, SUMMARY_FILE, TIMELINE_FILE
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.agent.tracing.trace_window import WINDOW_TIMELINE_FILE, stored_view
from stoker.mesh.broker.budgets import PROXIED_MAX
from stoker.mesh.wire import queries as wire
from stoker.mesh.wire.queries import (
    Ask,
    DevicesQuery,
    DevicesReply,
    LogsQuery,
    Reply,
    StdinQuery,
    StdinReply,
    TraceQuery,
    TraceReply,
    TracingQuery,
)
from stoker.mesh.wire.schema import KernelRow, TracingView
from stoker.native.errors import NotFound, Refused, StokerError
from stoker.probes.kernels.job_trace import TraceSummary

ASKS_MAX = PROXIED_MAX + 64
"""Asks in progress; one more is refused. The scheduler asks for so many users, and each of them
for no more than a part of it (`mesh/broker/budgets.py`)."""
KERNEL_ROWS_MAX = 1000
"""Rows of one `kernels` answer, the busiest first; the rest is cut, which `size` cannot say."""
LIVE_TIMELINE = ".live.perfetto"
WINDOW_LOOK_S = 0.05
WAITING = (AttemptPhase.SENT, AttemptPhase.TAKEN)

_log = structlog.get_logger("asks")

Summaries = dict[Key, tuple[Begun, TraceSummary]]


class QueryAnswers:
    """The answering side of `mesh/wire/queries.py`."""

    def __init__(
        self,
        name: str,
        jobs: Path,
        *,
        node: NodeCore,
        logs: JobOutput,
        spawner: Spawner,
        tracer: TraceThread,
        changed: Changed,
        devices: Devices,
    ) -> None:
        self._name = name
        self._jobs = jobs
        self._node = node
        self._logs = logs
        self._spawner = spawner
        self._tracer = tracer
        self._changed = changed
        self._devices = devices
        self._tasks: set[asyncio.Task[None]] = set()
        self.counters: Counter[str] = Counter()

    def hear(self, message: Msg) -> None:
        """Begin to answer one message; returns at once."""
        task = asyncio.get_running_loop().create_task(self._serve(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Leave the askers without an answer: they ask again."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, message: Msg) -> None:
        try:
            if len(self._tasks) > ASKS_MAX:
                raise Refused(f"node {self._name} answers {ASKS_MAX} asks already")
            reply = wire.encode(await self.answer(wire.decode_ask(message.data)))
        except StokerError as error:
            self.counters[f"ask_{error.code}"] += 1
            reply = wire.encode_error(error)
        except Exception as error:
            self.counters["ask_failed"] += 1
            _log.exception("an ask failed", error=str(error))
            reply = wire.encode_error(StokerError(f"node {self._name} could not answer: {error}"))
        if message.reply:
            await message.respond(reply)

    async def answer(self, ask: Ask) -> Reply:
        """One ask, answered or refused with a StokerError."""
        match ask:
            case LogsQuery():
                return await self._logs.answer(ask)
            case StdinQuery():
                return await self._stdin(ask)
            case TracingQuery():
                data = msgspec.json.encode(await self._tracing(ask))
                return TraceReply(data, len(data), eof=True, size=len(data))
            case DevicesQuery():
                return DevicesReply(
                    await asyncio.to_thread(looks.data, self._devices, self._name, ask)
                )
        return await self._trace(ask)

    async def _trace(self, ask: TraceQuery) -> TraceReply:
        match ask:
            case TraceQuery(what="kernels"):
                return _piece(await self._kernels(ask.job), ask, whole=True)
            case TraceQuery(what="summary"):
                return _piece(await self._summary(ask), ask, whole=self._is_over(ask))
            case TraceQuery() if ask.window:
                return await self._window(ask)
        return await self._timeline(ask)

    # --- input ------------------------------------------------------------------------------------

    async def _stdin(self, ask: StdinQuery) -> StdinReply:
        key = (ask.job, ask.attempt)
        await self._arrived(key, ask.wait_s)
        if self._node.phase(key) not in (*WAITING, AttemptPhase.RUNNING):
            return StdinReply(ask.offset, closed=True)
        try:
            taken = await self._spawner.write_stdin(*key, ask.offset, ask.data, ask.eof)
        except NotFound:  # it ended a moment ago
            return StdinReply(ask.offset, closed=True)
        return StdinReply(taken)

    async def _arrived(self, key: Key, wait_s: float) -> None:
        """Until the spawner has this attempt, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max(wait_s, 0.5)
        while self._node.phase(key) in (None, AttemptPhase.SENT) and loop.time() < deadline:
            changed = self._changed(key[0])
            await asyncio.wait((changed,), timeout=min(0.05, deadline - loop.time()))
            changed.cancel()

    # --- traces -----------------------------------------------------------------------------------

    def _is_over(self, ask: TraceQuery | TracingQuery) -> bool:
        return self._node.phase((ask.job, ask.attempt)) in (None, AttemptPhase.ENDED)

    async def _summary(self, ask: TraceQuery) -> bytes:
        path = self._jobs / folder_name(ask.job, ask.attempt) / SUMMARY_FILE
        await self._settled(ask)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            pass
        running = await self._summaries()
        for key, (_, summary) in running.items():
            if key == (ask.job, ask.attempt):
                return msgspec.json.encode(summary)
        raise NotFound(f"job {ask.job} has no trace on node {self._name}: nothing of it was traced")

    async def _settled(self, ask: TraceQuery) -> None:
        """A job that is over soon has its summary on disk."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ask.wait_s
        while self._node.phase((ask.job, ask.attempt)) is AttemptPhase.SETTLING:
            if loop.time() >= deadline:
                return
            await asyncio.sleep(0.01)

    async def _timeline(self, ask: TraceQuery) -> TraceReply:
        folder = self._jobs / folder_name(ask.job, ask.attempt)
        await self._settled(ask)
        path = folder / TIMELINE_FILE
        if not path.exists():
            path = folder / LIVE_TIMELINE
            if (folder / SUMMARY_FILE).exists():
                raise NotFound(f"job {ask.job} has no timeline: {NO_SEGMENT}")
            if ask.offset == 0 or not path.exists():  # later pieces are of the same file
                await self._ask_tracer(self._tracer.timeline, (ask.job, ask.attempt), path)
        return _piece_of(path, ask)

    async def _tracing(self, ask: TracingQuery) -> TracingView:
        try:
            view: TracingView = await self._ask_tracer(self._tracer.tracing, ask)
        except NotFound:
            if ask.do == "open" or not self._is_over(ask):
                raise
            return stored_view(self._jobs / folder_name(ask.job, ask.attempt))
        return view

    async def _window(self, ask: TraceQuery) -> TraceReply:
        """A piece of a window's file; nothing yet while it is open."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ask.wait_s
        look = TracingQuery("look", ask.job, ask.attempt, "")
        while True:
            window = (await self._tracing(look)).window
            if window is None or window.window != ask.window:
                raise NotFound(f"the newest window of job {ask.job} has another number")
            if window.state == "ready":
                folder = self._jobs / folder_name(ask.job, ask.attempt)
                return _piece_of(folder / WINDOW_TIMELINE_FILE, ask)
            if window.state == "failed":
                raise StokerError(f"nothing was kept of the window: {window.reason}")
            if loop.time() >= deadline:
                return TraceReply(b"", ask.offset, eof=False)
            await asyncio.sleep(WINDOW_LOOK_S)

    async def _kernels(self, job: int) -> bytes:
        rows = [
            KernelRow(
                key[0],
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
            )
            for key, (_, summary) in (await self._summaries()).items()
            if job in (0, key[0])
            for kernel in summary.kernels
        ]
        rows.sort(key=lambda row: -row.total_ns)
        data = msgspec.json.encode(rows[:KERNEL_ROWS_MAX])
        while len(data) > wire.CHUNK_BYTES_MAX:
            rows = rows[: min(len(rows), KERNEL_ROWS_MAX) // 2]
            data = msgspec.json.encode(rows)
        return data

    async def _summaries(self) -> Summaries:
        found: Summaries = await self._ask_tracer(self._tracer.summaries)
        return found

    async def _ask_tracer(self, order: Callable[..., None], *arguments: Any) -> Any:
        """Give the tracing thread an order and wait for what comes of it."""
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


def _piece_of(path: Path, ask: TraceQuery) -> TraceReply:
    with path.open("rb") as file:
        file.seek(ask.offset)
        data, size = file.read(ask.limit), path.stat().st_size
    end = ask.offset + len(data)
    return TraceReply(data, end, eof=end >= size, size=size)


def _piece(data: bytes, ask: TraceQuery, *, whole: bool) -> TraceReply:
    """The asked part of `data`; `whole`: it will not grow."""
    part = data[ask.offset : ask.offset + ask.limit]
    end = ask.offset + len(part)
    return TraceReply(part, end, eof=end >= len(data), size=len(data) if whole else None)
