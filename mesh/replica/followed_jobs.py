# SPDX-License-Identifier: Apache-2.0
"""The jobs that a job follows: what it wants of their ends, and which of them keeps it waiting.

Pure. Owns the words about an end that was not the one that a job waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from stoker.native.errors import NotFound
from stoker.scheduler.book import Book
from stoker.scheduler.core import Core
from stoker.scheduler.nouns import ENDED, JobSpec

Wanted = Literal["success", "end", "failure"]
_ENDED_AS = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "was cancelled",
    "timeout": "reached its time limit",
    "lost": "was lost",
}


class Followed(NamedTuple):
    """A job that another one follows. `state` is empty for a job that is forgotten."""

    job: int
    wanted: Wanted
    state: str


def followed(book: Book, spec: JobSpec) -> Iterator[Followed]:
    """Yield the jobs that this one follows, as they are now."""
    named: tuple[tuple[Wanted, tuple[int, ...]], ...] = (
        ("success", spec.after),
        ("end", spec.after_any),
        ("failure", spec.after_fail),
    )
    for wanted, jobs in named:
        for job in jobs:
            yield Followed(job, wanted, _state(book, job))


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
    ended = _ENDED_AS.get(_state(book, number), "ended otherwise than wanted")
    if info.request.after_fail >> (info.unmet - 1) & 1:
        return f"job {number}, whose failure it was to follow, {ended}"
    return f"job {number}, which it was to follow, {ended}"


def _state(book: Book, job: int) -> str:
    try:
        return book.get(job).state
    except NotFound:
        return ""


HELD_BY_JOBS = 2
"""The number of `enum sk_hold` for a job that waits for others."""
