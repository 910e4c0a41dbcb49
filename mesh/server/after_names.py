# SPDX-License-Identifier: Apache-2.0
"""The names by which a request says what a job follows: `5`, `last`, an array as `5-14`, or `5-`.

Pure. Owns the rule which of them mean an array as a whole, and the refusals of the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.native.errors import BadRequest, Refused
from stoker.scheduler.book import Book, Job
from stoker.scheduler.followed_ranges import JobRange
from stoker.scheduler.wire_names import JOB_AFTERS_MAX

SINCE = 4
"""The first feature level at which a job may follow an array as a whole."""
_RANGE = re.compile(r"(\d{1,18})-(\d{0,18})", re.ASCII)


def numbers(
    book: Book, names: tuple[int | str, ...], user: str, admin: bool, level: int
) -> tuple[int, ...]:
    """Return what the core is told to wait for; NotFound for what this user has not."""
    return tuple(number for name in names for number in _of(book, name, user, admin, level))


def _of(book: Book, name: int | str, user: str, admin: bool, level: int) -> Iterator[int]:
    match = _RANGE.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        job = book.refer(name, user, all_users=admin)
        array = _array_of(book, job)
        is_array = name == "last" and array.size > 1 and level >= SINCE
        yield array.number if is_array else _job(book, job.job, level)
        return
    first, last = int(match[1]), int(match[2] or 0)
    array = _array_of(book, book.refer(first, user, all_users=admin))
    array = array if array.first == first else JobRange(first, 1)
    if array.size > 1 and last in (0, array.last):
        if level >= SINCE:
            yield array.number
            return
        if array.size > JOB_AFTERS_MAX:
            raise _too_low(f"array {array.text} cannot be followed as a whole", array, level)
        last = array.last
    for number in _each(name, first, last or first):
        yield _job(book, book.refer(number, user, all_users=admin).job, level)


def _each(name: int | str, first: int, last: int) -> range:
    """Return the jobs of a range that is no array."""
    if not first <= last < first + JOB_AFTERS_MAX:
        raise BadRequest(
            f"{name} is not an array as `stoker submit` named it, and more than"
            f" {JOB_AFTERS_MAX} jobs",
            hint=f"`stoker jobs` names arrays; {first}- means the array that begins with job"
            f" {first}",
        )
    return range(first, last + 1)


def _job(book: Book, job: int, level: int) -> int:
    """Return the number of one job; that of a range with it alone if it is no record yet."""
    array = book.arrays.of(job)
    if array is None or not array.is_ahead(job):
        return job
    if level >= SINCE:
        return JobRange(job, 1).number
    whole = JobRange(array.first, array.size)
    raise _too_low(f"job {job} waits for its turn in its array", whole, level)


def _too_low(what: str, array: JobRange, level: int) -> Refused:
    return Refused(
        f"{what}, and nothing can follow it at feature level {level} of this cluster",
        hint=f"submit this one after `stoker wait {array.text}`; `stoker cluster upgrade` raises"
        " the level",
    )


def _array_of(book: Book, job: Job) -> JobRange:
    """Return the array that a job is of; the job alone if it is of none."""
    known = book.arrays.of(job.job)
    if known is not None:
        return JobRange(known.first, known.size)
    spec = job.decoded_spec()
    return JobRange(job.job - spec.array_place, max(1, spec.array_size))
