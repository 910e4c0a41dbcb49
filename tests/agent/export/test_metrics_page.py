# SPDX-License-Identifier: Apache-2.0
"""The page of a node for readers who may see all jobs, their own, or none."""

from __future__ import annotations

import pytest
from prometheus_client import parser

from stoker.agent.export.metrics_page import (
    EVERYBODY,
    NOBODY,
    SERIES_MAX,
    PageSource,
    page,
)
from stoker.agent.export.node_metrics import JobReading, NodeReading
from stoker.agent.jobs.start_records import StartRecord
from stoker.probes.kernels.job_trace import KernelSummary, TimeWindow, TraceSummary
from stoker.scheduler.nouns import DeviceInfo, TaskKey

SOURCE = PageSource("node1", {"host.name": "node1"})
INFO = DeviceInfo("GPU-1", "nvidia", "H200", memory_bytes=9)


def job(number: int, uid: int, kernels: int = 1) -> JobReading:
    rows = tuple(KernelSummary(f"secret{number}-{i}", 1, 1, 1, 1) for i in range(kernels))
    summary = TraceSummary("full", TimeWindow(0, 1), rows)
    return JobReading(
        TaskKey(number, 1, 0), f"name{number}", 1, "full", 0, summary, user="u", uid=uid
    )


def start(number: int, uid: int) -> StartRecord:
    return StartRecord(number, 1, 0, 0, 0, uid, 5.0, devices=("GPU-1",), name=f"name{number}")


READING = NodeReading(
    1, (INFO,), (), (job(1, 1001), job(2, 1002)), {}, starts=(start(1, 1001), start(2, 1002))
)


@pytest.mark.parametrize(
    ("reader", "sees"), [(EVERYBODY, {1, 2}), (NOBODY, set()), (1001, {1}), (4, set())]
)
def test_a_reader_sees_the_jobs_that_he_may_see_and_all_else(reader: int, sees: set[int]) -> None:
    text = page(SOURCE, READING, reader, "text").body.decode()
    families = {each.name: each for each in parser.text_string_to_metric_families(text)}
    seen = {
        int(sample.labels["stoker_job_id"])
        for each in families.values()
        for sample in each.samples
        if "stoker_job_id" in sample.labels
    }
    assert seen == sees
    for number in (1, 2):
        assert (f"name{number}" in text) == (number in sees)
        assert (f"secret{number}" in text) == (number in sees)
    assert {"hw_status", "target_info", "hw_gpu_memory_limit_bytes"} <= families.keys()


def test_a_flood_of_jobs_is_cut_and_counted() -> None:
    many = tuple(job(number, 1, 200) for number in range(400))
    reading = NodeReading(1, (INFO,), (), many, {})
    made = page(SOURCE, reading, EVERYBODY, "openmetrics")
    assert made.series <= SERIES_MAX and made.refused.total() > 400
    assert b"hw_gpu_memory_limit_bytes" in made.body, "devices come before jobs"
