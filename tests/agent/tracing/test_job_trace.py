# SPDX-License-Identifier: Apache-2.0
"""The agent adds readings of a job's own devices to its trace."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing import untraced_processes
from stoker.agent.tracing.job_calls import JobCalls
from stoker.agent.tracing.job_governor import HostCost
from stoker.agent.tracing.job_trace import TracedJob
from stoker.agent.tracing.record_publisher import Allowance
from stoker.agent.tracing.trace_window import RecordSink
from stoker.probes.kernels.job_trace import CostRow
from stoker.scheduler.nouns import DeviceSample
from tests.probes.segment_file import SegmentFile, process_start, record


class Fold:
    """Records the counters that it gets."""

    def __init__(self) -> None:
        self.counters: list[tuple[Any, ...]] = []

    def add_counter(self, *counter: Any) -> None:
        self.counters.append(counter)


S = 1_000_000_000
CGROUP, MADE_AT = 5, 24
"""Any cgroup; where a segment says when it was made."""


def traced_job(folder: Path, host: Any = None, mode: Any = "full", **more: Any) -> TracedJob:
    begun = StartRecord(7, 1, 0, 0, os.getuid(), 0, 5.0, mode, 1000, ("pocl-0",))
    return TracedJob(
        begun,
        folder / "segments",
        folder / "store",
        host=host,
        dropped={},
        feed=lambda: None,
        sink=RecordSink("n", lambda subject, data: None, Allowance()),
        **more,
    )


@pytest.mark.parametrize("drained", [True, False], ids=["drained", "found at the end"])
def test_a_process_that_was_looked_at_as_it_loaded_its_tracer_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drained: bool
) -> None:
    """It is over before anybody looks again, so that its segment alone tells of its tracer."""
    began = time.monotonic_ns()
    (tmp_path / "segments").mkdir()
    calls = JobCalls(tmp_path / "cgroups", tmp_path)
    job = traced_job(tmp_path, began_ns=began, cgroup_id=CGROUP, calls=calls)
    job.follow()
    monkeypatch.setattr(untraced_processes, "_kind", lambda pid, told: "hidden")
    calls._hidden._jobs[CGROUP][1].look([os.getpid()], time.monotonic_ns())
    assert calls.hidden(CGROUP, time.monotonic_ns()) != untraced_processes.UntracedProcesses()
    made = time.monotonic_ns()
    (tmp_path / "store").mkdir()
    segment = SegmentFile(tmp_path / "segments", os.getpid(), process_start(os.getpid()))
    segment.put(MADE_AT, struct.pack("<Q", made))
    segment.publish(record(made + 100, made + 200))
    if drained:
        assert job.open()
        job.drain(read=False)
        assert calls.hidden(CGROUP, time.monotonic_ns()) == untraced_processes.UntracedProcesses()
    else:  # as after a long look at the folder of segments, before the next is due
        monkeypatch.setattr(job, "drain", lambda read: 0.0)
    calls._hidden._jobs[CGROUP][1].look([], time.monotonic_ns())
    summary = job.finish(time.monotonic_ns())
    assert summary.kernels and "tracer" not in summary.absent
    job.close()


class Followed:
    """Host probes that follow any job."""

    attached_ns = 0
    states: tuple[()] = ()

    def __init__(self) -> None:
        self.full: list[bool] = []

    def follow(self, job: int, full: bool) -> None:
        self.full.append(full)

    def unfollow(self, job: int) -> None:
        pass

    def dropped(self) -> dict[str, int]:
        return {}

    def pressure(self, job: int) -> None:
        return None


def test_thread_times_that_are_left_out_for_their_cost_are_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host: Any = Followed()
    job = traced_job(tmp_path, host, "governed", began_ns=0, cgroup_id=CGROUP)
    job.follow()
    for second, run_ns in enumerate((0, S // 1000, S // 20), 1):
        summary: Any = SimpleNamespace(cost=CostRow(1, 1000 * second, 1000.0, 1e-6))
        monkeypatch.setattr(time, "monotonic_ns", lambda at=second * S: at)
        job.govern(summary, HostCost(run_ns, S))
        assert host.full[1:] == ([False] if run_ns > S // 100 else [])
    said = job.finish(4 * S).absent["host spans"]
    why = "the host's programs take 5 %: thread times as totals only"
    assert said == f"{why}, for a part of the time"
    job.close()


def test_readings_of_the_jobs_devices_and_no_others(tmp_path: Path) -> None:
    begun = StartRecord(7, 1, 0, 0, 1, 0, 5.0, "full", 1000, ("GPU-1",))
    job = TracedJob(
        begun,
        tmp_path / "segments",
        tmp_path / "store",
        began_ns=0,
        cgroup_id=0,
        host=None,
        dropped={},
        feed=lambda: None,
        sink=RecordSink("n", lambda subject, data: None, Allowance()),
    )
    samples = [
        DeviceSample("GPU-1", None, 300.5, 61.0, {"busy_ratio": "no counter"}),
        DeviceSample("GPU-2", 0.5, 10.0, 20.0),
    ]
    job.add_samples(samples, 5)  # before there is a fold: nothing to put them in
    fold: Any = Fold()
    job._trace = fold
    job.add_samples(samples, 9)
    assert fold.counters == [
        ("GPU-1", "power", 9, 300.5, "W"),
        ("GPU-1", "temperature", 9, 61.0, "Cel"),
    ]
