# SPDX-License-Identifier: Apache-2.0
"""The export of events: a thread of the leader's node that sends each as a log record.

It reads kept telemetry with a loop and a connection of its own, as the export of spans does. Owns
that an event is passed only when a collector took or refused it, and that its place is on disk: an
agent that is killed goes on behind what was sent. After a change of the leader events can be sent
twice, and the `log.record.uid` of one event is then the same.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from stoker import __version__
from stoker.agent.export.event_logs import SCOPE, EventLogSource
from stoker.agent.export.otlp_sender import LOGS_METHOD, OtlpSender, sender
from stoker.agent.process.leader_places import LeaderPlaces
from stoker.agent.process.loop_thread import SHARE, LoopThread
from stoker.agent.state.signal_environment import Destination
from stoker.mesh.client.client import Client
from stoker.mesh.client.kept_telemetry import KindReader, LastRead
from stoker.native import durable_file
from stoker.native.structured_log import structlog
from stoker.probes.otlp import otlp_encoder
from stoker.probes.otlp.otlp_encoder import EventRecord

FILE: Final = "events_sent"
"""The file, in the agent's part of the state folder, with the last message that was sent."""
LOOK_BACK_S: Final = 600.0
"""The longest time for which telemetry keeps events."""
HAND_OVER_S: Final = 30.0
"""A new leader's node looks back so far: the one before it may not have sent these events."""
LOOK_S: Final = 1.0
"""The least time between two looks."""
LOOK_MAX_S: Final = 60.0
"""The longest time between two looks, so that telemetry keeps what was not read."""
RECORDS_A_PUSH: Final = 512
WAITING_MAX: Final = 4096
"""The most events that wait here; more of them wait in telemetry."""

_log = structlog.get_logger("events")


class EventExporter:
    """The thread. Its records have the attributes of a resource."""

    def __init__(
        self,
        places: LeaderPlaces,
        target: Destination,
        resource: Mapping[str, str],
        source: EventLogSource,
    ) -> None:
        self._places, self._file = places, places.agent / FILE
        self._target, self._resource, self._source = target, resource, source
        self._sender: OtlpSender = sender(target.config, LOGS_METHOD, target.path)
        self._waiting: deque[EventRecord] = deque()
        self._thread = LoopThread("events", self._attempt, "events are not read")
        self.counters: Counter[str] = Counter(otlp_events=0, otlp_events_lost=0, otlp_event_gaps=0)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """End; what was not sent is sent by the next agent."""
        self._thread.stop()

    # --- in the thread ----------------------------------------------------------------------------

    async def _attempt(self) -> None:
        """Send for as long as nothing fails and the scheduler beside it leads."""
        if not self._places.leads():
            return
        self._waiting.clear()  # they are read again
        reader = KindReader("events", HAND_OVER_S, self._sent())
        async with Client.open(str(self._places.root), patience_s=0.0) as client:
            while self._places.leads() and not self._thread.stopping:
                cpu_s = time.thread_time()
                await self._step(client, reader)
                cpu_s = time.thread_time() - cpu_s
                more = reader.more and not self._waiting
                rest_s = LOOK_S if more else min(self._target.config.interval_s, LOOK_MAX_S)
                await self._thread.pause(max(LOOK_S, rest_s, SHARE * cpu_s))

    async def _step(self, client: Client, reader: KindReader) -> None:
        """Read what happened, and send it, the oldest first."""
        if not self._waiting:
            reader.more = True
            while reader.more and len(self._waiting) < WAITING_MAX:
                await reader.read(client)
                self._take(reader)
        while self._waiting:
            batch = [self._waiting[i] for i in range(min(RECORDS_A_PUSH, len(self._waiting)))]
            if not self._send(batch):
                return
            for _ in batch:
                self._waiting.popleft()
        self._keep(reader.position)

    def _take(self, reader: KindReader) -> None:
        while reader.told:
            told = reader.told.popleft()
            if told.lost:
                self.counters["otlp_event_gaps"] += 1
                _log.warning("events may be missing at the collector", why=told.lost)
            else:
                self._waiting.append(self._source.record(told.row, told.t_ns))

    def _send(self, batch: list[EventRecord]) -> bool:
        """Send these records; False if they are to be sent again."""
        scope, now_ns = (SCOPE, __version__), time.time_ns()
        tried = self._sender.send(otlp_encoder.log_request(self._resource, scope, batch, now_ns))
        if tried.why:
            self._thread.say(f"events were not taken: {tried.why}")
            if tried.retry:
                return False
        self.counters["otlp_events_lost" if tried.why else "otlp_events"] += len(batch)
        return True

    def _keep(self, position: LastRead | None) -> None:
        if position is not None and position != self._sent():
            durable_file.replace(self._file, f"{position.seq} {position.t_ns}".encode())

    def _sent(self) -> LastRead | None:
        """Return the last message that was sent from here; None if that is too long ago, since
        another node has sent what came after it."""
        try:
            seq, t_ns = self._file.read_bytes().split()
            found = LastRead(int(seq), int(t_ns))
        except (OSError, ValueError):
            return None
        return found if time.time_ns() - found.t_ns < LOOK_BACK_S * 1e9 else None
