# SPDX-License-Identifier: Apache-2.0
"""Arrays with one record each: the jobs that wait in it are no jobs yet, only numbers.

A part of the job book. Owns the state of each of their numbers: a byte, which stays right when the
record of a job that is over was forgotten. Pure; it follows from the log alone.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from stoker.scheduler.array_ends import ArrayEnd, ArrayEnds, EndsImage
from stoker.scheduler.array_indexes import ArrayIndexes
from stoker.scheduler.followed_ranges import FollowedRanges, RangeImage
from stoker.scheduler.nouns import ENDED, JobSpec, JobState, Owner
from stoker.scheduler.records import STATE_CODES
from stoker.scheduler.wire_names import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OVER_KEPT: Final = 1 << 20
"""The most jobs of arrays that are over and still known; the oldest array is dropped first."""
WAITS: Final = 0
"""The byte of a number that is no job yet."""
_PENDING: Final = STATE_CODES["pending"]
_STOPPING: Final = STATE_CODES["stopping"]
_CANCELLED: Final = STATE_CODES["cancelled"]
_GOING_ON: Final = slice(_PENDING, STATE_CODES["succeeded"])
_CANCEL: Final = bytes([_CANCELLED, *range(1, 256)])
"""The table that makes each number that waits a cancelled one."""
_specs = msgspec.msgpack.Decoder(JobSpec)
_encode = msgspec.msgpack.Encoder().encode


class ArrayImage(msgspec.Struct, array_like=True, frozen=True):
    """An array as a snapshot has it. `spec` is that of its first job, and `request` the core's
    submit of each one."""

    first: int
    owner: Owner
    spec: bytes
    request: bytes
    submitted_ns: int
    indexes: ArrayIndexes
    states: bytes
    is_free: bool = False
    why: str = ""


class ArrayPart(NamedTuple):
    """The jobs `low` to `high` of the array that begins with job `first`."""

    first: int
    low: int
    high: int


class JobArray:
    """One array: jobs `first` to `last`, of which those from place `next` on wait."""

    def __init__(self, image: ArrayImage) -> None:
        self.image = image
        self.first, self.owner = image.first, image.owner
        self.spec = _specs.decode(image.spec)
        """The request of its first job."""
        self.states = bytearray(image.states)
        self.is_free = image.is_free
        """True once nothing keeps its jobs from their turn: it follows no job, or one of its jobs
        was placed."""
        self.why = image.why
        """The reason why its newest cancelled jobs never had their turn."""
        self.ends = ArrayEnds(len(self.states))
        """The ends of its jobs, from feature level 4 on."""
        self.kept = 0
        """The number of its jobs that have a record."""
        self._counts = [self.states.count(code) for code in range(len(STATES) + 1)]
        self.next = 0
        self._pass()

    @property
    def size(self) -> int:
        """The number of its jobs."""
        return len(self.states)

    @property
    def last(self) -> int:
        """The number of its last job."""
        return self.first + len(self.states) - 1

    @property
    def waiting(self) -> int:
        """The number of its jobs that are none yet."""
        return self._counts[WAITS]

    @property
    def pending(self) -> int:
        """The number of its jobs that were made and are not placed."""
        return self._counts[_PENDING]

    @property
    def live(self) -> int:
        """The number of its jobs that were made and are not over."""
        return sum(self._counts[_GOING_ON])

    @property
    def is_over(self) -> bool:
        """True if none of its jobs waits or goes on."""
        return not self.waiting and not self.live

    def image_now(self) -> ArrayImage:
        """Return what a snapshot has of it."""
        now = {"states": bytes(self.states), "is_free": self.is_free, "why": self.why}
        return msgspec.structs.replace(self.image, **now)

    def state(self, place: int) -> JobState:
        """Return the state of the job at a place."""
        return STATES[max(self.states[place], _PENDING) - 1]

    def is_ahead(self, job: int) -> bool:
        """Return True for a number of it that is no job yet."""
        return self.states[job - self.first] == WAITS

    def counts(self) -> dict[JobState, int]:
        """Return how many of its jobs are in each state; those that wait are pending."""
        found = dict(zip(STATES, self._counts[1:], strict=True))
        found["pending"] += self._counts[WAITS]
        return {state: count for state, count in found.items() if count}

    def oldest(self, state: JobState) -> int:
        """Return the first job in a state that one of its jobs is in."""
        codes = [STATE_CODES[state], *([WAITS] if state == "pending" else ())]
        found = (self.states.find(code) for code in codes)
        return self.first + min(place for place in found if place >= 0)

    def spec_at(self, place: int) -> bytes:
        """Return the encoded request of the job at a place."""
        index = self.image.indexes.at(place)
        return _encode(msgspec.structs.replace(self.spec, array_index=index, array_place=place))

    def runs_ahead(self, most: int, runs: int) -> list[tuple[int, int]]:
        """Return (place, count) of the next jobs that wait, at most so many jobs and runs."""
        found: list[tuple[int, int]] = []
        at = self.next
        while most and len(found) < runs and (at := self.states.find(WAITS, at)) >= 0:
            end = at
            while end < self.size and end - at < most and self.states[end] == WAITS:
                end += 1
            found.append((at, end - at))
            most -= end - at
            at = end
        return found

    def going_on(self, low: int, high: int) -> list[int]:
        """Return the jobs from number `low` up to `high` that were made and are neither over nor
        being stopped."""
        low = max(low, self.first)
        codes = self.states[low - self.first : max(0, high + 1 - self.first)]
        return [low + place for place, code in enumerate(codes) if WAITS < code < _STOPPING]

    def open(self, low: int, high: int) -> int:
        """Return how many of the jobs from number `low` up to `high` are not over."""
        codes = self.states[max(0, low - self.first) : max(0, high + 1 - self.first)]
        return sum(codes.count(code) for code in range(_STOPPING + 1))

    def note(self, place: int, state: JobState) -> None:
        """Note the state of a job that was made."""
        code = STATE_CODES[state]
        self._counts[self.states[place]] -= 1
        self._counts[code] += 1
        self.states[place] = code
        self._pass()

    def cancel(self, low: int, high: int, why: str) -> list[int]:
        """Cancel what waits from place `low` up to `high`; return the numbers."""
        low, high = max(low, 0), min(high, self.size - 1)
        part = self.states[low : high + 1]
        number = self.first + low
        found = [number + place for place, code in enumerate(part) if code == WAITS]
        self.states[low : high + 1] = part.translate(_CANCEL)
        self._counts[WAITS] -= len(found)
        self._counts[_CANCELLED] += len(found)
        self.why = why if found else self.why
        self._pass()
        return found

    def _pass(self) -> None:
        """Pass over what waits no longer."""
        at = self.states.find(WAITS, self.next)
        self.next = at if at >= 0 else self.size


class JobArrays:
    """The arrays of a book, by the numbers of their first jobs."""

    def __init__(
        self,
        images: Iterable[ArrayImage] = (),
        ranges: Iterable[RangeImage] = (),
        ends: Iterable[EndsImage] = (),
    ) -> None:
        self.ranges = FollowedRanges(ranges)
        """The arrays that jobs follow as a whole, whether they have one record or not."""
        self._of: dict[int, JobArray] = {}
        self._firsts: list[int] = []
        self._ahead: dict[int, None] = {}
        """The arrays in which jobs wait."""
        self._over: dict[int, int] = {}
        """The arrays that are over, with the number of their jobs."""
        self._over_jobs = 0
        for image in images:
            self.add(JobArray(image))
        for each in ends:
            array = self._of[each.first]
            array.ends = ArrayEnds(array.size, each)

    def __bool__(self) -> bool:
        return bool(self._of)

    def __iter__(self) -> Iterator[JobArray]:
        """Yield the arrays, the oldest first."""
        return map(self._of.__getitem__, self._firsts)

    def ahead(self) -> Iterator[JobArray]:
        """Yield the arrays in which jobs wait."""
        return map(self._of.__getitem__, self._ahead)

    def images(self) -> list[ArrayImage]:
        """Return what a snapshot has of them."""
        return [array.image_now() for array in self]

    def ends(self) -> list[EndsImage]:
        """Return what a snapshot has of the ends that are kept."""
        return [array.ends.image(array.first) for array in self if array.ends]

    def note_end(self, job: int, end: ArrayEnd) -> None:
        """Keep how a job of an array ended."""
        if self._of and (array := self.of(job)) is not None:
            array.ends.note(job - array.first, end)

    def add(self, array: JobArray) -> None:
        """Add an array."""
        self._of[array.first] = array
        insort(self._firsts, array.first)
        if array.waiting:
            self._ahead[array.first] = None
        elif array.is_over:
            self._over[array.first] = array.size
            self._over_jobs += array.size

    def of(self, job: int) -> JobArray | None:
        """Return the array that has this number, if one has."""
        at = bisect_right(self._firsts, job) - 1
        array = self._of[self._firsts[at]] if at >= 0 else None
        return array if array is not None and job <= array.last else None

    def at(self, first: int) -> JobArray | None:
        """Return the array whose first job has this number, if there is one."""
        return self._of.get(first)

    def tasks(self, user: str) -> int:
        """Return the number of jobs of a user's arrays that are not over."""
        return sum(each.size for each in self if each.owner.user == user and not each.is_over)

    def parts(self, ranges: Sequence[tuple[float, float]], user: str | None) -> Iterator[ArrayPart]:
        """Yield the parts of arrays that are not over which these ranges of numbers select."""
        for array in self:
            if array.is_over or user not in (None, array.owner.user):
                continue
            for low, high in ranges:
                part = int(max(low, array.first)), int(min(high, array.last))
                if part[0] <= part[1]:
                    yield ArrayPart(array.first, *part)

    def that_wait(self, ranges: Sequence[tuple[float, float]], user: str | None) -> Iterator[int]:
        """Yield the first job that waits of each part of an array that these ranges select."""
        for part in self.parts(ranges, user):
            array = self._of[part.first]
            at = array.states.find(WAITS, part.low - array.first, part.high + 1 - array.first)
            if at >= 0:
                yield array.first + at

    def note(self, job: int, state: JobState) -> None:
        """Note the state of a job that was made, if it is one of an array or follows one."""
        if self.ranges and state in ENDED:
            self.ranges.note(job, state)
        if self._of and (array := self.of(job)) is not None:
            array.note(job - array.first, state)
            if state == "starting":
                array.is_free = True
            self._settle(array)

    def cancel(self, first: int, low: int, high: int, why: str) -> list[int]:
        """Cancel what waits in an array from number `low` up to `high`; return the numbers."""
        array = self._of.get(first)
        if array is None:
            return []
        found = array.cancel(low - first, high - first, why)
        self.ranges.cancelled(found)
        self._settle(array)
        return found

    def made(self, job: int) -> None:
        """Count a record that the book has of a job."""
        if self._of and (array := self.of(job)) is not None:
            array.kept += 1

    def forget(self, job: int) -> None:
        """Subtract a record that the book has dropped."""
        if self._of and (array := self.of(job)) is not None:
            array.kept -= 1
            self._settle(array)

    def _settle(self, array: JobArray) -> None:
        """Drop what nobody asks about any more."""
        if not array.waiting:
            self._ahead.pop(array.first, None)
        if array.is_over and not array.kept:
            self._drop(array)
        elif array.is_over and array.first not in self._over:
            self._over[array.first] = array.size
            self._over_jobs += array.size
            while self._over_jobs > OVER_KEPT:
                self._drop(self._of[min(self._over)])

    def _drop(self, array: JobArray) -> None:
        del self._of[array.first]
        self._firsts.remove(array.first)
        self._over_jobs -= self._over.pop(array.first, 0)
