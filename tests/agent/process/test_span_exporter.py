# SPDX-License-Identifier: Apache-2.0
"""Each job that ended is passed to the collector once, by whichever node leads, or is counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from fakes.node import job_view

from stoker.agent.export.otlp_sender import Tried
from stoker.agent.process import leader_places, span_exporter
from stoker.agent.process.leader_places import LeaderPlaces
from stoker.agent.process.span_exporter import (
    FILE,
    HAND_OVER_S,
    JOBS_A_PUSH,
    LOOK_BACK_S,
    SpanExporter,
)
from stoker.agent.state.otlp_config import OtlpConfig
from stoker.agent.state.span_environment import SpanTarget
from stoker.mesh.wire.schema import JobView, ListRequest
from stoker.mesh.wire.schema_telemetry import (
    TelemetryMessage,
    TelemetryReadRequest,
    TelemetryView,
)

TIMES = {"submitted_ns": 1000, "placed_ns": 3000, "started_ns": 3500, "ended_ns": 9000}
NS = 10**9


class Leader:
    """The cluster as the exporter sees it: kept events, jobs, who leads; and the collector."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int]] = []
        """(job, when its end was told)."""
        self.gap = False
        self.leads = True
        self.looked_back_s: list[float] = []
        self.answers: list[Tried] = []
        self.requests: list[bytes] = []
        self.requested: list[list[int]] = []

    async def telemetry(self, request: TelemetryReadRequest) -> TelemetryView:
        after = request.after or 0
        if not after:
            self.looked_back_s.append(request.since_s)
        rows = [
            TelemetryMessage(number, t_ns, "", {"job": job, "what": "succeeded"})
            for number, (job, t_ns) in enumerate(self.kept, 1)
            if number > after
        ]
        return TelemetryView("events", tuple(rows), gap=self.gap and bool(rows))

    async def list_all(self, request: ListRequest) -> AsyncIterator[JobView]:
        jobs = [int(each) for each in request.select.split(",")]
        self.requested.append(jobs)
        for job in jobs:
            yield msgspec.convert(job_view(job, times=TIMES, name="train"), JobView)

    def send(self, body: bytes) -> Tried:
        self.requests.append(body)
        return self.answers.pop(0) if self.answers else Tried()


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> Leader:
    made = Leader()

    @contextlib.asynccontextmanager
    async def opened(state: str, *, patience_s: float) -> AsyncIterator[Leader]:
        yield made

    monkeypatch.setattr(span_exporter, "Client", SimpleNamespace(open=opened))
    monkeypatch.setattr(span_exporter, "sender", lambda *_: made)
    figures = SimpleNamespace(read=lambda *_: SimpleNamespace(leads=made.leads))
    monkeypatch.setattr(leader_places, "scheduler_metrics", figures)
    return made


def exporter(folder: Path) -> SpanExporter:
    target = SpanTarget(OtlpConfig(endpoint="http://127.0.0.1:1"), "/v1/traces", 1.0)
    return SpanExporter(LeaderPlaces(folder, folder, folder), target, {"host.name": "node1"}, "c")


def looks(made: SpanExporter, leader: Leader, count: int = 1) -> None:
    """Let the leader lead for so many looks: without its thread, which rests between them."""
    left = [count]

    async def pause(_: float) -> None:
        left[0] -= 1
        leader.leads = left[0] > 0

    made._thread = cast(Any, SimpleNamespace(stopping=False, pause=pause, say=lambda _: None))
    leader.leads = True
    asyncio.run(made._attempt())


def sent(made: SpanExporter) -> dict[str, int]:
    """The counters, the jobs' number in place of that of their spans."""
    each = len(cast(Any, made._source).spans(msgspec.convert(job_view(1, times=TIMES), JobView)))
    counted = dict(made.counters)
    return {name: n if name == "otlp_span_gaps" else n // each for name, n in counted.items()}


def test_jobs_are_sent_in_bounded_requests_and_once(tmp_path: Path, leader: Leader) -> None:
    now_ns = time.time_ns()
    jobs = list(range(1, JOBS_A_PUSH + 6))
    leader.kept = [(job, now_ns + job) for job in jobs]
    made = exporter(tmp_path)
    looks(made, leader, 3)
    assert leader.requested == [jobs[:JOBS_A_PUSH], jobs[JOBS_A_PUSH:]]
    assert sent(made) == {"otlp_spans": len(jobs), "otlp_spans_lost": 0, "otlp_span_gaps": 0}
    assert int((tmp_path / FILE).read_bytes()) == now_ns + jobs[-1]


def test_what_a_collector_could_not_take_waits_and_what_it_refused_is_lost(
    tmp_path: Path, leader: Leader
) -> None:
    leader.kept = [(1, time.time_ns())]
    leader.answers = [Tried("it is away", retry=True), Tried("it is away", retry=True)]
    made = exporter(tmp_path)
    looks(made, leader, 2)
    assert set(sent(made).values()) == {0} and not (tmp_path / FILE).exists()
    leader.answers = [Tried("not such spans")]
    looks(made, leader)
    assert len(leader.requests) == 3
    assert sent(made) == {"otlp_spans": 0, "otlp_spans_lost": 1, "otlp_span_gaps": 0}
    looks(made, leader)
    assert len(leader.requests) == 4, "a new look goes back, and sends again what it finds"


def test_a_gap_of_telemetry_is_counted(tmp_path: Path, leader: Leader) -> None:
    leader.kept, leader.gap = [(1, time.time_ns())], True
    made = exporter(tmp_path)
    looks(made, leader)
    assert sent(made) == {"otlp_spans": 1, "otlp_spans_lost": 0, "otlp_span_gaps": 1}


@pytest.mark.parametrize(
    ("ago_s", "back_s"),
    [(None, HAND_OVER_S), (1, HAND_OVER_S), (200, 200), (5_000, LOOK_BACK_S)],
)
def test_the_next_agent_reads_on_from_what_was_sent(
    tmp_path: Path, leader: Leader, ago_s: int | None, back_s: float
) -> None:
    if ago_s is not None:
        (tmp_path / FILE).write_text(str(time.time_ns() - ago_s * NS))
    made = exporter(tmp_path)
    looks(made, leader)
    (looked_s,) = leader.looked_back_s
    assert back_s <= looked_s < back_s + 60


def test_a_leader_that_follows_another_looks_back_over_the_hand_over(
    tmp_path: Path, leader: Leader
) -> None:
    (tmp_path / FILE).write_text(str(time.time_ns() - 200 * NS))
    made = exporter(tmp_path)
    looks(made, leader)
    looks(made, leader)
    assert leader.looked_back_s[0] >= 200 and leader.looked_back_s[1] == HAND_OVER_S
    leader.kept = [(1, time.time_ns() - 90 * NS)]
    leader.answers = [Tried("it is away", retry=True)]
    looks(made, leader)  # it could not send, and another leads then
    looks(made, leader)
    assert 90 < leader.looked_back_s[3] < 150
    assert sent(made)["otlp_spans"] == 1


def test_who_does_not_lead_reads_nothing(tmp_path: Path, leader: Leader) -> None:
    made = exporter(tmp_path)
    leader.leads = False
    asyncio.run(made._attempt())
    assert leader.looked_back_s == []
