# SPDX-License-Identifier: Apache-2.0
"""Jobs that follow arrays as a whole start, or never will, when the ends of all jobs say so."""

from __future__ import annotations

import random
from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.state import ReplicaState
from stoker.native.errors import BadRequest, Refused
from stoker.scheduler.array_indexes import parse
from stoker.scheduler.followed_ranges import JobRange, Wanted
from stoker.scheduler.job_arrays import ArrayPart
from stoker.scheduler.nouns import ENDED, JobSpec
from stoker.scheduler.wire_names import AFTERS_MAX
from tests.mesh.bench import ALICE, LIMITS, Bench

ROOM = LIMITS._replace(jobs=8192, finished=8192, tasks=8192, node_tasks=8192, keys=1024)
SIZE = 1000
FIELDS: dict[Wanted, str] = {"success": "after", "end": "after_any", "failure": "after_fail"}


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return bench_of(signer)


def bench_of(signer: Identity, **settings: Any) -> Bench:
    return Bench(signer, limits=ROOM, **settings).lead().hello()


def array(bench: Bench, size: int = SIZE, most: int = 0, **spec: Any) -> JobRange:
    """An array of jobs that need nothing, unless the spec says."""
    words = f"1-{size}" + (f"%{most}" if most else "")
    token = ("array", len(bench.replies))
    bench.feed(
        events.JobSubmitted(
            token, ALICE, b"", JobSpec(("true",), **spec), indexes=parse(words, "array")
        )
    )
    return JobRange(bench.replies[token].job, size)


def follower(bench: Bench, wanted: Wanted, *ranges: JobRange, **spec: Any) -> Any:
    """Submit a job that follows these arrays; return its number, or the refusal."""
    token = ("follower", len(bench.replies))
    numbers = tuple(each.number for each in ranges)
    bench.submit(token, **{FIELDS[wanted]: numbers}, **spec)
    return getattr(bench.replies[token], "job", bench.replies[token])


def state(bench: Bench, job: int) -> str:
    return bench.replica.state.book.get(job).state


def reason(bench: Bench, job: int) -> str:
    return bench.replica.state.book.get(job).reason


def end(bench: Bench, jobs: Any, how: str = "succeeded") -> None:
    for job in jobs:
        bench.outcome(job, how, exit_code=0 if how == "succeeded" else 1)


def started(bench: Bench, found: JobRange) -> list[int]:
    book = bench.replica.state.book
    live = (book.live(job) for job in range(found.first, found.last + 1))
    return [each.job for each in live if each is not None and each.decision is not None]


def end_all(bench: Bench, found: JobRange, how: str = "succeeded") -> None:
    while jobs := started(bench, found):
        end(bench, jobs, how)


def cancel(bench: Bench, low: int, high: int, first: int) -> None:
    part = ArrayPart(first, low, high)
    bench.feed(events.CancelRequested(("c", len(bench.replies)), [], "enough", "alice", (part,)))


def test_it_starts_when_the_last_job_of_the_array_has_succeeded(bench: Bench) -> None:
    found = array(bench)
    after, anyhow = follower(bench, "success", found), follower(bench, "end", found)
    failure = follower(bench, "failure", found)
    while len(jobs := started(bench, found)) > 1 or jobs[0] != found.last:
        end(bench, jobs[:-1] or jobs)
    assert [state(bench, job) for job in (after, anyhow, failure)] == ["pending"] * 3
    end(bench, jobs)
    assert [state(bench, job) for job in (after, anyhow)] == ["starting"] * 2
    assert state(bench, failure) == "cancelled"
    assert reason(bench, failure) == (
        f"all jobs of array {found.text}, whose failure it was to follow, succeeded"
    )
    assert not bench.replica.state.book.arrays.ranges


def test_the_first_end_otherwise_ends_it_at_once_and_those_behind_it(bench: Bench) -> None:
    found = array(bench)
    after, anyhow = follower(bench, "success", found), follower(bench, "end", found)
    failure = follower(bench, "failure", found)
    bench.submit("behind", after=(after,))
    end(bench, [found.first + 3], "failed")
    why = f"job {found.first + 3} of array {found.text}, which it was to follow, failed"
    assert (state(bench, after), reason(bench, after)) == ("cancelled", why)
    behind = bench.replies["behind"].job
    assert (state(bench, behind), state(bench, anyhow)) == ("cancelled", "pending")
    end_all(bench, found)
    assert (state(bench, anyhow), state(bench, failure)) == ("starting", "starting")


