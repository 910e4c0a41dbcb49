# SPDX-License-Identifier: Apache-2.0
"""The jobs of a recording: a large array is one row, with those of its jobs that tell something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest

from stoker.mesh.client.client import Client
from stoker.mesh.identity import identity
from stoker.mesh.recording import sampled_jobs
from stoker.mesh.recording.sampled_jobs import JobReader, SampledJobs
from stoker.mesh.replica import events
from stoker.mesh.server import job_list
from stoker.mesh.wire.schema import JobList, ListRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.array_indexes import parse
from stoker.scheduler.nouns import JobSpec
from tests.mesh.bench import ALICE, Bench


class Lists:
    """A client as far as jobs are listed, which counts the rows that it was sent."""

    def __init__(self, bench: Bench, *, is_older: bool = False) -> None:
        self._bench, self._is_older = bench, is_older
        self.rows = 0

    async def pages(self, request: ListRequest) -> AsyncIterator[JobList]:
        if request.arrays and self._is_older:
            raise BadRequest("no field arrays")
        while True:
            data = job_list.job_list(self._bench.replica, request, None, "alice")
            page = msgspec.json.decode(data, type=JobList)
            self.rows += len(page.jobs)
            yield page
            if page.next is None:
                return
            request = msgspec.structs.replace(request, before=page.next)


@pytest.fixture
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Job 1 alone, 2 to 5 a small array, 6 to 3005 a large one with one end and two starts."""
    made = Bench(identity.create(tmp_path_factory.mktemp("k") / "s")).lead().hello()
    made.submit("before", gpu_milli=1000)
    spec = JobSpec(("true",), gpu_milli=0, trace="off")
    made.feed(events.JobSubmitted("s", ALICE, b"", spec, (0, 1, 2, 3)))
    made.feed(events.JobSubmitted("l", ALICE, b"", spec, indexes=parse("1-3000%2", "array")))
    made.outcome(6, "failed", exit_code=3)
    return made


async def read(lists: Lists) -> SampledJobs:
    return await JobReader(cast("Client", lists)).read()


async def test_a_large_array_is_one_row_beside_each_job_of_a_small_one(bench: Bench) -> None:
    lists = Lists(bench)
    found = await read(lists)
    assert [row.job for row in found.rows] == [7, 5, 4, 3, 2, 1] and found.is_all
    array = found.rows[0].array
    assert array is not None and array.states == {"starting": 2, "pending": 2997, "failed": 1}
    assert [job.job for job in found.of_arrays] == [8, 7, 6]
    assert lists.rows < 20, "its size costs nothing"


async def test_each_job_that_tells_something_is_read_by_itself(bench: Bench) -> None:
    singly = (await read(Lists(bench))).singly
    assert [(job.job, job.state) for job in singly[:4]] == [
        (9, "pending"), (8, "starting"), (7, "starting"), (6, "failed"),
    ]  # fmt: skip
    assert [job.job for job in singly[4:]] == [5, 4, 3, 2, 1]


async def test_arrays_that_are_over_are_rows_once_a_page_is_full(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.feed(events.CancelRequested("c", [2, 3, 4, 5], "", "alice"))
    for job in (2, 3, 4, 5):
        bench.outcome(job, "cancelled")
    assert [row.job for row in (await read(Lists(bench))).rows] == [7, 5, 4, 3, 2, 1]
    monkeypatch.setattr(sampled_jobs, "JOBS_OF_PAGE", 5)
    assert [row.job for row in (await read(Lists(bench))).rows] == [7, 2, 1]


async def test_an_older_scheduler_lists_each_job(bench: Bench) -> None:
    found = await read(Lists(bench, is_older=True))
    assert len(found.rows) == 3005 and not found.of_arrays
