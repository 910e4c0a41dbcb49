# SPDX-License-Identifier: Apache-2.0
"""Each event reaches the collector, by whichever node leads, or is counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2

from stoker.agent.export.event_logs import EventLogSource
from stoker.agent.export.otlp_sender import Tried
from stoker.agent.process import event_exporter, leader_places
from stoker.agent.process.event_exporter import FILE, HAND_OVER_S, RECORDS_A_PUSH, EventExporter
from stoker.agent.process.leader_places import LeaderPlaces
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.signal_environment import Destination
from stoker.mesh.wire.schema_telemetry import (
    TelemetryMessage,
    TelemetryReadRequest,
    TelemetryView,
)

NS = 10**9


class Cluster:
    """The cluster as the exporter sees it: kept events, who leads; and the collector."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int]] = []
        """(job, when it was told)."""
        self.gap = False
        self.leads = True
        self.looked: list[tuple[float, int]] = []
        """(seconds back, number of the last message read before) of each first request."""
        self.answers: list[Tried] = []
        self.requests: list[list[int]] = []
        """The jobs of each request."""
        self._new = True

    async def telemetry(self, request: TelemetryReadRequest) -> TelemetryView:
        if self._new:
            self.looked.append((request.since_s, request.after or 0))
            self._new = False
        rows = [
            TelemetryMessage(number, t_ns, "", {"job": job, "what": "submitted"})
            for number, (job, t_ns) in enumerate(self.kept, 1)
            if number > (request.after or 0)
        ]
        return TelemetryView("events", tuple(rows), gap=self.gap and bool(rows))

    def send(self, body: bytes) -> Tried:
        request = logs_service_pb2.ExportLogsServiceRequest()
        request.ParseFromString(body)
        records = request.resource_logs[0].scope_logs[0].log_records
        self.requests.append(
            [
                each.value.int_value
                for record in records
                for each in record.attributes
                if each.key == "stoker.job.id"
            ]
        )
        return self.answers.pop(0) if self.answers else Tried()

    def begins(self) -> None:
        """The next request is the first one of a reader."""
        self._new = True


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    @contextlib.asynccontextmanager
    async def opened(state: str, *, patience_s: float) -> AsyncIterator[Cluster]:
        yield made

    monkeypatch.setattr(event_exporter, "Client", SimpleNamespace(open=opened))
    monkeypatch.setattr(event_exporter, "sender", lambda *_: made)
    figures = SimpleNamespace(read=lambda *_: SimpleNamespace(leads=made.leads))
    monkeypatch.setattr(leader_places, "scheduler_metrics", figures)
    return made


def exporter(folder: Path) -> EventExporter:
    target = Destination(OtlpConfig(endpoint="http://127.0.0.1:1"), "/v1/logs")
    places = LeaderPlaces(folder, folder, folder)
    return EventExporter(places, target, {"host.name": "node1"}, EventLogSource("c", 1.0))


def looks(made: EventExporter, cluster: Cluster, count: int = 1) -> None:
    """Let the node lead for so many looks: without its thread, which rests between them."""
    left = [count]

    async def pause(_: float) -> None:
        left[0] -= 1
        cluster.leads = left[0] > 0

    made._thread = cast(Any, SimpleNamespace(stopping=False, pause=pause, say=lambda _: None))
    cluster.leads = True
    cluster.begins()
    asyncio.run(made._attempt())


def counted(made: EventExporter) -> tuple[int, int, int]:
    names = ("otlp_events", "otlp_events_lost", "otlp_event_gaps")
    return tuple(made.counters[name] for name in names)  # type: ignore[return-value]


def test_events_are_sent_in_bounded_requests_and_once(tmp_path: Path, cluster: Cluster) -> None:
    now_ns = time.time_ns()
    jobs = list(range(1, RECORDS_A_PUSH + 6))
    cluster.kept = [(job, now_ns + job) for job in jobs]
    made = exporter(tmp_path)
    looks(made, cluster, 3)
    assert cluster.requests == [jobs[:RECORDS_A_PUSH], jobs[RECORDS_A_PUSH:]]
    assert counted(made) == (len(jobs), 0, 0)
    cluster.kept.append((9999, now_ns))
    looks(exporter(tmp_path), cluster)
    assert cluster.requests[2:] == [[9999]], "the next agent goes on behind what was sent"


def test_what_a_collector_could_not_take_waits_and_what_it_refused_is_lost(
    tmp_path: Path, cluster: Cluster
) -> None:
    cluster.kept = [(1, time.time_ns())]
    cluster.answers = [Tried("it is away", retry=True), Tried("it is away", retry=True)]
    made = exporter(tmp_path)
    looks(made, cluster, 2)
    assert counted(made) == (0, 0, 0) and not (tmp_path / FILE).exists()
    cluster.answers = [Tried("no such signal")]
    looks(made, cluster)
    assert cluster.requests == [[1], [1], [1]] and counted(made) == (0, 1, 0)
    looks(made, cluster)
    assert len(cluster.requests) == 3, "it is not sent again"


def test_a_gap_of_telemetry_is_counted(tmp_path: Path, cluster: Cluster) -> None:
    cluster.kept, cluster.gap = [(1, time.time_ns())], True
    made = exporter(tmp_path)
    looks(made, cluster)
    assert counted(made) == (1, 0, 1)


@pytest.mark.parametrize(("ago_s", "after"), [(None, 0), (200, 7), (5_000, 0)])
def test_an_agent_goes_on_where_it_was_unless_that_is_too_long_ago(
    tmp_path: Path, cluster: Cluster, ago_s: int | None, after: int
) -> None:
    if ago_s is not None:
        (tmp_path / FILE).write_text(f"7 {time.time_ns() - ago_s * NS}")
    looks(exporter(tmp_path), cluster)
    assert cluster.looked == [(HAND_OVER_S, after)]


def test_a_damaged_file_is_as_none(tmp_path: Path, cluster: Cluster) -> None:
    (tmp_path / FILE).write_text("seven")
    looks(exporter(tmp_path), cluster)
    assert cluster.looked == [(HAND_OVER_S, 0)]


def test_who_does_not_lead_reads_nothing(tmp_path: Path, cluster: Cluster) -> None:
    cluster.leads = False
    asyncio.run(exporter(tmp_path)._attempt())
    assert cluster.looked == []
