# SPDX-License-Identifier: Apache-2.0
"""Hidden processes are found on time, whatever else the agent waits for."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from stoker.agent.tracing import hidden_watch, untraced_processes
from stoker.agent.tracing.job_calls import JobCalls
from stoker.probes.calls.call_probes import CallProbes
from stoker.probes.calls.trap_cost import ELSEWHERE
from stoker.scheduler.nouns import TaskKey
from tests.probes.groups import eventually

KEY, CGROUP = TaskKey(5, 1, 0), 7


def hidden(calls: JobCalls) -> int:
    found = calls.hidden(CGROUP, time.monotonic_ns())
    return 0 if found is None else found.processes


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobCalls:
    """Calls of a job whose only process, this one, uses a device without a tracer."""
    monkeypatch.setattr(hidden_watch, "processes_of", lambda folder: [os.getpid()])
    monkeypatch.setattr(untraced_processes, "_kind", lambda pid, told: "hidden")
    return JobCalls(tmp_path / "cgroups", tmp_path)


def test_it_looks_while_the_probes_wait_for_the_kernel(
    calls: JobCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, over = threading.Event(), threading.Event()

    def look(_: CallProbes) -> int:
        waits.set()
        over.wait()
        return 1 << 62

    monkeypatch.setattr(calls._watch, "_make", lambda: CallProbes(ELSEWHERE))
    monkeypatch.setattr(CallProbes, "look", look)
    calls.start()
    try:
        assert waits.wait(60)
        calls.begin(KEY, CGROUP, Path("/segments"))
        calls.started([(CGROUP, os.getpid())])
        eventually(lambda: hidden(calls) == 1)
    finally:
        over.set()
        calls.close()


def test_a_job_that_cannot_be_read_costs_one_look(
    calls: JobCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([OSError("out of files")])

    def processes(folder: Path) -> list[int]:
        for error in answers:
            raise error
        return [os.getpid()]

    monkeypatch.setattr(hidden_watch, "processes_of", processes)
    monkeypatch.setattr(calls._watch, "_make", lambda: CallProbes(ELSEWHERE))
    calls.begin(KEY, CGROUP, Path("/segments"))
    calls.start()
    try:
        eventually(lambda: hidden(calls) == 1)
    finally:
        calls.close()
    assert hidden(calls) == 1
    calls.end(CGROUP)
    assert calls.hidden(CGROUP, time.monotonic_ns()) is None
