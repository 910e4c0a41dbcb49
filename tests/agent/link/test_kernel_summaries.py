# SPDX-License-Identifier: Apache-2.0
"""Kernel summaries on their way out: what is told, what is left out, and what a reader learns."""

from __future__ import annotations

import json
from typing import Any

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.link.kernel_summaries import KERNELS_MAX, SUMMARIES_A_SECOND, KernelSummaries
from stoker.mesh.wire import subjects
from stoker.probes.kernels.job_trace import (
    Causes,
    DeviceRow,
    KernelSummary,
    RecordCounts,
    TimeWindow,
    TraceSummary,
)
from stoker.scheduler.nouns import TaskKey

Found = dict[TaskKey, tuple[StartRecord, TraceSummary]]


def found(job: int, folded: int, kernels: int = 1) -> Found:
    record = StartRecord(
        job, 1, 0, 9, 65_536 + job, 1000, 5.0, "full", 1000, ("d",), "x", (), "eve"
    )
    rows = tuple(KernelSummary(f"k{n}", 2, 100 - n, 40, 60) for n in range(kernels))
    device = DeviceRow("d", 1000, Causes(kernel_ns=1000))
    counts = RecordCounts(folded, folded, 0)
    summary = TraceSummary(
        "full", TimeWindow(0, 1000), rows, devices=(device,), records=counts, absent={"a": "why"}
    )
    return {record.key: (record, summary)}


def told(messages: list[tuple[str, bytes]]) -> list[dict[str, Any]]:
    return [json.loads(data) for _, data in messages]


def test_a_summary_is_told_when_it_has_grown_and_at_the_end() -> None:
    summaries = KernelSummaries("n1")
    ((subject, data),) = summaries.running(found(3, 10), 7)
    assert subject == subjects.kernels("eve", "n1", 3)
    first = json.loads(data)
    assert (first["job"], first["number"], first["final"], first["t_ns"]) == (3, 0, False, 7)
    assert first["decision"] == 65_539 and first["absent"] == {"a": "why"}
    assert first["devices"][0]["causes"]["kernel_ns"] == 1000
    assert summaries.running(found(3, 10), 8) == []
    (second,) = told(summaries.running(found(3, 11), 9))
    assert second["number"] == 1
    ((record, summary),) = found(3, 11).values()
    last = json.loads(summaries.ended(record, summary, 10)[1])
    assert (last["number"], last["final"]) == (2, True)


def test_a_job_that_launched_nothing_is_told_once_at_its_end() -> None:
    summaries = KernelSummaries("n1")
    assert summaries.running(found(3, 0, kernels=0), 7) == []
    ((record, summary),) = found(3, 0, kernels=0).values()
    last = json.loads(summaries.ended(record, summary, 10)[1])
    assert (last["number"], last["kernels"], last["other"]["names"]) == (0, [], 0)


def test_kernels_beyond_the_bound_are_added_up() -> None:
    (message,) = told(KernelSummaries("n1").running(found(3, 10, KERNELS_MAX + 3), 7))
    assert [row["name"] for row in message["kernels"]] == [f"k{n}" for n in range(KERNELS_MAX)]
    others = [100 - n for n in range(KERNELS_MAX, KERNELS_MAX + 3)]
    assert message["other"] == {"names": 3, "count": 6, "total_ns": sum(others)}


def test_too_many_jobs_take_turns_and_each_learns_what_was_left_out() -> None:
    summaries = KernelSummaries("n1")
    jobs = SUMMARIES_A_SECOND + 40
    seen: list[int] = []
    left_out: dict[int, int] = {}
    for second in range(1, 3):
        every: Found = {}
        for job in range(jobs):
            every |= found(job + 1, second)
        for message in told(summaries.running(every, second)):
            seen.append(message["job"])
            left_out[message["job"]] = message["left_out"]
    assert set(seen) == set(range(1, jobs + 1))  # those that waited came first
    assert summaries.counters["kernel_summaries_left_out"] == 2 * 40
    assert sum(left_out.values()) == 40
