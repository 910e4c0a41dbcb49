# SPDX-License-Identifier: Apache-2.0
"""The work that tells jobs of the ends of the arrays that they follow as a whole.

The leader does it after each entry. Owns the rule that a job is told of each end once: what the
core does with it is decided by the entry, the same on every replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from stoker.mesh.log.entry import Blob, RangeEndBlob
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import Fate, Work
from stoker.scheduler.followed_ranges import RangeTold
from stoker.scheduler.records import RANGE_END, SIZES, RangeEnd

TOLD_AT_ONCE = 256
"""The most jobs that are told in one entry."""
_BLOB_BYTES = 24
"""The most bytes of a job and its range in a blob."""


class RangeEndWork(Work):
    """The jobs that are told of ends when the entry is decided."""

    __slots__ = ("told",)

    def __init__(self, told: list[RangeTold]) -> None:
        self.told = told
        super().__init__(None, (), 0)
        self.count = TOLD_AT_ONCE
        self.size = 64 + TOLD_AT_ONCE * (_BLOB_BYTES + SIZES[RANGE_END])

    @property
    def sole(self) -> str:
        return "ends of arrays"

    def refresh(self, state: ReplicaState) -> None:
        self.told = [*islice(state.book.arrays.ranges.due(), TOLD_AT_ONCE)]
        requests = [RangeEnd(each.job, each.number, not each.is_met) for each in self.told]
        self._pack(requests, 64 + len(requests) * _BLOB_BYTES)

    def blobs(self, fates: list[Fate], state: ReplicaState) -> list[Blob]:
        """Note also one that the core refuses for good: it would do so again."""
        told = tuple(
            (each.job, each.number)
            for each, fate in zip(self.told, fates, strict=True)
            if fate.rejected is None or not fate.rejected.retry
        )
        return [RangeEndBlob(told)] if told else []


def due(state: ReplicaState) -> Iterator[RangeEndWork]:
    """Yield the work, if there is something to tell."""
    if told := [*islice(state.book.arrays.ranges.due(), 1)]:
        yield RangeEndWork(told)
