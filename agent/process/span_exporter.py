# SPDX-License-Identifier: Apache-2.0
"""The export of spans: a thread of the leader's node that sends the trace of each job that ended.

It has a loop and a connection of its own, like the recorder. It reads which jobs ended from kept
telemetry and what the log has of them, so that it remembers nothing. Owns that a job is passed only
when a collector took or refused its spans; telemetry waits for ten minutes, and what is gone by
then is counted. OpenTelemetry's SDK is loaded by this thread, where spans are exported, alone.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stoker import __version__
from stoker.agent.export.otlp_sender import TRACES_METHOD, OtlpSender, sender
from stoker.agent.process.leader_places import LeaderPlaces
from stoker.agent.process.loop_thread import SHARE, LoopThread
from stoker.agent.state.span_environment import SpanTarget
from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import KindReader
from stoker.mesh.wire.schema import JobView, ListRequest
from stoker.native import durable_file
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import ENDED

if TYPE_CHECKING:
    from stoker.agent.export.job_spans import SpanSource

FILE: Final = "spans_sent"
"""The file, in the agent's part of the state folder, with the time up to which all was sent."""
LOOK_BACK_S: Final = 600.0
"""The longest time for which telemetry has the ends of jobs."""
HAND_OVER_S: Final = 30.0
"""A new leader's node looks back so far: the one before it may not have sent these ends."""
LOOK_S: Final = 1.0
"""The least time between two looks."""
LOOK_MAX_S: Final = 60.0
"""The longest time between two looks, so that telemetry keeps what was not read."""
JOBS_A_PUSH: Final = 64
WAITING_MAX: Final = 4096
"""The most ended jobs that wait here; more of them wait in telemetry."""

_log = structlog.get_logger("spans")


class SpanExporter:
    """The thread. Its spans are of the jobs of `cluster`, with the attributes of a resource."""

    def __init__(
        self, places: LeaderPlaces, target: SpanTarget, resource: Mapping[str, str], cluster: str
    ) -> None:
        self._places, self._file = places, places.agent / FILE
        self._target, self._resource, self._cluster = target, resource, cluster
        self._sender: OtlpSender = sender(target.config, TRACES_METHOD, target.path)
        self._waiting: deque[tuple[int, int]] = deque()
        """(job, when its end was told), the oldest first."""
        self._since_s = 0.0
        self._source: SpanSource | None = None
        self._thread = LoopThread("spans", self._attempt, "traces are not read")
        self.counters: Counter[str] = Counter(otlp_spans=0, otlp_spans_lost=0, otlp_span_gaps=0)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """End; what was not sent is sent by the next agent."""
        self._thread.stop()

    # --- in the thread ----------------------------------------------------------------------------

    async def _attempt(self) -> None:
        """Send for as long as nothing fails and the scheduler beside it leads."""
        if self._source is None and not self._load():
            self._thread.give_up()
            return
        since_s, self._since_s = self._since_s, HAND_OVER_S
        if self._places.leads() and self._source is not None:
            await self._lead(self._source, since_s)

    def _load(self) -> bool:
        """Load OpenTelemetry's SDK; False if it is not installed."""
        try:
            from stoker.agent.export.job_spans import SpanSource
        except ImportError as error:
            _log.warning("no traces are exported", why=str(error), hint="pip install stoker[otel]")
            return False
        ratio = self._target.ratio
        self._source = SpanSource(self._cluster, self._resource, __version__, ratio)
        self._since_s = self._not_sent_s()
        return True

    async def _lead(self, source: SpanSource, since_s: float) -> None:
        reader = KindReader("events", max(since_s, self._lag_s()))
        async with Client.open(str(self._places.root), patience_s=0.0) as client:
            while self._places.leads() and not self._thread.stopping:
                cpu_s = time.thread_time()
                await self._step(client, reader, source)
                cpu_s = time.thread_time() - cpu_s
                more = reader.more and not self._waiting
                rest_s = LOOK_S if more else min(self._target.config.interval_s, LOOK_MAX_S)
                await self._thread.pause(max(LOOK_S, rest_s, SHARE * cpu_s))

    async def _step(self, client: Client, reader: KindReader, source: SpanSource) -> None:
        """Read which jobs have ended, and send the spans of the oldest ones."""
        reader.more = True
        while reader.more and len(self._waiting) < WAITING_MAX:
            await reader.read(client)
            self._take(reader)
        while self._waiting:
            batch = [self._waiting[i] for i in range(min(JOBS_A_PUSH, len(self._waiting)))]
            if not await self._send(client, source, batch):
                return
            for _ in batch:
                self._waiting.popleft()
            durable_file.replace(self._file, str(batch[-1][1]).encode())

    def _take(self, reader: KindReader) -> None:
        while reader.told:
            told = reader.told.popleft()
            if told.lost:
                self.counters["otlp_span_gaps"] += 1
                _log.warning("jobs may have no trace", why=told.lost)
            elif told.row.get("what") in ENDED and isinstance(told.row.get("job"), int):
                self._waiting.append((told.row["job"], told.t_ns))

    async def _send(self, client: Client, source: SpanSource, batch: list[tuple[int, int]]) -> bool:
        """Send the spans of these jobs; False if they are to be sent again."""
        from stoker.agent.export import job_spans

        jobs = await _views(client, [job for job, _ in batch])
        spans = [span for job in jobs for span in source.spans(job)]
        if not spans:
            return True
        tried = self._sender.send(job_spans.request(spans))
        if tried.why:
            self._thread.say(f"traces were not taken: {tried.why}")
            if tried.retry:
                return False
        self.counters["otlp_spans_lost" if tried.why else "otlp_spans"] += len(spans)
        return True

    def _not_sent_s(self) -> float:
        """Return how long ago the last job was sent, by the agent before this one too."""
        try:
            sent_ns = int(self._file.read_bytes())
        except (OSError, ValueError):
            return HAND_OVER_S
        return min(max((time.time_ns() - sent_ns) / 1e9, HAND_OVER_S), LOOK_BACK_S)

    def _lag_s(self) -> float:
        """Return how long ago the oldest job ended that waits here."""
        oldest_ns = self._waiting[0][1] if self._waiting else time.time_ns()
        self._waiting.clear()  # they are read again
        return min((time.time_ns() - oldest_ns) / 1e9 + 1, LOOK_BACK_S)


async def _views(client: Client, jobs: list[int]) -> list[JobView]:
    """Return what the log has of these jobs; the ranks of a gang are requested one by one."""
    request = ListRequest(select=",".join(map(str, jobs)), limit=len(jobs))
    found = [job async for job in client.list_all(request)]
    return [await client.get(job.job) if job.nodes else job for job in found]
