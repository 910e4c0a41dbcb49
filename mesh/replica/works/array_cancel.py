# SPDX-License-Identifier: Apache-2.0
"""The work that cancels a part of an array: what waits in it, and its jobs that go on.

Owns the rule that no job slips through between the two: each entry decides on the jobs as they are
then, another one follows while some of them go on, and the last one answers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from stoker.mesh.log.entry import ArrayCancelBlob, Blob, CancelBlob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import (
    BATCH_BYTES_MAX,
    CANCELS_MAX,
    Cancelled,
    Fate,
    Work,
    words_size,
)
from stoker.native.errors import NotFound
from stoker.scheduler import records
from stoker.scheduler.job_arrays import ArrayPart

NONE: Final[Mapping[int, bool]] = MappingProxyType({})
"""No jobs beside those of arrays."""


class ArrayCancelWork(Work):
    """The cancel of a part of an array; the answer is about all `parts` and `others`."""

    __slots__ = ("goes_on", "jobs", "others", "part", "parts", "reason", "user")

    def __init__(
        self,
        token: Any,
        part: ArrayPart,
        reason: str,
        user: str,
        *,
        parts: Sequence[Cancelled] = (),
        others: Mapping[int, bool] = NONE,
    ) -> None:
        self.part, self.reason, self.user = part, reason, user
        self.parts, self.others = parts, others
        self.jobs: list[int] = []
        self.goes_on = False
        super().__init__(token, (), 0)
        self.count, self.size = self._most, self._bytes(self._most)

    @property
    def _most(self) -> int:
        """The most jobs that one entry stops, so that it has room for other works."""
        return min(CANCELS_MAX, BATCH_BYTES_MAX // 2 // (48 + words_size(self.reason, self.user)))

    def _bytes(self, jobs: int) -> int:
        return 64 + words_size(self.reason, self.user) * (1 + jobs)

    @property
    def sole(self) -> str:
        return f"array {self.part.first}"

    def refresh(self, state: ReplicaState) -> None:
        array = state.book.arrays.at(self.part.first)
        live = array.going_on(self.part.low, self.part.high) if array is not None else []
        self.jobs, self.goes_on = live[: self._most], len(live) > self._most
        self._pack([records.Cancel(job) for job in self.jobs], self._bytes(len(self.jobs)))

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        words = (self.reason, self.user)
        told = [CancelBlob(fate.command, *words) for fate in fates if fate.command >= 0]
        return [ArrayCancelBlob(*self.part, *words), *told]

    def next_part(self, fates: list[Fate], applied: Applied) -> Work | None:
        if not self.goes_on:
            return None
        token = None if self.answered else self.token
        words = (self.reason, self.user)
        return ArrayCancelWork(token, self.part, *words, parts=self.parts, others=self.others)

    def answer(self, fates: list[Fate], applied: Applied, state: ReplicaState) -> Any:
        parts = (_now(each, state) for each in self.parts)
        return sorted([*parts, *_others(self.others, state)])


def _others(others: Mapping[int, bool], state: ReplicaState) -> Iterator[Cancelled]:
    """Yield the effect on the jobs beside those of arrays; True for one that was not over."""
    for job, was_open in others.items():
        with contextlib.suppress(NotFound):
            now = state.book.get(job).state
            yield Cancelled(job, now, was_open and now in ("stopping", "cancelled"))


def _now(part: Cancelled, state: ReplicaState) -> Cancelled:
    """Return a part with the state that its jobs are in now."""
    array = state.book.arrays.of(part.job)
    if array is None or not part.changed:
        return part
    open_jobs = array.open(part.job, part.last or part.job)
    return part._replace(state="stopping" if open_jobs else "cancelled")


def array_cancels(
    token: Any,
    parts: Sequence[ArrayPart],
    state: ReplicaState,
    *,
    reason: str,
    user: str,
    others: Mapping[int, bool],
) -> Iterator[Work]:
    """Yield the works that cancel parts of arrays, behind those that cancel `others`, for which the
    last one answers as well."""
    rows = []
    for part in parts:
        array = state.book.arrays.at(part.first)
        changed = array is not None and array.open(part.low, part.high) > 0
        last = part.high if part.high > part.low else 0
        rows.append(Cancelled(part.low, "cancelled", changed, last))
    for part in parts[:-1]:
        yield ArrayCancelWork(None, part, reason, user)
    yield ArrayCancelWork(token, parts[-1], reason, user, parts=rows, others=others)
