# SPDX-License-Identifier: Apache-2.0
"""The room of each user: waiting jobs are bounded, and a flood displaces no other user's jobs."""

from __future__ import annotations

import pytest

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.native.errors import Refused
from stoker.scheduler.nouns import ForgetJob, JobSpec
from tests.mesh.bench import ALICE, BOB, LIMITS, Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


def test_one_users_flood_leaves_anothers_ended_job(bench: Bench) -> None:
    """A user with twice as many ended jobs as are kept loses own jobs, the oldest first."""
    kept = LIMITS.finished * 2 // 3
    bench.submit("bob", owner=BOB)
    bench.outcome(1, "succeeded", exit_code=0)
    for n in range(2 * kept):
        bench.submit(n)
        bench.outcome(n + 2, "succeeded", exit_code=0)
    book = bench.replica.state.book
    assert book.get(1, "bob").state == "succeeded"
    assert book.shares.ended == kept
    gone = [a.job for a in bench.actions() if isinstance(a, ForgetJob)]
    assert gone == list(range(2, kept + 3))
    assert bench.replica.counters["forgotten"] == len(gone)


def test_one_users_waiting_jobs_leave_room_for_others(signer: Identity) -> None:
    """Number and bytes are bounded, also for jobs on their way; a repeat takes no room."""
    budgets = Budgets(pending_jobs=3, spec_bytes=10_000)
    bench = Bench(signer, budgets=budgets).lead()
    bench.answering = False
    for n in range(4):
        bench.submit(n, key=b"%d" % n)
    bench.submit("bob", owner=BOB)
    bench.answering = True
    while bench.appends:
        bench.feed(bench.land())
    assert "budget pending_jobs" in str(bench.replies[3])
    assert [bench.replies[token].job for token in (0, 1, 2, "bob")] == [1, 2, 3, 4]
    bench.submit("again", key=b"1")
    assert bench.replies["again"].job == 2
    bench.submit("more")
    assert isinstance(bench.replies["more"], Refused)
    bench.submit("large", owner=BOB, argv=("x" * 9_000,))
    bench.submit("larger", owner=BOB, argv=("x" * 9_000,))
    assert bench.replies["large"].job == 5
    assert "budget spec_bytes" in str(bench.replies["larger"])
    bench.feed(events.CancelRequested("c", [1], ""))
    bench.submit("after")
    assert bench.replies["after"].job == 6
    assert bench.replica.counters["budget_refused"] == 3


def test_an_array_is_as_many_jobs_as_it_has(signer: Identity) -> None:
    bench = Bench(signer, budgets=Budgets(pending_jobs=5)).lead()
    spec = JobSpec(("true",))
    bench.feed(events.JobSubmitted("six", ALICE, b"", spec, tuple(range(6))))
    bench.feed(events.JobSubmitted("five", ALICE, b"", spec, tuple(range(5))))
    assert "budget pending_jobs" in str(bench.replies["six"])
    assert bench.replies["five"].job == 1
