# SPDX-License-Identifier: Apache-2.0
"""What the trace of one job is given by the agent: readings of its own devices, those there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stoker.agent.jobs.start_records import Begun
from stoker.agent.tracing.job_trace import TracedJob
from stoker.agent.tracing.record_publisher import Allowance
from stoker.agent.tracing.trace_window import RecordSink
from stoker.scheduler.nouns import DeviceSample


class Fold:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.counters: list[tuple[Any, ...]] = []

    def add_counter(self, *counter: Any) -> None:
        self.counters.append(counter)


def test_readings_of_the_jobs_devices_and_no_others(tmp_path: Path) -> None:
    begun = Begun(7, 1, 1, 0, 5.0, "full", 1000, ("GPU-1",))
    job = TracedJob(
        begun,
        tmp_path / "segments",
        tmp_path / "store",
        began_ns=0,
        cgroup_id=0,
        host=None,
        dropped={},
        feed=lambda: None,
        way=RecordSink("n", lambda subject, data: None, Allowance()),
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
