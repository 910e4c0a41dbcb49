# SPDX-License-Identifier: Apache-2.0
"""The jobs and arrays that a job follows: what it wants of their ends, and what keeps it waiting.

Pure. Owns the words about an end that was not the one that a job waited for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stoker.native.errors import BadRequest, NotFound, Refused, StokerError
from stoker.scheduler.book import Book
from stoker.scheduler.core import Core
from stoker.scheduler.followed_ranges import JobRange, RangeCounts, Wanted, range_of
from stoker.scheduler.nouns import ENDED, JobSpec, JobState
from stoker.scheduler.records import STATE_CODES
from stoker.scheduler.wire_names import AFTERS_MAX

_ENDED_AS = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "was cancelled",
    "timeout": "reached its time limit",
    "lost": "was lost",
}
_UNLIKE = re.compile(
    b"[%s]" % bytes(STATE_CODES[state] for state in sorted(ENDED) if state != "succeeded")
)
_RANGES = re.compile(rb"\xcf[\x80-\xff]")
"""The beginning of a number from RANGE on in an encoded spec; other bytes may be equal to it."""


class Followed(NamedTuple):
    """A job that another one follows, or an array as a whole. `state` is empty for a job that is
    forgotten."""

    job: int
    wanted: Wanted
    state: str
    size: int = 1
    """The jobs of the array that begins with `job`."""
    left: int = 0
    """Those of them that have not ended."""
    verdict: bool | None = None
    """True if it has ended as wanted, False if it never will; None while that is open."""


def followed(book: Book, spec: JobSpec) -> Iterator[Followed]:
    """Yield what this job follows, as it is now."""
    for wanted, number in _named(spec):
        found = range_of(number)
        if found is not None:
            yield _of_range(book, found, wanted)
        else:
            state = _state(book, number)
            yield Followed(number, wanted, state, verdict=_verdict(wanted, state))


def _named(spec: JobSpec) -> Iterator[tuple[Wanted, int]]:
    named: tuple[tuple[Wanted, tuple[int, ...]], ...] = (
        ("success", spec.after),
        ("end", spec.after_any),
        ("failure", spec.after_fail),
    )
    for wanted, numbers in named:
        for number in numbers:
            yield wanted, number


def _verdict(wanted: Wanted, state: str) -> bool | None:
    """Return what the state of a single job means; of a forgotten one only its end is known."""
    if state and state not in ENDED:
        return None
    return state == "succeeded" if wanted == "success" else bool(state) or wanted == "end"


def _of_range(book: Book, found: JobRange, wanted: Wanted) -> Followed:
    counts = counts_of(book, found)
    left = found.size - counts.succeeded - counts.otherwise
    over = "failed" if counts.otherwise else "succeeded"
    verdict = counts.verdict(wanted, found.size)
    state = over if not left else _state(book, found.first) if found.size == 1 else "running"
    return Followed(found.first, wanted, state, found.size, left, verdict)


def counts_of(book: Book, found: JobRange) -> RangeCounts:
    """Return how the jobs of a range have ended so far. An end that is forgotten was none that is
    known to be good."""
    if (known := book.arrays.ranges.counts(found.number)) is not None:
        return known
    array = book.arrays.of(found.first)
    if array is not None and found == (array.first, array.size):
        counts = array.counts()
        ended = sum(count for state, count in counts.items() if state in ENDED)
        return RangeCounts(well := counts.get("succeeded", 0), ended - well)
    states = [_state(book, job) for job in range(found.first, found.last + 1)]
    well = states.count("succeeded")
    return RangeCounts(well, sum(not state or state in ENDED for state in states) - well)


def follow(book: Book, job: int, spec: bytes) -> None:
    """Let a new job wait for the arrays that it follows; `spec` is its encoded request."""
    if not _RANGES.search(spec):
        return
    for wanted, number in _named(book.get(job).decoded_spec()):
        if (found := range_of(number)) is not None:
            book.arrays.ranges.follow(job, number, wanted, counts_of(book, found))


def refusal(book: Book, spec: JobSpec) -> StokerError | None:
    """Return why a job that follows arrays is refused: one can never end as it wants, or too many
    wait for it. The core itself judges single jobs."""
    for wanted, number in _named(spec):
        found = range_of(number)
        if found is None:
            continue
        if counts_of(book, found).verdict(wanted, found.size) is False:
            return BadRequest(_unmet(book, found, failure=wanted == "failure"))
        if book.arrays.ranges.followers(number) >= AFTERS_MAX:
            return Refused(
                f"{AFTERS_MAX} jobs wait for {_called(found)} already, which is the limit"
            )
    return None


def _called(found: JobRange) -> str:
    return f"array {found.text}" if found.size > 1 else f"job {found.first}"


def first_live(core: Core, job: int) -> int:
    """Return the first job that keeps this one waiting by not having ended; 0 if none does."""
    info = core.job(job)
    if info is None or info.hold != HELD_BY_JOBS:
        return 0
    for number in info.request.after:
        before = core.job(number)
        if before is not None and before.state not in ENDED:
            return number
    return 0


def unmet_text(core: Core, book: Book, job: int) -> str:
    """Return why a job never starts: which one it was to follow, and how that one ended; empty for
    a job that is not cancelled for such a reason."""
    info = core.job(job)
    if info is None or not info.unmet:
        return ""
    number = info.request.after[info.unmet - 1]
    failure = bool(info.request.after_fail >> (info.unmet - 1) & 1)
    return _unmet(book, range_of(number) or JobRange(number, 1), failure=failure)


def _unmet(book: Book, found: JobRange, *, failure: bool) -> str:
    """Return how what a job was to follow ended otherwise than wanted; `failure`: it should have
    failed."""
    if found.size == 1:
        ended = _ENDED_AS.get(_state(book, found.first), "ended otherwise than wanted")
        whose = "whose failure" if failure else "which"
        return f"job {found.first}, {whose} it was to follow, {ended}"
    if failure:
        return f"all jobs of array {found.text}, whose failure it was to follow, succeeded"
    job = unlike(book, found)
    if not job:
        return f"array {found.text}, which it was to follow, did not succeed as a whole"
    ended = _ENDED_AS.get(_state(book, job), "is no longer kept, nor how it ended")
    return f"job {job} of array {found.text}, which it was to follow, {ended}"


def unlike(book: Book, found: JobRange) -> int:
    """Return the first job of a range that ended and is not known to have succeeded; 0 if all
    did."""
    array = book.arrays.of(found.first)
    if array is not None:
        low = found.first - array.first
        match = _UNLIKE.search(array.states, low, low + found.size)
        return array.first + match.start() if match is not None else 0
    numbers = range(found.first, found.last + 1)
    bad = (job for job in numbers if _state(book, job) in ("", *(ENDED - {"succeeded"})))
    return next(bad, 0)


def _state(book: Book, job: int) -> JobState | str:
    try:
        return book.get(job).state
    except NotFound:
        return ""


HELD_BY_JOBS = 2
"""The number of `enum sk_hold` for a job that waits for others."""