def test_a_cancel_of_what_waits_counts_as_its_end(bench: Bench) -> None:
    found = array(bench, cpu_milli=8000)
    after, failure = follower(bench, "success", found), follower(bench, "failure", found)
    cancel(bench, found.last, found.last, found.first)
    assert state(bench, after) == "cancelled"
    assert reason(bench, after) == (
        f"job {found.last} of array {found.text}, which it was to follow, was cancelled"
    )
    cancel(bench, found.first + 1, found.last, found.first)
    assert state(bench, failure) == "pending"
    end(bench, [found.first])
    assert state(bench, failure) == "starting"


def test_an_array_that_is_half_ended_or_over_counts_from_what_is_known(bench: Bench) -> None:
    found = array(bench, most=4)
    end(bench, started(bench, found))
    after = follower(bench, "success", found)
    assert bench.replica.state.book.arrays.ranges.counts(found.number).succeeded == 4  # type: ignore[union-attr]
    end_all(bench, found)
    assert state(bench, after) == "starting"
    late, never = follower(bench, "success", found), follower(bench, "failure", found)
    assert state(bench, late) == "starting"
    assert isinstance(never, BadRequest) and "whose failure" in never.message


def test_ends_that_were_forgotten_are_known_of_an_array_of_one_record(signer: Identity) -> None:
    bench = bench_of(signer)
    found = array(bench)
    end_all(bench, found)
    forgotten = range(found.first, found.first + 700)
    bench.feed(events.Remove("gone", [*forgotten], [], "removed", "alice"))
    assert not {*forgotten} & {job for job, _ in bench.replica.state.book.newest(None, kept=True)}
    assert state(bench, follower(bench, "success", found)) == "starting"
    small = array(bench, 12)
    end_all(bench, small)
    bench.feed(events.Remove("some", [small.first + 2], [], "removed", "alice"))
    refused = follower(bench, "success", small)
    assert isinstance(refused, BadRequest)
    assert f"job {small.first + 2} of array {small.text}" in refused.message
    assert "nor how it ended" in refused.message
    assert state(bench, follower(bench, "end", small)) == "starting"


def test_a_job_that_waits_in_its_array_can_be_followed_alone(bench: Bench) -> None:
    found = array(bench, cpu_milli=8000)
    job = found.first + 900
    after = follower(bench, "success", JobRange(job, 1))
    ill = follower(bench, "success", JobRange(job + 1, 1))
    cancel(bench, job + 1, found.last, found.first)
    assert (state(bench, after), state(bench, ill)) == ("pending", "cancelled")
    cancel(bench, found.first + 1, job - 1, found.first)
    end(bench, [found.first])
    end(bench, started(bench, found))
    assert state(bench, job) == "succeeded" and state(bench, after) == "starting"


def test_an_array_that_follows_an_array_waits_with_all_of_its_jobs(bench: Bench) -> None:
    first = array(bench, 300)
    second = array(bench, 300, after=(first.number,))
    never = array(bench, 300, after_fail=(first.number,))
    assert not started(bench, second)
    end_all(bench, first)
    assert len(started(bench, second)) > 1
    assert {state(bench, job) for job in range(never.first, never.last + 1)} == {"cancelled"}
    end_all(bench, second)
    third = array(bench, 300, after=(second.number,))
    assert started(bench, third)


def test_a_rest_of_an_array_whose_first_job_is_gone_goes_by_the_counts(bench: Bench) -> None:
    first = array(bench, 300, cpu_milli=8000)
    well, ill = (array(bench, 300, **{name: (first.number,)}) for name in ("after", "after_fail"))
    for each in (well, ill):
        cancel(bench, each.first, each.first, each.first)
    end_all(bench, first)
    assert started(bench, well) and not started(bench, ill)
    assert state(bench, ill.last) == "cancelled"


