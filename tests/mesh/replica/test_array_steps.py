# SPDX-License-Identifier: Apache-2.0
"""Arrays of one record: their jobs become records in turn, each once, whatever happens."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.array_next import WINDOW
from stoker.native.errors import StokerError
from stoker.scheduler.array_indexes import parse
from stoker.scheduler.job_arrays import ArrayPart
from stoker.scheduler.nouns import ENDED, JobSpec
from stoker.scheduler.records import Submit
from tests.mesh.bench import ALICE, BOB, LIMITS, Bench

SIZE = 3 * WINDOW + 7
KEY = b"k" * 16
ROOM = LIMITS._replace(jobs=8 * WINDOW, finished=8 * WINDOW, keys=1024)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


def bench_of(signer: Identity, **settings: Any) -> Bench:
    return Bench(signer, limits=ROOM, **settings).lead().hello()


def submit(bench: Bench, token: str, words: str, key: bytes = KEY, **spec: Any) -> Any:
    asked = JobSpec(**{"argv": ("true",), "gpu_milli": 1000, **spec})
    bench.feed(events.JobSubmitted(token, ALICE, key, asked, indexes=parse(words, "array")))
    return bench.replies[token]


def cancel(bench: Bench, token: str, first: int, low: int, high: int) -> list[tuple[Any, ...]]:
    part = ArrayPart(first, low, high)
    bench.feed(events.CancelRequested(token, [], "enough", "alice", (part,)))
    return [tuple(row) for row in bench.replies[token]]


def states(bench: Bench, first: int, last: int) -> dict[str, int]:
    found = [bench.replica.state.book.get(number).state for number in range(first, last + 1)]
    return {state: found.count(state) for state in set(found)}


def ended(bench: Bench, job: int, state: str = "succeeded") -> None:
    bench.outcome(job, state, exit_code=0 if state == "succeeded" else 1)


def live(bench: Bench) -> list[int]:
    book = bench.replica.state.book
    return [job for job, _ in book.newest(None, kept=True) if book.live(job) is not None]


def test_one_entry_takes_it_and_a_window_of_its_jobs_are_records(signer: Identity) -> None:
    bench = bench_of(signer)
    before = bench.replica.state.index
    job = submit(bench, "array", f"10-{10 + SIZE - 1}")
    assert (job.job, job.decoded_spec().array_size) == (1, SIZE)
    assert bench.replica.state.index - before <= 4
    bench.submit("bob", owner=BOB)
    assert bench.replies["bob"].job == SIZE + 1, "its numbers are in a row"
    assert len(live(bench)) == WINDOW + 2, "one runs, and one is of another user"
    book = bench.replica.state.book
    last = book.get(SIZE)
    assert (last.state, last.decoded_spec().array_index) == ("pending", 10 + SIZE - 1)
    assert states(bench, 1, SIZE) == {"starting": 1, "pending": SIZE - 1}
    assert next(book.newest(None))[0] == SIZE + 1 and len([*book.newest(None)]) == SIZE + 1


def test_its_jobs_start_in_their_order_before_a_later_job(signer: Identity) -> None:
    bench = bench_of(signer)
    submit(bench, "array", f"1-{SIZE}")
    bench.submit("later", owner=BOB, gpu_milli=1000)
    order = []
    while going := [job for job in live(bench) if bench.replica.state.book.get(job).decision]:
        order += going
        ended(bench, going[0])
    assert order == list(range(1, SIZE + 2))
    array = bench.replica.state.book.arrays.at(1)
    assert array is not None and array.counts() == {"succeeded": SIZE} and array.is_over


def test_a_repeat_makes_nothing_and_another_array_under_its_key_is_refused(
    signer: Identity,
) -> None:
    bench = bench_of(signer)
    submit(bench, "array", f"1-{SIZE}")
    assert submit(bench, "again", f"1-{SIZE}").job == 1
    assert isinstance(submit(bench, "other", f"1-{SIZE}%2"), StokerError)
    assert bench.replica.state.core.counters()["submitted"] == SIZE


def test_at_most_so_many_go_on_as_it_says(signer: Identity) -> None:
    bench = bench_of(signer)
    submit(bench, "array", "1-9%2", gpu_milli=0)
    for job in range(1, 10):
        assert live(bench) == [job + 1, job][job == 9 :]
        ended(bench, job)
    assert states(bench, 1, 9) == {"succeeded": 9}


def test_a_cancel_of_a_part_ends_what_waits_and_what_goes_on(signer: Identity) -> None:
    bench = bench_of(signer)
    submit(bench, "array", f"1-{SIZE}")
    assert cancel(bench, "one", 1, SIZE, SIZE) == [(SIZE, "cancelled", True, 0)]
    assert cancel(bench, "some", 1, 2, SIZE - 9) == [(2, "cancelled", True, SIZE - 9)]
    assert states(bench, 1, SIZE) == {"starting": 1, "cancelled": SIZE - 9, "pending": 8}
    assert cancel(bench, "same", 1, 2, SIZE - 9) == [(2, "cancelled", False, SIZE - 9)]
    ended(bench, 1)
    assert bench.replica.state.book.get(SIZE - 8).decision is not None, "the next one starts"
    assert cancel(bench, "all", 1, 1, SIZE) == [(1, "stopping", True, SIZE)]
    assert states(bench, 1, SIZE) == {"succeeded": 1, "stopping": 1, "cancelled": SIZE - 2}
    assert bench.replica.state.book.get(SIZE).reason == "enough"


def test_a_waiter_for_a_job_without_a_record_hears_of_its_cancel(signer: Identity) -> None:
    bench = bench_of(signer)
    submit(bench, "array", f"1-{SIZE}")
    bench.feed(events.Get("wait", SIZE, "ended", bench.now + 10**10))
    assert "wait" not in bench.replies
    cancel(bench, "all", 1, 1, SIZE)
    assert bench.replies["wait"].state == "cancelled"


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_another_leader_goes_on(signer: Identity, from_snapshot: bool) -> None:
    old = bench_of(signer)
    submit(old, "array", f"1-{SIZE}")
    cancel(old, "some", 1, 700, 799)
    ended(old, 1)
    snapshot = old.replica.state.snapshot()
    digest = snapshots.encode(snapshot).digest
    assert ReplicaState.restore(snapshot).digest() == old.replica.state.digest()
    known = (snapshot, digest) if from_snapshot else ()
    new = Bench(signer, old.log, *known, limits=ROOM).lead().hello(incarnation=2)
    for job in (*range(2, 700), *range(800, SIZE + 1)):
        ended(new, job)
    assert states(new, 1, SIZE) == {"succeeded": SIZE - 100, "cancelled": 100}
    assert not live(new)


def test_ends_that_were_forgotten_still_count(signer: Identity) -> None:
    few = ROOM._replace(finished=48)
    bench = Bench(signer, limits=few).lead().hello()
    submit(bench, "array", f"1-{SIZE}")
    for job in range(1, SIZE + 1):
        ended(bench, job, "failed" if job % 10 == 0 else "succeeded")
    book = bench.replica.state.book
    array = book.arrays.at(1)
    assert array is not None
    assert array.counts() == {"succeeded": SIZE - SIZE // 10, "failed": SIZE // 10}
    assert len(book) <= 48 and book.get(10).state == "failed"
    assert book.get(10).reason == "exit code 1; its node and times are no longer kept"
    bench.feed(events.Remove("rm", [*dict(book.newest(None, kept=True))], [], "removed", "alice"))
    assert not book.arrays, "nobody asks about it any more"


def test_it_waits_for_the_jobs_that_it_follows_and_ends_with_them(signer: Identity) -> None:
    bench = bench_of(signer)
    bench.submit("first")
    bench.submit("second")
    submit(bench, "good", f"1-{SIZE}", after=(1,))
    submit(bench, "bad", f"1-{SIZE}", b"l" * 16, after=(2,))
    assert live(bench) == [3 + SIZE, 3, 2, 1]
    ended(bench, 1)
    assert len(live(bench)) == 2 + WINDOW + 1
    ended(bench, 2, "failed")
    assert states(bench, 3 + SIZE, 2 + 2 * SIZE) == {"cancelled": SIZE}
    reason = bench.replica.state.book.get(2 + 2 * SIZE).reason
    assert reason == bench.replica.state.book.get(3 + SIZE).reason and "job 2" in reason


def test_what_it_follows_counts_also_when_its_first_job_is_gone(signer: Identity) -> None:
    bench = bench_of(signer)
    bench.submit("first")
    bench.submit("second")
    submit(bench, "good", f"1-{SIZE}", after=(1,))
    submit(bench, "bad", f"1-{SIZE}", b"l" * 16, after=(2,))
    bench.feed(events.CancelRequested("c", [3, 3 + SIZE], "", "alice"))
    assert live(bench) == [2, 1], "what waits makes no job yet"
    ended(bench, 1)
    assert len(live(bench)) == 1 + WINDOW, "one runs, a window waits"
    ended(bench, 2, "failed")
    assert states(bench, 3 + SIZE, 2 + 2 * SIZE) == {"cancelled": SIZE}


def test_an_array_whose_queue_is_gone_is_cancelled(signer: Identity) -> None:
    """The core knows nothing of jobs that wait: what it refuses then ends them."""
    bench = bench_of(signer)
    submit(bench, "array", "1-4%1")
    state = bench.replica.state
    array = state.book.arrays.at(1)
    assert array is not None
    each = Submit.unpack(array.image.request)._replace(queue=99)
    array.image = msgspec.structs.replace(array.image, request=each.pack())
    ended(bench, 1)
    assert states(bench, 1, 4) == {"succeeded": 1, "cancelled": 3}
    assert bench.replica.role == "leading"


def test_a_forgotten_end_keeps_its_exit_code_and_reason(signer: Identity) -> None:
    """Below level 4 snapshots have nothing of them, as older builds write none."""
    bench = bench_of(signer)
    submit(bench, "array", "1-300")
    ended(bench, 1, "failed")
    before = bench.replica.state.book.get(1)
    bench.feed(events.Remove("gone", [1], [], "", "alice"))
    found = bench.replica.state.book.get(1)
    assert (found.state, found.exit_code, found.started_ns) == ("failed", 1, None)
    assert found.reason == f"{before.reason}; its node and times are no longer kept"
    restored = ReplicaState.restore(bench.replica.state.snapshot())
    assert restored.book.get(1) == found and restored.digest() == bench.replica.state.digest()
    old = bench_of(signer, level=3)
    submit(old, "array", "1-300")
    ended(old, 1, "failed")
    assert not old.replica.state.book.arrays.ends()


@pytest.mark.parametrize("seed", range(12))
def test_random_courses_equal_a_dumb_oracle(signer: Identity, seed: int) -> None:
    """Each number has one course: it waits, is a job once, ends once; cancels count at once."""
    chance = random.Random(seed)
    bench = bench_of(signer)
    oracle: dict[int, str] = {}
    arrays: list[tuple[int, int]] = []
    starts: set[int] = set()
    for step in range(120):
        draw = chance.random()
        if draw < 0.08 and len(arrays) < 5:
            size, most = chance.randint(2, 2 * WINDOW), chance.choice((0, 1, 3, 40))
            words = f"1-{size}" + (f"%{most}" if most else "")
            job = submit(bench, f"s{step}", words, bytes([step]) * 16, gpu_milli=0)
            first = job.job
            assert first == len(oracle) + 1
            arrays.append((first, size))
            oracle |= dict.fromkeys(range(first, first + size), "open")
        elif draw < 0.2 and arrays:
            first, size = chance.choice(arrays)
            low = chance.randint(first, first + size - 1)
            high = chance.randint(low, first + size - 1)
            if bench.replica.state.book.arrays.at(first) is not None:
                cancel(bench, f"c{step}", first, low, high)
                for job in range(low, high + 1):
                    running = oracle[job] == "open" and job in starts
                    if oracle[job] == "open":
                        oracle[job] = "stopping" if running else "cancelled"
        else:
            for job in chance.sample(going := live(bench), min(len(going), 60)):
                if bench.replica.state.book.get(job).decision is not None:
                    state = "cancelled" if oracle[job] == "stopping" else "succeeded"
                    ended(bench, job, state)
                    oracle[job] = state
        now_started = {j for j in live(bench) if bench.replica.state.book.get(j).decision}
        assert not any(oracle[job] in ENDED for job in now_started)
        starts |= now_started
        if step % 30 == 29:
            restored = ReplicaState.restore(bench.replica.state.snapshot())
            assert restored.digest() == bench.replica.state.digest()
            assert restored.core.check() == ""
    for job, state in oracle.items():
        found = bench.replica.state.book.get(job).state
        assert (found if found in (*ENDED, "stopping") else "open") == state, (job, found, state)
