# SPDX-License-Identifier: Apache-2.0
"""The indexes of an array as runs, and how many of its jobs may go on at once.

Pure. Owns the words for them, `1-100000:2,7%50`, which people, messages and the log share.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

import msgspec

from stoker.native.errors import BadRequest

JOBS_MAX: Final = 100_000
"""The most jobs of one array at any feature level."""
RUNS_MAX: Final = 1_024
"""The most runs of indexes of one array."""
INDEX_MAX: Final = (1 << 31) - 1
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_MOST = re.compile(r"\d{1,9}", re.ASCII)


class Run(msgspec.Struct, frozen=True, array_like=True):
    """The indexes `first`, `first + step` and so on, `count` of them."""

    first: int
    step: int
    count: int

    @property
    def text(self) -> str:
        """The run as people write it."""
        last = self.first + self.step * (self.count - 1)
        if self.count == 1:
            return str(self.first)
        return f"{self.first}-{last}" + (f":{self.step}" if self.step > 1 else "")


class ArrayIndexes(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """The indexes of an array in their order; `most`: its jobs that may go on at once, 0: all."""

    runs: tuple[Run, ...] = ()
    most: int = 0

    def __bool__(self) -> bool:
        return bool(self.runs)

    @cached_property
    def _ends(self) -> tuple[int, ...]:
        """The number of indexes up to the end of each run."""
        return tuple(accumulate(run.count for run in self.runs))

    @property
    def size(self) -> int:
        """The number of indexes."""
        return self._ends[-1] if self.runs else 0

    def at(self, place: int) -> int:
        """Return the index at this place, from 0."""
        which = bisect_right(self._ends, place)
        run = self.runs[which]
        return run.first + run.step * (place - self._ends[which] + run.count)

    def __iter__(self) -> Iterator[int]:
        for run in self.runs:
            yield from range(run.first, run.first + run.step * run.count, run.step)

    @property
    def text(self) -> str:
        """The indexes as people write them."""
        return ",".join(run.text for run in self.runs) + (f"%{self.most}" if self.most else "")


def of_numbers(numbers: Sequence[int]) -> ArrayIndexes:
    """Return these indexes as runs, in their order."""
    runs: list[Run] = []
    at = 0
    while at < len(numbers):
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 1
        while step > 0 and end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        if end - at == 2 and step > 1:  # two in a row are no sign of a step
            end -= 1
        runs.append(Run(numbers[at], step if end - at > 1 else 1, end - at))
        at = end
    return ArrayIndexes(tuple(runs))


def parse(text: str, what: str) -> ArrayIndexes:
    """Return the indexes of `0-9`, `0-9:2`, `1,5,7-9` or `0-9%2`; no text, no array."""
    words, percent, limit = text.partition("%")
    if percent and not (_MOST.fullmatch(limit) and int(limit)):
        raise BadRequest(f"{what} {text!r}: behind % stands how many of its jobs go on at once")
    runs = [_run(part.strip(), text, what) for part in words.split(",")] if text else []
    if len(runs) > RUNS_MAX:
        raise BadRequest(f"{what} has {len(runs)} parts with commas, at most {RUNS_MAX}")
    if sum(run.count for run in runs) > JOBS_MAX:
        raise BadRequest(f"{what} {text[:80]!r} has more than {JOBS_MAX} jobs")
    return ArrayIndexes(tuple(runs), int(limit) if percent else 0)


def _run(part: str, text: str, what: str) -> Run:
    match = _PART.fullmatch(part)
    if match is None:
        raise BadRequest(f"{what} {text[:80]!r} is not a list such as 0-9, 0-9:2 or 1,5")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    step = int(match[3]) if match[3] else 1
    if last < first or step < 1:
        raise BadRequest(f"{what} {text[:80]!r}: {part} is empty")
    count = (last - first) // step + 1
    return Run(first, step if count > 1 else 1, count)