def test_as_many_jobs_follow_an_array_as_follow_a_job(bench: Bench) -> None:
    found = array(bench)
    jobs = [follower(bench, "end", found) for _ in range(AFTERS_MAX)]
    refused = follower(bench, "end", found)
    assert isinstance(refused, Refused) and "64 jobs wait for array" in refused.message
    end_all(bench, found)
    assert {state(bench, job) for job in jobs} == {"starting"}


def test_a_repeat_of_a_submit_is_answered_although_the_array_has_failed(bench: Bench) -> None:
    found = array(bench)
    key = b"k" * 16
    job = follower(bench, "success", found, key=key)
    end(bench, [found.first], "failed")
    assert follower(bench, "success", found, key=key) == job
    assert isinstance(follower(bench, "success", found), BadRequest)


@pytest.mark.parametrize("seed", range(10))
def test_random_courses_equal_whoever_looks_at_every_job(signer: Identity, seed: int) -> None:
    """Each follower is where the ends of all jobs of its arrays put it, after every step."""
    chance = random.Random(seed)
    bench = bench_of(signer)
    arrays: list[JobRange] = []
    followers: dict[int, tuple[Wanted, list[JobRange]]] = {}
    cancelled: set[int] = set()
    for step in range(90):
        draw = chance.random()
        if draw < 0.1 or not arrays:
            most = chance.choice((0, 0, 2, 30))
            arrays.append(array(bench, chance.choice((2, 5, 40, 300, 700)), most))
        elif draw < 0.35:
            wanted = chance.choice(("success", "success", "end", "failure"))
            chosen = chance.sample(arrays, min(len(arrays), chance.choice((1, 1, 2))))
            job = follower(bench, wanted, *chosen)
            verdicts = [dumb_verdict(bench, wanted, each) for each in chosen]
            assert isinstance(job, BadRequest) == (False in verdicts)
            if not isinstance(job, BadRequest):
                followers[job] = wanted, chosen
        elif draw < 0.4:
            found = chance.choice(arrays)
            low = chance.randint(found.first, found.last)
            if bench.replica.state.book.arrays.at(found.first) is not None:
                cancel(bench, low, chance.randint(low, found.last), found.first)
        elif draw < 0.45 and followers:
            job = chance.choice([*followers])
            bench.feed(events.CancelRequested(("f", step), [job], "no", "alice"))
            cancelled.add(job)
        else:
            running = started(bench, chance.choice(arrays))
            for job in chance.sample(running, min(len(running), chance.choice((1, 40, 600)))):
                bad = chance.random() < 0.002 or state(bench, job) == "stopping"
                end(bench, [job], chance.choice(("failed", "lost")) if bad else "succeeded")
        for job, (wanted, chosen) in followers.items():
            check_follower(bench, job, wanted, chosen, told_no_more=job in cancelled)
        if step % 30 == 29:
            check_restored(bench)


def dumb_verdict(bench: Bench, wanted: Wanted, found: JobRange) -> bool | None:
    """Return what the states of all jobs of a range mean."""
    states = [state(bench, job) for job in range(found.first, found.last + 1)]
    if wanted == "success" and set(states) & (ENDED - {"succeeded"}):
        return False
    if set(states) - ENDED:
        return None
    return wanted != "failure" or set(states) != {"succeeded"}


def check_follower(
    bench: Bench, job: int, wanted: Wanted, chosen: list[JobRange], *, told_no_more: bool
) -> None:
    now = state(bench, job)
    if told_no_more:
        assert now in ("cancelled", "stopping", "succeeded")
        return
    verdicts = [dumb_verdict(bench, wanted, each) for each in chosen]
    meant = "cancelled" if False in verdicts else "pending" if None in verdicts else "starting"
    if now == "starting" or meant != "cancelled" or None not in verdicts:
        assert now == meant, (job, wanted, chosen, verdicts)
    info = bench.replica.state.core.job(job)
    assert info is not None and (info.hold != 0) == (now == "pending")


def check_restored(bench: Bench) -> None:
    state_now = bench.replica.state
    image, _ = snapshots.decode(snapshots.encode(state_now.snapshot()).data)
    restored = ReplicaState.restore(image)
    assert restored.digest() == state_now.digest() and restored.core.check() == ""
    ranges = restored.book.arrays.ranges
    assert [*ranges.due()] == [*state_now.book.arrays.ranges.due()] == []
