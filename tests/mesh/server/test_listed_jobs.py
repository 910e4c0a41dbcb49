# SPDX-License-Identifier: Apache-2.0
"""The jobs of an array with one record are found by their states, whatever its size."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.replica import events
from stoker.mesh.server import job_list
from stoker.mesh.server.listed_jobs import STATES, WholeArray, listed
from stoker.mesh.wire import schema
from stoker.scheduler.array_indexes import parse
from stoker.scheduler.job_arrays import ArrayPart
from stoker.scheduler.nouns import JobSpec
from tests.mesh.bench import ALICE, BOB, Bench

SPEC = JobSpec(("true",), gpu_milli=0, trace="off")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Job 1 alone, BOB's jobs 2 to 3001 as one record, 3002 alone, ALICE's 3003 to 3602."""
    signer = identity.create(tmp_path_factory.mktemp("k") / "s")
    made = Bench(signer).lead().hello()
    made.submit("before", gpu_milli=1000)
    made.feed(events.JobSubmitted("b", BOB, b"", SPEC, indexes=parse("1-6000:2%3", "array")))
    made.submit("between", gpu_milli=1000)
    made.feed(events.JobSubmitted("a", ALICE, b"", SPEC, indexes=parse("0-599%2", "array")))
    for job in (2, 3, 3003):
        made.outcome(job, "failed", exit_code=3)
    made.feed(events.CancelRequested("c", [], "", "bob", (ArrayPart(2, 100, 900),)))
    made.feed(events.Remove("r", [3], [], "removed by bob", "bob"))
    return made


def found(bench: Bench, user: str | None = None, **request: Any) -> list[Any]:
    book = bench.replica.state.book
    return [*listed(book, schema.ListRequest(**request), user, "alice")]


def simple(bench: Bench, user: str | None, request: dict[str, Any]) -> list[Any]:
    """Return what is to be found, by a look at every job there is."""
    book = bench.replica.state.book
    chosen = book.select(request["select"], user, "alice")
    states = request["states"] or STATES
    every = book.newest(user, request["before"])
    return [
        (job, state)
        for job, state in every
        if job != 3 and chosen(job) and (state in states or book.arrays.of(job) is None)
    ]


def test_it_finds_what_a_look_at_every_job_finds(bench: Bench) -> None:
    chance = random.Random(15)
    for _ in range(60):
        low = chance.randint(1, 3700)
        request = {
            "select": chance.choice(
                ("all", f"{low}-{low + 400}", f"{low + 10}-{low + 90},{low}-{low + 20},1")
            ),
            "states": tuple(chance.sample(STATES, chance.randint(0, 3))),
            "before": chance.choice((None, low, 1, 5000)),
        }
        user = chance.choice((None, "alice", "bob"))
        if "," in request["select"] and user == "bob":
            continue  # job 1 is another user's, and naming it is refused
        want = simple(bench, user, request)
        got = [each for each in found(bench, user, **request) if each[0] in dict(want)]
        assert got == want, request
        extra = [each for each in found(bench, user, **request) if each not in want]
        assert all(bench.replica.state.book.arrays.of(job) is None for job, _ in extra)


def test_a_state_is_found_without_a_look_at_the_others(bench: Bench) -> None:
    of_arrays = [each for each in found(bench, states=("failed",)) if each[0] not in (1, 3002)]
    assert of_arrays == [(3003, "failed"), (2, "failed")]


def test_an_array_is_whole_if_all_of_it_is_selected(bench: Bench) -> None:
    whole = [job for job, each in found(bench, arrays=True) if isinstance(each, WholeArray)]
    assert whole == [3003, 2]
    part = found(bench, arrays=True, select="3-3001", states=("starting",))
    assert part and not any(isinstance(each, WholeArray) for _, each in part)


def test_a_job_that_was_removed_is_not_listed(bench: Bench) -> None:
    data = job_list.job_list(bench.replica, schema.ListRequest(select="1-9"), None, "alice")
    page = msgspec.json.decode(data, type=schema.JobList)
    assert [row.job for row in page.jobs] == [9, 8, 7, 6, 5, 4, 2, 1]


def test_jobs_that_wait_in_an_array_differ_in_number_and_index(bench: Bench) -> None:
    request = schema.ListRequest(select="2990-3001")
    data = job_list.job_list(bench.replica, request, None, "alice")
    rows = msgspec.json.decode(data, type=schema.JobList).jobs
    assert [row.job for row in rows] == [*range(3001, 2989, -1)]
    assert [row.array.index for row in rows if row.array] == [*range(5999, 5975, -2)]
    assert all(row.reason == rows[0].reason and row.waits for row in rows)
