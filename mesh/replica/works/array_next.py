# SPDX-License-Identifier: Apache-2.0
"""The work that makes jobs of the next numbers of an array, as many as may wait or go on at once.

The leader does it after each entry. Owns the window: of an array at most WINDOW jobs wait as
records, the oldest ones, so that it stands in its queue where all of its jobs would.
"""

from __future__ import annotations

from collections.abc import Iterator

from stoker.mesh.log.entry import ArrayCancelBlob, Blob
from stoker.mesh.replica import followed_jobs
from stoker.mesh.replica.followed_jobs import HELD_BY_JOBS
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import Fate, Work, refusal
from stoker.native.errors import BadRequest
from stoker.scheduler.job_arrays import JobArray
from stoker.scheduler.reasons import Reason, sentence
from stoker.scheduler.records import SIZES, SUBMIT_ARRAY, Submit, SubmitArray
from stoker.scheduler.wire_names import ARRAY_AT_ONCE

WINDOW = 2 * ARRAY_AT_ONCE
"""The most jobs of an array that wait as records: as many as two entries can place."""
RUNS_AT_ONCE = 64
"""The most commands of one turn, which has one for each row of numbers without a gap."""
ARRAYS_AT_ONCE = 8
"""The most arrays that have a turn after one entry."""
_BLOB_BYTES = 512


class ArrayNextWork(Work):
    """The next jobs of the array that begins with job `first`."""

    __slots__ = ("first",)

    def __init__(self, first: int) -> None:
        self.first = first
        super().__init__(None, (), _BLOB_BYTES)
        self.count, self.size = RUNS_AT_ONCE, _BLOB_BYTES + RUNS_AT_ONCE * SIZES[SUBMIT_ARRAY]

    @property
    def sole(self) -> str:
        return f"array {self.first}"

    def refresh(self, state: ReplicaState) -> None:
        array = state.book.arrays.at(self.first)
        requests = [] if array is None else [*_requests(state, array)]
        self._pack(requests, _BLOB_BYTES)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        """Cancel what waits if its jobs cannot be jobs any more, as where its queue is gone."""
        array = state.book.arrays.at(self.first)
        refused = (refusal(fate.rejected, state) for fate in fates if fate.rejected)
        why = next((each for each in refused if isinstance(each, BadRequest)), None)
        if array is None or (why is None and not _never(state, array)):
            return []
        words = why.message if why is not None else sentence(Reason.AFTER_FAILED)
        return [ArrayCancelBlob(array.first, array.first, array.last, words)]


def due(state: ReplicaState) -> Iterator[ArrayNextWork]:
    """Yield the turns of arrays whose next jobs should be records now."""
    found = (array for array in state.book.arrays.ahead() if _is_due(state, array))
    for array, _ in zip(found, range(ARRAYS_AT_ONCE), strict=False):
        yield ArrayNextWork(array.first)


def _is_due(state: ReplicaState, array: JobArray) -> bool:
    room = room_of(state, array)
    if not room:
        return _never(state, array)
    return bool(array.image.indexes.most) or room >= min(array.waiting, WINDOW // 2)


def room_of(state: ReplicaState, array: JobArray) -> int:
    """Return how many more jobs of an array may become records now."""
    most = array.image.indexes.most
    own = most - array.live if most else WINDOW - array.pending
    if not (array.is_free or _is_free(state, array)):
        own = 0  # its first job waits for the jobs that all of them follow
    book = state.book
    live = len(book) - book.shares.ended
    return max(0, min(own, ARRAY_AT_ONCE, array.waiting, state.limits.jobs - live))


def _is_free(state: ReplicaState, array: JobArray) -> bool:
    """Return True if its jobs follow none, or all that they follow have ended as they should."""
    spec = array.spec
    if not (spec.after or spec.after_any or spec.after_fail):
        return True
    job = next(iter(array.going_on(array.first, array.first + array.next)), 0)
    info = state.core.job(job) if job else None
    if info is not None:
        return info.hold != HELD_BY_JOBS and not info.unmet
    return all(each.verdict for each in followed_jobs.followed(state.book, spec))


def _never(state: ReplicaState, array: JobArray) -> bool:
    """Return True if nothing of it can start any more, since a job that it follows ended otherwise;
    its first job, which would tell, is gone."""
    if array.is_free or array.live:
        return False
    return any(each.verdict is False for each in followed_jobs.followed(state.book, array.spec))


def _requests(state: ReplicaState, array: JobArray) -> Iterator[SubmitArray]:
    each = Submit.unpack(array.image.request)._replace(after=(), after_any=0, after_fail=0)
    for place, count in array.runs_ahead(room_of(state, array), RUNS_AT_ONCE):
        yield SubmitArray(*each, first=array.first + place, jobs=count)
