# SPDX-License-Identifier: Apache-2.0
"""Names of what to follow mean arrays as a whole, and numbers mean single jobs."""

from __future__ import annotations

import pytest

from stoker.mesh.server import after_names
from stoker.native.errors import BadRequest, NotFound, Refused
from stoker.scheduler.array_indexes import parse
from stoker.scheduler.book import Book, encode_spec
from stoker.scheduler.followed_ranges import JobRange
from stoker.scheduler.job_arrays import ArrayImage
from stoker.scheduler.nouns import JobSpec, Owner
from tests.mesh.bench import ALICE, BOB

LARGE, SMALL = JobRange(1, 1000), JobRange(1001, 20)
SINGLE, OTHER = 1021, 1022


@pytest.fixture
def book() -> Book:
    """A large array with one record, a small one, a job, and a job of another user."""
    made = Book()
    spec = encode_spec(JobSpec(("true",), array_size=LARGE.size))
    words = parse("1-1000", "array")
    made.submit_array(ArrayImage(1, ALICE, spec, b"", 1, words, bytes(LARGE.size)))
    made.submit_next(1, made.arrays.of(1), "")  # type: ignore[arg-type]
    made.arrays.note(1, "pending")
    for place in range(SMALL.size):
        own = JobSpec(("true",), array_size=SMALL.size, array_place=place, array_index=place)
        submit(made, SMALL.first + place, own)
    submit(made, SINGLE, JobSpec(("true",)))
    submit(made, OTHER, JobSpec(("true",)), BOB)
    return made


def submit(book: Book, job: int, spec: JobSpec, owner: Owner = ALICE) -> None:
    book.submit(job, owner, encode_spec(spec), 1, "")


def named(book: Book, *names: int | str, user: str = "alice", level: int = 4) -> tuple[int, ...]:
    return after_names.numbers(book, names, user, False, level)


def test_an_array_is_named_as_submit_names_it_or_by_its_first_job_and_a_dash(book: Book) -> None:
    assert named(book, "1-1000") == named(book, "1-") == (LARGE.number,)
    assert named(book, "1001-1020", "1021-") == (SMALL.number, SINGLE)


def test_a_number_is_one_job_also_while_it_waits_in_its_array(book: Book) -> None:
    assert named(book, 1, 1001, "1021") == (1, 1001, SINGLE)
    assert named(book, 900, "900-") == (JobRange(900, 1).number,) * 2


def test_other_ranges_are_each_of_their_jobs_and_few(book: Book) -> None:
    assert named(book, "1001-1003", "1005-1005") == (1001, 1002, 1003, 1005)
    for text in ("1-999", "1001-1009", "1002-1020"):
        with pytest.raises(BadRequest, match=f"{text} is not an array .* more than 8 jobs") as why:
            named(book, text)
        assert "stoker jobs" in why.value.hint
    with pytest.raises(BadRequest, match="1003-1001 is not an array"):
        named(book, "1003-1001")


def test_last_is_the_whole_array_if_the_newest_job_is_of_one(book: Book) -> None:
    assert named(book, "last") == (SINGLE,)
    assert named(book, "last", user="bob") == (OTHER,)
    book.forget(SINGLE)
    book._last["alice"] = SMALL.last
    assert named(book, "last") == (SMALL.number,)
    assert named(book, "last", level=3) == (SMALL.last,)


def test_what_another_user_has_or_nobody_is_not_found(book: Book) -> None:
    for name in (OTHER, f"{OTHER}-", 5000, "5000-5001", "1020-1022"):
        with pytest.raises(NotFound):
            named(book, name)
    with pytest.raises(NotFound):
        named(book, "1-1000", user="bob")
    assert after_names.numbers(book, ("1-1000",), "bob", True, 4) == (LARGE.number,)


def test_words_that_are_no_names_are_refused(book: Book) -> None:
    for word in ("all", "-5", "1-2-3", "1:2", ""):
        with pytest.raises(BadRequest, match="not a job"):
            named(book, word)


def test_below_level_4_jobs_alone_are_followed(book: Book) -> None:
    assert named(book, "1001-1003", "1021-", level=3) == (1001, 1002, 1003, SINGLE)
    few = JobSpec(("true",), array_size=2)
    submit(book, 1023, few)
    submit(book, 1024, few)
    assert named(book, "1023-", level=3) == (1023, 1024)
    for name in ("1-1000", "1-", 900, "1001-1020"):
        with pytest.raises(Refused, match="at feature level 3") as why:
            named(book, name, level=3)
        assert "stoker wait 1" in why.value.hint and "cluster upgrade" in why.value.hint
