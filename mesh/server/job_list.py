# SPDX-License-Identifier: Apache-2.0
"""One page of the list of jobs: a row for each job, or for each array that was requested whole.

Pure. Owns the bounds of a page, which keep the time of one request short. An array is never divided
between two pages, so that its row counts all of its jobs that are listed.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from stoker.mesh.replica.replica import Replica
from stoker.mesh.server import cluster_views, explanation, job_views
from stoker.mesh.wire import schema
from stoker.scheduler.job_arrays import JobArray
from stoker.scheduler.nouns import JobState

ROWS_AT_ONCE: Final = 200
"""The most rows of a page."""
JOBS_AT_ONCE: Final = 4096
"""A page looks at no further job or array once it has looked at so many jobs."""
WAITS_TOLD: Final = 64
"""The rows of a page whose reason to wait is told; each is a question to the core."""
STATES: Final[tuple[JobState, ...]] = (
    "running", "starting", "stopping", "pending",
    "failed", "timeout", "lost", "cancelled", "succeeded",
)  # fmt: skip
"""The states in the order in which one of them stands for a whole array: what goes on comes before
what is over, and what went wrong before what did not."""


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


class _WholeArray:
    """An array that the book has as one, of which all jobs are selected; those in some states
    count."""

    def __init__(self, array: JobArray, states: tuple[JobState, ...]) -> None:
        self.first, self.last = array.first, array.last
        self._array = array
        counts = array.counts().items()
        self.states = Counter({state: n for state, n in counts if not states or state in states})

    def counts(self) -> dict[str, int]:
        """Return how many are in each state, in the order of STATES."""
        return {state: self.states[state] for state in STATES if state in self.states}

    def shown(self) -> int:
        """Return the job whose row stands for the array."""
        return self._array.oldest(next(state for state in STATES if state in self.states))

    def waiting(self) -> int | None:
        """Return the oldest job that waits, if one does."""
        return self._array.oldest("pending") if "pending" in self.states else None


class _Page:
    """The rows so far, and what they take of the bounds."""

    def __init__(self, replica: Replica, most: int) -> None:
        self._replica, self._most = replica, min(most, ROWS_AT_ONCE)
        self.rows: list[schema.JobView] = []
        self._size = self._told = 0

    def is_full(self) -> bool:
        """Return True if there is no room for a further row."""
        return len(self.rows) == self._most or self._size > schema.REPLY_BYTES_MAX - 8192

    def add(self, job: int, waiting: int | None, states: dict[str, int] | None = None) -> None:
        """Append the row of a job, or of the array whose jobs are in these states."""
        book = self._replica.state.book
        view = job_views.job_view(self._replica, book.get(job), short=True)
        if states is not None and view.array is not None:
            view = replace(view, array=replace(view.array, states=states, waiting=waiting))
        if waiting is not None and self._told < WAITS_TOLD and self._replica.role == "leading":
            self._told += 1
            record = book.get(waiting)
            why = explanation.why_it_waits(self._replica, record, self._replica.real_ns)
            view = replace(view, waits=why)
        self._size += len(schema.encode(view))
        self.rows.append(view)

    def add_array(self, array: _Array | _WholeArray) -> None:
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
    for looked, (number, state) in enumerate(_listed(replica, request, scope, me)):
        if array is not None and number < array.first:
            page.add_array(array)
            array = None
        if array is None and (page.is_full() or looked >= JOBS_AT_ONCE):
            following = job
            break
        job = number
        if isinstance(state, _WholeArray):
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
    return schema.encode(schema.JobList(jobs=tuple(page.rows), next=following, position=position))


def _listed(
    replica: Replica, request: schema.ListRequest, scope: str | None, me: str
) -> Iterator[tuple[int, JobState | _WholeArray]]:
    """Yield (job, state), newest first; for a whole array its first job and the array."""
    book = replica.state.book
    wholes = [*_wholes(replica, request, scope, me)] if request.arrays and book.arrays else []
    single = book.newest(scope, request.before, [(each.first, each.last) for each in wholes])
    if not wholes:
        return single
    others = ((each.first, each) for each in reversed(wholes))
    return heapq.merge(single, others, key=itemgetter(0), reverse=True)


def _wholes(
    replica: Replica, request: schema.ListRequest, scope: str | None, me: str
) -> Iterator[_WholeArray]:
    book = replica.state.book
    ranges = book.ranges(request.select, scope, me)
    for each in book.arrays:
        mine = scope in (None, each.owner.user)
        older = request.before is None or each.last < request.before
        if mine and older and any(low <= each.first and each.last <= high for low, high in ranges):
            yield _WholeArray(each, request.states)


def _array_of(replica: Replica, job: int) -> _Array | None:
    """Return the array of a job, with no job yet; its numbers follow one another."""
    spec = replica.state.book.get(job).decoded_spec()
    return _Array(job - spec.array_place) if spec.array_size > 1 else None
