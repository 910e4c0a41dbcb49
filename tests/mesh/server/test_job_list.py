# SPDX-License-Identifier: Apache-2.0
"""Pages of jobs: each array that was requested whole is one row that counts all its jobs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.server import job_list
from stoker.mesh.wire import schema
from stoker.scheduler.array_indexes import parse
from stoker.scheduler.job_arrays import ArrayPart
from stoker.scheduler.nouns import JobSpec
from tests.mesh.bench import ALICE, BOB, Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    """Jobs 1 and 12 alone, and between them an array of ten with two ends and a start."""
    made = Bench(signer).lead().hello()
    made.submit("before", gpu_milli=1000)
    array(made, "sweep", 10)
    made.submit("after", gpu_milli=1000)
    return made


def array(bench: Bench, token: str, size: int, owner: Any = ALICE, **spec: Any) -> None:
    spec = {"argv": ("true",), "gpu_milli": 1000} | spec
    bench.feed(events.JobSubmitted(token, owner, b"", JobSpec(**spec), tuple(range(size))))


def cancelled(bench: Bench, *jobs: int) -> None:
    bench.feed(events.CancelRequested(("cancel", jobs), list(jobs), "", "alice"))


def listed(bench: Bench, user: str | None = None, **request: Any) -> schema.JobList:
    request = {"arrays": True, "limit": 1000} | request
    data = job_list.job_list(bench.replica, schema.ListRequest(**request), user, "alice")
    return msgspec.json.decode(data, type=schema.JobList)


def test_an_array_is_one_row_with_its_jobs_in_each_state(bench: Bench) -> None:
    cancelled(bench, 4, 7)
    rows = listed(bench).jobs
    assert [row.job for row in rows] == [12, 2, 1]
    found = rows[1].array
    assert found is not None and (found.first, found.size) == (2, 10)
    assert found.states == {"pending": 8, "cancelled": 2}
    assert (rows[1].state, found.waiting) == ("pending", 2)
    assert rows[1].waits  # the oldest that waits tells why
    assert rows[0].array is None and rows[2].array is None


def test_without_the_wish_each_job_has_a_row(bench: Bench) -> None:
    rows = listed(bench, arrays=False).jobs
    assert [row.job for row in rows] == list(range(12, 0, -1))
    assert all(row.array is None or row.array.states is None for row in rows)


def test_only_the_jobs_that_would_be_listed_are_counted(bench: Bench) -> None:
    cancelled(bench, 4, 7)
    (row,) = listed(bench, states=("cancelled",)).jobs
    assert row.array is not None
    assert (row.job, row.state, row.array.states) == (4, "cancelled", {"cancelled": 2})
    assert row.array.waiting is None
    (row,) = listed(bench, select="5-6").jobs
    assert row.array is not None and row.array.states == {"pending": 2}


def test_one_job_of_an_array_is_listed_as_itself(bench: Bench) -> None:
    cancelled(bench, 4)
    (row,) = listed(bench, states=("cancelled",)).jobs
    assert row.array is not None
    assert (row.job, row.array.index, row.array.states) == (4, 2, None)
    (row,) = listed(bench, select="6").jobs
    assert row.job == 6 and row.array is not None and row.array.states is None


def test_what_goes_on_stands_for_the_array_and_then_what_went_wrong(bench: Bench) -> None:
    array(bench, "runs", 3, gpu_milli=0, trace="off")
    bench.outcome(14, "failed", exit_code=3)
    first = listed(bench).jobs[0]
    assert first.array is not None and first.array.states == {"starting": 2, "failed": 1}
    assert (first.job, first.state) == (13, "starting")
    bench.outcome(13, "succeeded", exit_code=0)
    bench.outcome(15, "succeeded", exit_code=0)
    first = listed(bench).jobs[0]
    assert first.array is not None and first.array.states == {"failed": 1, "succeeded": 2}
    assert (first.job, first.state, first.exit_code) == (14, "failed", 3)


def test_a_page_ends_between_arrays_and_the_next_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    array(bench, "bobs", 5, BOB)
    whole = [row.job for row in listed(bench).jobs]
    assert whole == [13, 12, 2, 1]
    for most in (1, 2, 3):
        found, before = [], None
        while True:
            page = listed(bench, limit=most, before=before)
            assert len(page.jobs) <= most
            found += [row.job for row in page.jobs]
            if page.next is None:
                break
            before = page.next
        assert found == whole
    monkeypatch.setattr(job_list, "JOBS_AT_ONCE", 3)
    page = listed(bench)
    assert [row.job for row in page.jobs] == [13] and page.next == 13
    assert page.jobs[0].array is not None and page.jobs[0].array.states == {"pending": 5}


def test_an_array_that_is_larger_than_a_page_is_one_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_list, "JOBS_AT_ONCE", 16)
    array(bench, "large", 40)
    page = listed(bench)
    assert page.jobs[0].array is not None and page.jobs[0].array.states == {"pending": 40}
    assert page.next == 13 and [row.job for row in listed(bench, before=13).jobs] == [12, 2, 1]


def test_others_arrays_are_not_listed(bench: Bench) -> None:
    array(bench, "bobs", 5, BOB)
    assert [row.job for row in listed(bench, user="alice").jobs] == [12, 2, 1]
    (row,) = listed(bench, user="bob").jobs
    assert row.array is not None and row.array.states == {"pending": 5}


def test_an_array_of_one_record_is_one_row_wherever_its_jobs_are(bench: Bench) -> None:
    """Its counts are those of all its jobs, also of those without a record."""
    sized = JobSpec(("true",), gpu_milli=0, trace="off")
    bench.feed(events.JobSubmitted("w", BOB, b"", sized, indexes=parse("1-3000%2", "array")))
    bench.submit("last", gpu_milli=1000)
    bench.outcome(13, "failed", exit_code=3)
    part = ArrayPart(13, 2000, 2999)
    bench.feed(events.CancelRequested("c", [], "", "bob", (part,)))
    page = listed(bench)
    assert [row.job for row in page.jobs] == [3013, 14, 12, 2, 1] and page.next is None
    found = page.jobs[1].array
    assert found is not None and (found.first, found.size, found.waiting) == (13, 3000, 16)
    assert found.states == {"starting": 2, "pending": 1997, "failed": 1, "cancelled": 1000}
    assert "have their turn" in page.jobs[1].waits or page.jobs[1].waits.startswith("it is next")
    (row,) = listed(bench, select="13-3012", states=("cancelled", "failed")).jobs
    assert row.array is not None and row.array.states == {"failed": 1, "cancelled": 1000}
    assert [row.job for row in listed(bench, limit=2).jobs] == [3013, 14]
    assert [row.job for row in listed(bench, before=13).jobs] == [12, 2, 1]
    assert [row.job for row in listed(bench, user="bob").jobs] == [14]
    few = listed(bench, arrays=False, select="3010-3012").jobs
    assert [(row.job, row.state) for row in few] == [
        (3012, "pending"), (3011, "pending"), (3010, "pending"),
    ]  # fmt: skip
