# SPDX-License-Identifier: Apache-2.0
"""The jobs that a list looks at, newest first, and the arrays that it takes as one.

Pure. Owns that an array of one record costs a list what is listed of it, not its size: the states
of its jobs are bytes, which are searched for those that are wanted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Final

from stoker.mesh.wire import schema
from stoker.scheduler.book import Book
from stoker.scheduler.job_arrays import WAITS, JobArray
from stoker.scheduler.nouns import JobState
from stoker.scheduler.records import STATE_CODES

STATES: Final[tuple[JobState, ...]] = (
    "running", "starting", "stopping", "pending",
    "failed", "timeout", "lost", "cancelled", "succeeded",
)  # fmt: skip
"""The states in the order in which one of them stands for a whole array: what goes on comes before
what is over, and what went wrong before what did not."""
_WANTED: Final = 1
"""The mark of a job that is in one of the wanted states."""


class WholeArray:
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


def listed(
    book: Book, request: schema.ListRequest, scope: str | None, me: str
) -> Iterator[tuple[int, JobState | WholeArray]]:
    """Yield (job, state), newest first; for a whole array its first job and the array.

    Jobs of arrays with one record are selected, and in one of the wanted states; of others that is
    not tested.
    """
    ranges = _joined(book.ranges(request.select, scope, me))
    single = book.newest(scope, request.before, kept=True)
    if not book.arrays:
        return single
    others = (each for each in single if book.arrays.of(each[0]) is None)
    mine = [each for each in book.arrays if scope in (None, each.owner.user)]
    of_arrays = (_of_array(book, each, ranges, request) for each in reversed(mine))
    found = (others, chain.from_iterable(of_arrays))
    return heapq.merge(*found, key=itemgetter(0), reverse=True)


def _of_array(
    book: Book, array: JobArray, ranges: Sequence[tuple[float, float]], request: schema.ListRequest
) -> Iterator[tuple[int, JobState | WholeArray]]:
    """Yield the array if it was requested whole and is selected whole, else its selected jobs."""
    below = request.before if request.before is not None else array.last + 1
    is_whole = array.last < below and any(
        low <= array.first and array.last <= high for low, high in ranges
    )
    if request.arrays and is_whole:
        yield array.first, WholeArray(array, request.states)
        return
    marks = array.states.translate(_marks(request.states))
    removed = book.removed(array.owner.user)
    for low, high in reversed(ranges):
        least = int(max(low, array.first)) - array.first
        place = max(0, int(min(high, array.last, below - 1)) + 1 - array.first)
        while (place := marks.rfind(_WANTED, least, place)) >= 0:
            if (job := array.first + place) not in removed:
                yield job, array.state(place)


@lru_cache(maxsize=64)
def _marks(states: tuple[JobState, ...]) -> bytes:
    """Return the table that marks the bytes of these states, or of all states if there are none."""
    codes = {STATE_CODES[state] for state in states or STATES}
    if STATE_CODES["pending"] in codes:
        codes.add(WAITS)
    return bytes(_WANTED if code in codes else 0 for code in range(256))


def _joined(ranges: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the same numbers as ranges that do not overlap, the lowest first."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
