# SPDX-License-Identifier: Apache-2.0
"""The job book: visibility, selection, and that a snapshot is the book."""

from __future__ import annotations

import random

import pytest

from stoker.native.errors import BadRequest, Corrupt, NotFound
from stoker.scheduler.book import REMOVED_KEPT, Book, Job, encode_spec
from stoker.scheduler.nouns import (
    Decision,
    DeviceInfo,
    DeviceShare,
    JobSpec,
    NodeReport,
    Owner,
    Usage,
)

ALICE = Owner("alice", 1000, 1000, (1000, 27))
BOB = Owner("bob", 1001, 1001)
SPEC = encode_spec(JobSpec(("sleep", "1"), env={"A": "b"}, gpu_milli=1))


def submit(book: Book, job: int, owner: Owner = ALICE, spec: bytes = SPEC) -> Job:
    return book.submit(job, owner, spec, 10 * job, "accepted")


def end(book: Book, record: Job) -> None:
    record.state, record.ended_ns, record.exit_code = "failed", 99, 3
    record.decision = Decision(65536, "n1", (DeviceShare(0, 1),), "packed", 900, (7,))
    record.usage = Usage(1, 2, 3, 4)
    book.end(record)


def numbers(book: Book, user: str | None, before: int | None = None) -> list[int]:
    return [job for job, _ in book.newest(user, before)]


def test_an_ended_job_reads_as_it_was() -> None:
    book = Book()
    record = submit(book, 1)
    end(book, record)
    assert book.live(1) is None
    assert book.get(1) == record
    assert book.get(1).decoded_spec().argv == ("sleep", "1")


def test_others_do_not_see_it_and_cannot_tell_that_it_exists() -> None:
    book = Book()
    submit(book, 1)
    end(book, submit(book, 2))
    for job in (1, 2, 3):
        with pytest.raises(NotFound, match=f"there is no job {job}"):
            book.get(job, "bob")
    assert book.get(1, "alice").job == 1
    assert book.get(2, None).job == 2
    assert numbers(book, "bob") == []
    assert numbers(book, "alice") == numbers(book, None) == [2, 1]


def test_newest_first_and_pages() -> None:
    book = Book()
    for job in range(1, 8):
        record = submit(book, job, BOB if job % 3 == 0 else ALICE)
        if job % 2:
            end(book, record)
    assert numbers(book, "alice") == [7, 5, 4, 2, 1]
    assert numbers(book, None, before=4) == [3, 2, 1]


def test_last_is_the_callers_own() -> None:
    book = Book()
    submit(book, 1)
    submit(book, 2, BOB)
    assert book.refer("last", "alice", all_users=True).job == 1
    book.forget(1)
    with pytest.raises(NotFound, match="alice has no job"):
        book.refer("last", "alice", all_users=True)
    assert book.refer("2", "alice", all_users=True).job == 2
    with pytest.raises(NotFound):
        book.refer(2, "alice", all_users=False)


@pytest.mark.parametrize("text", ["", "x", "-1", "1-", "3-1", "1,,2", "1;2", "²", "1" * 50, "LAST"])
def test_bad_selections_are_refused(text: str) -> None:
    book = Book()
    submit(book, 1)
    with pytest.raises(BadRequest):
        book.select(text, None, "alice")
    if text != "1,,2":
        with pytest.raises((BadRequest, NotFound)):
            book.refer(text or "x", "alice", all_users=True)


def test_selections() -> None:
    book = Book()
    for job in range(1, 11):
        submit(book, job)

    def chosen(text: str) -> list[int]:
        test = book.select(text, "alice", "alice")
        return [job for job in range(1, 11) if test(job)]

    assert chosen("all") == list(range(1, 11))
    assert chosen("3") == [3]
    assert chosen("1, 4-6,last") == [1, 4, 5, 6, 10]
    assert chosen("9-99") == [9, 10]
    with pytest.raises(NotFound, match="no job 11"):
        chosen("1,11")


def random_book(rng: random.Random, size: int) -> Book:
    book = Book()
    for job in range(1, size + 1):
        record = submit(book, job, rng.choice((ALICE, BOB)), SPEC + b"\xc0" * rng.randrange(0, 2))
        if rng.random() < 0.7:
            end(book, record)
        if rng.random() < 0.2:
            book.forget(rng.randint(1, job))
    book.join(NodeReport("n2", "b", 1, 2000, 1 << 30))
    book.join(NodeReport("n1", "b", 1, 2000, 1 << 30, (DeviceInfo("d", "v", "m"),)))
    return book


def sums(book: Book) -> tuple[int, int, int]:
    return book.shares.live_bytes, book.shares.ended_bytes, book.shares.ended


def test_a_snapshot_is_the_book() -> None:
    for seed in range(20):
        book = random_book(random.Random(seed), 60)
        again = Book.restore(book.snapshot())
        assert again.snapshot() == book.snapshot()
        assert sums(again) == sums(book)
        assert numbers(again, None) == numbers(book, None)
        for job in numbers(book, None):
            assert again.get(job) == book.get(job)
        submit(again, 1000)
        submit(book, 1000)
        assert again.snapshot() == book.snapshot()


def test_what_was_removed_by_request_is_told_from_what_never_was() -> None:
    book = Book()
    for job in range(1, REMOVED_KEPT + 3):
        end(book, submit(book, job))
        book.forget(job, "removed by alice")
    again = Book.restore(book.snapshot())
    assert again.snapshot() == book.snapshot()
    newest = REMOVED_KEPT + 2
    for user in ("alice", None):
        with pytest.raises(NotFound, match=f"job {newest} was removed by alice"):
            again.get(newest, user)
    for user, job in (("bob", newest), ("alice", 2), ("alice", 9999)):
        with pytest.raises(NotFound, match=f"there is no job {job}"):
            again.get(job, user)
    assert again.select(str(newest), "alice", "alice", removed=True)(newest)


def test_snapshots_of_something_else_are_refused() -> None:
    good = random_book(random.Random(1), 5).snapshot()
    for bad in (b"", good[:-1], good + b"x", b"\x94\x02" + good[2:], b"\xc1" * 40):
        with pytest.raises(Corrupt):
            Book.restore(bad)


def test_the_bytes_counted_are_the_bytes_kept() -> None:
    book = random_book(random.Random(3), 40)
    for job in numbers(book, None):
        book.forget(job)
    assert (sums(book), len(book)) == ((0, 0, 0), 0)
