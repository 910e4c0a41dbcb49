# SPDX-License-Identifier: Apache-2.0
"""Reads the jobs that a recording shows: a row for each, and one for all jobs of a large array.

The sampler relies on it. Owns the bound: an array of any size costs one row, and a page of those of
its jobs that run or went wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from stoker.mesh.client.client import Client
from stoker.mesh.wire.schema import JobView, ListRequest
from stoker.native.errors import BadRequest
from stoker.scheduler.nouns import ENDED, JobState

JOBS_MAX: Final = 10_000
"""The most jobs whose rows are read."""
JOBS_OF_PAGE: Final = 200
"""The most jobs of one request; beside those that are not over, so many that are over are kept."""
SINGLY_MAX: Final = 256
"""The most jobs of an array that has a row for each of them."""
PARTS_MAX: Final = 100
"""The most arrays in one request."""
TELLING: Final[tuple[JobState, ...]] = (
    "running", "starting", "stopping", "failed", "timeout", "lost",
)  # fmt: skip
"""The states of the jobs of a large array that have rows of their own."""


class SampledJobs(NamedTuple):
    """The jobs as they were read, newest first."""

    rows: Sequence[JobView]
    """The jobs, of which one row stands for a large array."""
    of_arrays: Sequence[JobView]
    """The newest jobs of large arrays that run or went wrong."""
    is_all: bool
    """True if there are no others."""

    @property
    def singly(self) -> list[JobView]:
        """Each job by itself: of a large array those that run, went wrong, or wait first."""
        found = {job.job: job for job in self.of_arrays}
        for row in self.rows:
            array = row.array
            if array is None or array.states is None:
                found[row.job] = row
            elif array.waiting is not None:
                found[array.waiting] = replace(row, job=array.waiting, state="pending")
        return [found[job] for job in sorted(found, reverse=True)]


class JobReader:
    """Reads the jobs of a client's user."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._whole_arrays = True
        """True as long as no scheduler has said that it knows no rows of arrays."""

    async def read(self) -> SampledJobs:
        """Read all jobs that are not over, and the newest page of those that are."""
        try:
            listed, is_all = await self._listed()
        except BadRequest:  # a scheduler of an older version
            self._whole_arrays = False
            listed, is_all = await self._listed()
        small, large = _sorted_out(listed)
        alone = [row for row in listed if row not in small]
        found = await self._jobs_of(small)
        telling = await self._telling(large) if large else []
        rows = sorted((*alone, *found), key=lambda job: -job.job)
        return SampledJobs(rows, telling, is_all)

    async def _listed(self) -> tuple[list[JobView], bool]:
        """Return the rows of the list, and whether there are no others."""
        rows: list[JobView] = []
        request = ListRequest(limit=JOBS_OF_PAGE, arrays=self._whole_arrays)
        async for page in self._client.pages(request):
            rows += page.jobs
            over = all(job.state in ENDED for job in page.jobs)
            if page.next is None or over or len(rows) >= JOBS_MAX:
                return rows, page.next is None
        return rows, True

    async def _jobs_of(self, arrays: Sequence[JobView]) -> list[JobView]:
        """Return each job of small arrays."""
        found: list[JobView] = []
        for at in range(0, len(arrays), PARTS_MAX):
            select = ",".join(map(_span, arrays[at : at + PARTS_MAX]))
            async for page in self._client.pages(ListRequest(select=select, limit=JOBS_OF_PAGE)):
                found += page.jobs
        return found

    async def _telling(self, arrays: Sequence[JobView]) -> list[JobView]:
        """Return the newest jobs of large arrays that run or went wrong."""
        select = ",".join(map(_span, arrays[:PARTS_MAX]))
        request = ListRequest(select=select, states=TELLING, limit=JOBS_OF_PAGE)
        async for page in self._client.pages(request):
            if page.jobs or page.next is None:
                return list(page.jobs)
        return []


def _sorted_out(listed: Sequence[JobView]) -> tuple[list[JobView], list[JobView]]:
    """Return the rows of arrays whose jobs are read one by one, and those of the others."""
    small, large, jobs = [], [], len(listed)
    for row in listed:
        if row.array is None or row.array.states is None:
            continue
        most = JOBS_OF_PAGE if row.state in ENDED else JOBS_MAX
        if row.array.size <= SINGLY_MAX and jobs + row.array.size <= most:
            small.append(row)
            jobs += row.array.size
        else:
            large.append(row)
    return small, large


def _span(row: JobView) -> str:
    """Return the selection of all jobs of an array."""
    assert row.array is not None
    return f"{row.array.first}-{row.array.first + row.array.size - 1}"
