# SPDX-License-Identifier: Apache-2.0
"""The words about jobs that a job follows, for every way in which they end."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import followed_jobs
from stoker.mesh.replica.followed_jobs import Followed
from stoker.scheduler.book import Job
from tests.mesh.bench import Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    """A node on which job 1 runs."""
    made = Bench(signer).lead()
    made.hello()
    made.submit("first")
    return made


def job(bench: Bench, number: int) -> Job:
    return bench.replica.state.book.get(number)


def follows(bench: Bench, number: int) -> list[Followed]:
    spec = bench.replica.state.book.get(number).decoded_spec()
    return list(followed_jobs.followed(bench.replica.state.book, spec))


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("failed", "failed"),
        ("cancelled", "was cancelled"),
        ("timeout", "reached its time limit"),
        ("lost", "was lost"),
    ],
)
def test_a_job_that_follows_a_success_says_how_the_other_ended(
    bench: Bench, state: Any, says: str
) -> None:
    bench.submit("b", after=(1,))
    bench.submit("c", after_fail=(1,))
    bench.submit("d", after=(2,))
    assert follows(bench, 2) == [Followed(1, "success", job(bench, 1).state)]
    bench.outcome(1, state)
    assert (job(bench, 2).state, job(bench, 3).state) == ("cancelled", "starting")
    assert job(bench, 2).reason == f"job 1, which it was to follow, {says}"
    assert job(bench, 4).reason == "job 2, which it was to follow, was cancelled"
    assert follows(bench, 3) == [Followed(1, "failure", state, verdict=True)]


def test_a_job_that_follows_a_failure_is_cancelled_by_a_success(bench: Bench) -> None:
    bench.submit("b", after_fail=(1,))
    bench.outcome(1, "succeeded", exit_code=0)
    assert job(bench, 2).state == "cancelled"
    assert job(bench, 2).reason == "job 1, whose failure it was to follow, succeeded"


def test_what_keeps_a_job_waiting_is_the_first_that_has_not_ended(bench: Bench) -> None:
    core = bench.replica.state.core
    bench.submit("b")
    bench.submit("c", after=(1, 2))
    assert followed_jobs.first_live(core, 3) == 1
    bench.outcome(1, "succeeded", exit_code=0)
    assert followed_jobs.first_live(core, 3) == 2
    bench.outcome(2, "succeeded", exit_code=0)
    assert followed_jobs.first_live(core, 3) == 0
    assert followed_jobs.first_live(core, 99) == 0
    assert followed_jobs.unmet_text(core, bench.replica.state.book, 3) == ""
