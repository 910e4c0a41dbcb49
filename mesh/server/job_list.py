# SPDX-License-Identifier: Apache-2.0
"""One page of the list of jobs: a row for each job, or for each array that was requested whole.

Pure. Owns the bounds of a page, which keep the time of one request short. An array is never divided
between two pages, so that its row counts all of its jobs that are listed.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from stoker.mesh.replica.replica import Replica
from stoker.mesh.server import cluster_views, explanation, job_views
from stoker.mesh.server.listed_jobs import STATES, WholeArray, listed
from stoker.mesh.wire import schema
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import JobState

ROWS_AT_ONCE: Final = 200
"""The most rows of a page."""
JOBS_AT_ONCE: Final = 4096
"""A page looks at no further job or array once it has looked at so many jobs."""
WAITS_TOLD: Final = 64
"""The rows of a page whose reason to wait is told; each is a question to the core."""


class _Array:
    """The jobs of one array that are listed, of which the newest come first."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.states: Counter[JobState] = Counter()
        self._oldest: dict[JobState, int] = {}

    def add(self, job: int, state: JobState) -> None:
        """Count one more job, older than those before."""
        self.states[state] += 1
        self._oldest[state] = job

    def counts(self) -> dict[str, int]:
        """Return how many are in each state, in the order of STATES."""
        return {state: self.states[state] for state in STATES if state in self.states}

    def shown(self) -> int:
        """Return the job whose row stands for the array."""
        return next(self._oldest[state] for state in STATES if state in self._oldest)

    def waiting(self) -> int | None:
        """Return the oldest job that waits, if one does."""
        return self._oldest.get("pending")


class _Page:
    """The rows so far, and what they take of the bounds."""

    def __init__(self, replica: Replica, most: int) -> None:
        self._replica, self._most = replica, min(most, ROWS_AT_ONCE)
        self.rows: list[msgspec.Raw] = []
        """The rows as they are sent, so that each is encoded once."""
        self._size = self._told = 0
        self._ahead: dict[int, schema.JobView] = {}
        """One job that waits in it of each array: the others differ in number and index alone."""

    def is_full(self) -> bool:
        """Return True if there is no room for a further row."""
        return len(self.rows) == self._most or self._size > schema.REPLY_BYTES_MAX - 8192

    def add(self, job: int, waiting: int | None, states: dict[str, int] | None = None) -> None:
        """Append the row of a job, or of the array whose jobs are in these states."""
        view = self._view(job)
        if states is not None and view.array is not None:
            view = replace(view, array=replace(view.array, states=states, waiting=waiting))
        if waiting is not None and self._told < WAITS_TOLD and self._replica.role == "leading":
            self._told += 1
            record, now_ns = self._record(waiting), self._replica.real_ns
            view = replace(view, waits=explanation.why_it_waits(self._replica, record, now_ns))
        row = msgspec.Raw(schema.encode(view))
        self._size += len(row)
        self.rows.append(row)

    def _view(self, job: int) -> schema.JobView:
        """Return one job as it is shown."""
        array = self._replica.state.book.arrays.of(job)
        if array is None or not array.is_ahead(job):
            return job_views.job_view(self._replica, self._record(job), short=True)
        if (view := self._ahead.get(array.first)) is None:
            view = job_views.job_view(self._replica, self._record(job), short=True)
            self._ahead[array.first] = view
        assert view.array is not None
        index = array.image.indexes.at(job - array.first)
        return replace(view, job=job, array=replace(view.array, index=index))

    def _record(self, job: int) -> Job:
        """Return the record of a job; the jobs that its user removed are looked up, not all."""
        book = self._replica.state.book
        array = book.arrays.of(job)
        return book.get(job, array.owner.user if array is not None else None)

    def add_array(self, array: _Array | WholeArray) -> None:
        """Append the row of an array; one of its jobs alone is listed as itself."""
        if not array.states:
            return
        counts = array.counts() if array.states.total() > 1 else None
        self.add(array.shown(), array.waiting(), counts)


def job_list(replica: Replica, request: schema.ListRequest, scope: str | None, me: str) -> bytes:
    """Return as many rows as requested, as fit and as one request may take; `next` continues."""
    book = replica.state.book
    chosen = book.select(request.select, scope, me)
    page = _Page(replica, request.limit)
    job, following = 0, None
    array: _Array | None = None
    for looked, (number, state) in enumerate(listed(book, request, scope, me)):
        if array is not None and number < array.first:
            page.add_array(array)
            array = None
        if array is None and (page.is_full() or looked >= JOBS_AT_ONCE):
            following = job
            break
        job = number
        if isinstance(state, WholeArray):
            page.add_array(state)
            continue
        if not chosen(job) or (request.states and state not in request.states):
            continue
        if array is None and request.arrays:
            array = _array_of(replica, job)
        if array is not None:
            array.add(job, state)
        else:
            page.add(job, job if state == "pending" else None)
    if array is not None:
        page.add_array(array)
    position = cluster_views.position(replica)
    rows = cast("tuple[schema.JobView, ...]", tuple(page.rows))
    return schema.encode(schema.JobList(jobs=rows, next=following, position=position))


def _array_of(replica: Replica, job: int) -> _Array | None:
    """Return the array of a job, with no job yet; its numbers follow one another."""
    spec = replica.state.book.get(job).decoded_spec()
    return _Array(job - spec.array_place) if spec.array_size > 1 else None
