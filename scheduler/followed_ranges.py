# SPDX-License-Identifier: Apache-2.0
"""Arrays that jobs follow as a whole: how many of their jobs succeeded, and how many did not.

A part of the job book. Owns the counts, which change with each end and are never made anew, so that
an end costs the same whatever the size of an array. Pure; it follows from the log alone.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from stoker.scheduler.nouns import JobState

Wanted = Literal["success", "end", "failure"]
RANGE: Final = 1 << 63
"""The bit that tells a range from a job among those that a job follows, as in `wire_array.h`."""
_SIZE_BITS = 17
_FIRST_BITS = 46


class JobRange(NamedTuple):
    """The jobs `first` to `last`: an array, or one of its jobs that waits for its turn."""

    first: int
    size: int

    @property
    def last(self) -> int:
        """The number of its last job."""
        return self.first + self.size - 1

    @property
    def number(self) -> int:
        """The range as one number among those of the jobs that a job follows."""
        return RANGE | self.size << _FIRST_BITS | self.first

    @property
    def text(self) -> str:
        """The range as people name it."""
        return f"{self.first}-{self.last}" if self.size > 1 else str(self.first)


def range_of(number: int) -> JobRange | None:
    """Return the range that a number among those of followed jobs stands for; None for a job."""
    if not number & RANGE:
        return None
    first = number & (1 << _FIRST_BITS) - 1
    return JobRange(first, number >> _FIRST_BITS & (1 << _SIZE_BITS) - 1)


class RangeCounts(msgspec.Struct, array_like=True, frozen=True):
    """The numbers of jobs of a range that succeeded so far, and that ended otherwise."""

    succeeded: int = 0
    otherwise: int = 0

    def verdict(self, wanted: Wanted, size: int) -> bool | None:
        """Return True once the range has ended as wanted, False once it never will."""
        if wanted == "success" and self.otherwise:
            return False
        if self.succeeded + self.otherwise < size:
            return None
        return wanted != "failure" or self.otherwise > 0

    def and_more(self, state: JobState, jobs: int) -> RangeCounts:
        """Return the counts with so many further ends of one kind."""
        well = jobs if state == "succeeded" else 0
        return RangeCounts(self.succeeded + well, self.otherwise + jobs - well)


class RangeImage(msgspec.Struct, array_like=True, frozen=True):
    """A followed range as a snapshot has it, with those that wait for it."""

    number: int
    counts: RangeCounts
    followers: list[tuple[int, Wanted]]


class RangeTold(NamedTuple):
    """The end of a range that a job is told of."""

    job: int
    number: int
    is_met: bool


class FollowedRanges:
    """The ranges for whose ends jobs wait, each with its counts."""

    def __init__(self, images: Iterable[RangeImage] = ()) -> None:
        self._counts: dict[int, RangeCounts] = {}
        self._followers: dict[int, dict[int, Wanted]] = {}
        self._ranges_of: dict[int, list[int]] = {}
        """The ranges for which each job waits."""
        self._firsts: list[int] = []
        """The first jobs of ranges with several jobs, none of which overlap."""
        self._by_first: dict[int, int] = {}
        self._over: dict[int, None] = {}
        """The ranges of which a follower may have to be told."""
        for image in images:
            for job, wanted in image.followers:
                self.follow(job, image.number, wanted, image.counts)

    def __bool__(self) -> bool:
        return bool(self._counts)

    def images(self) -> list[RangeImage]:
        """Return what a snapshot has of them."""
        return [
            RangeImage(number, self._counts[number], [*self._followers[number].items()])
            for number in self._counts
        ]

    def counts(self, number: int) -> RangeCounts | None:
        """Return the counts of a range that somebody waits for."""
        return self._counts.get(number)

    def followers(self, number: int) -> int:
        """Return how many jobs wait for the end of a range."""
        return len(self._followers.get(number, ()))

    def follow(self, job: int, number: int, wanted: Wanted, counts: RangeCounts) -> None:
        """Let a job wait for a range, whose counts are these unless somebody waits for it now."""
        if number not in self._counts:
            self._counts[number] = counts
            self._followers[number] = {}
            self._note_first(number)
        self._followers[number][job] = wanted
        self._ranges_of.setdefault(job, []).append(number)
        self._judge(number)

    def note(self, job: int, state: JobState) -> None:
        """Count the end of a job in the ranges that have it; it waits for none any more."""
        for number in self._that_have(job):
            self._count(number, state, 1)
        self.end(job)

    def cancelled(self, jobs: Sequence[int]) -> None:
        """Count jobs of one array that waited in it and never become any."""
        if not jobs or not self._counts:
            return
        whole = self._array_with(jobs[0])
        if whole:
            self._count(whole, "cancelled", len(jobs))
        chosen = frozenset(jobs)
        for number in [each for each in self._counts if each != whole]:
            if _size(number) == 1 and _range(number).first in chosen:
                self._count(number, "cancelled", 1)

    def due(self) -> Iterator[RangeTold]:
        """Yield what is to be told, the range that was over first first."""
        for number in self._over:
            counts, size = self._counts[number], _size(number)
            for job, wanted in self._followers[number].items():
                if (verdict := counts.verdict(wanted, size)) is not None:
                    yield RangeTold(job, number, verdict)

    def told(self, job: int, number: int) -> None:
        """Note that a job was told of the end of a range."""
        ranges = self._ranges_of.get(job, [])
        if number in ranges:
            ranges.remove(number)
            self._leave(job, number)
        if not ranges:
            self._ranges_of.pop(job, None)

    def end(self, job: int) -> None:
        """Note that a job waits for nothing any more."""
        for number in self._ranges_of.pop(job, ()):
            self._leave(job, number)

    def _leave(self, job: int, number: int) -> None:
        followers = self._followers[number]
        followers.pop(job, None)
        if followers:
            return
        del self._followers[number], self._counts[number]
        self._over.pop(number, None)
        found = JobRange(*_range(number))
        if found.size > 1:
            self._firsts.remove(found.first)
            del self._by_first[found.first]

    def _note_first(self, number: int) -> None:
        found = _range(number)
        if found.size > 1:
            insort(self._firsts, found.first)
            self._by_first[found.first] = number

    def _that_have(self, job: int) -> Iterator[int]:
        """Yield the ranges that have a job: it alone, and the array that it is of."""
        alone = JobRange(job, 1).number
        if alone in self._counts:
            yield alone
        if whole := self._array_with(job):
            yield whole

    def _array_with(self, job: int) -> int:
        """Return the followed range of several jobs that has this one; 0 if none has."""
        at = bisect_right(self._firsts, job) - 1
        number = self._by_first[self._firsts[at]] if at >= 0 else 0
        return number if number and _range(number).last >= job else 0

    def _count(self, number: int, state: JobState, jobs: int) -> None:
        self._counts[number] = self._counts[number].and_more(state, jobs)
        self._judge(number)

    def _judge(self, number: int) -> None:
        counts, size = self._counts[number], _size(number)
        wants = self._followers[number].values()
        if any(counts.verdict(wanted, size) is not None for wanted in wants):
            self._over[number] = None


def _range(number: int) -> JobRange:
    found = range_of(number)
    assert found is not None
    return found


def _size(number: int) -> int:
    return _range(number).size
