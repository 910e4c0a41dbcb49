# SPDX-License-Identifier: Apache-2.0
"""A job with a full trace is let go when it is followed, once, and not later than after a while."""

from __future__ import annotations

import asyncio

import pytest

from stoker.agent import followed_starts
from stoker.agent.followed_starts import FollowedStarts
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.trace_thread import Done
from stoker.scheduler.nouns import TaskKey

KEY = TaskKey(7, 1, 0, 3)


class Tracer:
    """Keeps what it is to follow, and whom to tell."""

    def __init__(self) -> None:
        self.wanted: list[tuple[TaskKey, int]] = []
        self.done: list[Done] = []

    def follow(self, key: TaskKey, cgroup_id: int, done: Done) -> None:
        self.wanted.append((key, cgroup_id))
        self.done.append(done)


def record(*, first: bool) -> StartRecord:
    return StartRecord(*KEY, 1, 0, 5.0, trace="full", followed_first=first)


async def test_it_runs_when_its_threads_are_followed_and_not_before() -> None:
    tracer, released = Tracer(), list[TaskKey]()
    starts = FollowedStarts(tracer, released.extend)
    starts.prepared(record(first=True), 42)
    starts.prepared(record(first=True), 42)  # the spawner says it again
    assert (tracer.wanted, released) == ([(KEY, 42)], [])
    tracer.done[0](None)
    assert released == [KEY]
    tracer.done[0](None)
    assert released == [KEY] and not starts.counters["follow_late"]


async def test_a_rank_is_followed_early_and_waits_for_its_gang_alone() -> None:
    tracer, released = Tracer(), list[TaskKey]()
    FollowedStarts(tracer, released.extend).prepared(record(first=False), 42)
    assert tracer.wanted == [(KEY, 42)]
    tracer.done[0](None)
    assert released == []


async def test_a_tracer_that_does_not_answer_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(followed_starts, "PATIENCE_S", 0.01)
    tracer, gone = Tracer(), asyncio.get_running_loop().create_future()
    starts = FollowedStarts(tracer, gone.set_result)
    starts.prepared(record(first=True), 42)
    assert await gone == (KEY,)
    tracer.done[0](None)  # it comes too late to be told twice
    assert starts.counters["follow_late"] == 1
