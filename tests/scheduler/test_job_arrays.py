# SPDX-License-Identifier: Apache-2.0
"""Arrays of one record in the book: a byte for each number, and what is dropped when."""

from __future__ import annotations

import pytest

from stoker.scheduler import job_arrays
from stoker.scheduler.array_indexes import parse
from stoker.scheduler.book import NOT_KEPT, Book, encode_spec
from stoker.scheduler.job_arrays import ArrayImage, ArrayPart, JobArray
from stoker.scheduler.nouns import JobSpec, JobState, Owner

ALICE, BOB = Owner("alice", 1, 1), Owner("bob", 2, 2)


def image(first: int, size: int, owner: Owner = ALICE) -> ArrayImage:
    words = f"10-{10 + size - 1}"
    spec = encode_spec(JobSpec(("x",), array_size=size, array_index=10))
    return ArrayImage(first, owner, spec, b"", 5, parse(words, "a"), bytes(size))


def book_of(*images: ArrayImage) -> Book:
    book = Book()
    for each in images:
        book.submit_array(each)
    return book


def made(book: Book, job: int, *states: JobState) -> None:
    """Make a job of a number and let it go through these states."""
    array = book.arrays.of(job)
    assert array is not None
    record = book.submit_next(job, array, "")
    for state in ("pending", *states):
        record.state = state  # type: ignore[assignment]
        book.arrays.note(job, state)  # type: ignore[arg-type]
    if states and states[-1] in ("succeeded", "failed"):
        book.end(record)


def test_the_jobs_that_wait_come_in_runs_around_those_that_were_cancelled() -> None:
    array = JobArray(image(1, 12))
    assert array.runs_ahead(5, 9) == [(0, 5)]
    array.note(0, "pending")
    assert array.cancel(2, 3, "no") == [3, 4] and array.cancel(2, 3, "no") == []
    array.cancel(6, 6, "no")
    assert array.runs_ahead(9, 9) == [(1, 1), (4, 2), (7, 5)]
    assert array.runs_ahead(3, 9) == [(1, 1), (4, 2)]
    assert array.runs_ahead(9, 2) == [(1, 1), (4, 2)]
    assert (array.waiting, array.pending, array.live, array.next) == (8, 1, 1, 1)
    assert array.counts() == {"pending": 9, "cancelled": 3}
    assert (array.oldest("pending"), array.oldest("cancelled")) == (1, 3)
    assert (array.open(1, 12), array.open(3, 4), array.going_on(1, 12)) == (9, 0, [1])


def test_the_book_knows_a_job_without_a_record() -> None:
    book = book_of(image(1, 4), image(5, 3, BOB))
    made(book, 1)
    assert book.get(4).state == "pending" and book.get(4).decoded_spec().array_index == 13
    assert book.last("alice") == 4 and book.refer("last", "bob", all_users=False).job == 7
    assert [job for job, _ in book.newest(None)] == [7, 6, 5, 4, 3, 2, 1]
    assert [job for job, _ in book.newest("alice", 4)] == [3, 2, 1]
    assert [job for job, _ in book.newest(None, None, [(1, 4), (6, 6)])] == [7, 5]
    assert [job for job, _ in book.newest(None, kept=True)] == [1]
    made(book, 2)
    assert [job for job, _ in book.newest("alice")] == [4, 3, 2, 1], "whatever came first"
    assert [*book.arrays.parts([(3, 6)], None)] == [ArrayPart(1, 3, 4), ArrayPart(5, 5, 6)]
    assert [*book.arrays.that_wait([(1, 4)], "alice")] == [3]


def test_a_snapshot_restores_it() -> None:
    book = book_of(image(1, 5), image(6, 2, BOB))
    made(book, 1, "starting", "running", "succeeded")
    made(book, 6, "starting")
    book.arrays.cancel(1, 3, 4, "enough")
    again = Book.restore(book.snapshot())
    assert again.snapshot() == book.snapshot()
    for one in (book, again):
        array = one.arrays.at(1)
        assert array is not None
        assert array.counts() == {"pending": 2, "succeeded": 1, "cancelled": 2}
        assert (array.next, array.kept, one.get(4).reason) == (1, 1, "enough")
        assert [each.first for each in one.arrays.ahead()] == [1, 6]
        assert one.arrays.tasks("alice") == 5
    assert Book().snapshot() == Book.restore(Book().snapshot()).snapshot()


def test_it_is_dropped_when_it_is_over_and_nothing_of_it_is_kept() -> None:
    book = book_of(image(1, 3))
    made(book, 1, "starting", "running", "succeeded")
    book.forget(1)
    assert book.get(1).reason == NOT_KEPT and book.get(1).state == "succeeded"
    made(book, 2, "starting", "running", "failed")
    book.arrays.cancel(1, 1, 3, "")
    assert book.arrays.at(1) is not None and not [*book.arrays.ahead()]
    book.forget(2)
    assert not book.arrays


def test_only_so_many_jobs_of_arrays_that_are_over_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_arrays, "OVER_KEPT", 10)
    book = book_of(image(1, 4), image(5, 4), image(9, 4), image(13, 20))
    for first in (5, 1, 9):
        made(book, first, "starting", "running", "succeeded")
        book.arrays.cancel(first, first, first + 3, "")
    assert [each.first for each in book.arrays] == [5, 9, 13], "the oldest goes, not one that waits"
    assert book.get(1).state == "succeeded", "its record is still there"
