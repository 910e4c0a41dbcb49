# SPDX-License-Identifier: Apache-2.0
"""Arrays of several entries, at feature level 2: all jobs in a row or, after a loss, none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.entry import LimitsBlob
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.open_array import WITHDRAWN
from stoker.mesh.replica.works.submit_work import PART_JOBS
from stoker.native.errors import Refused
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import ENDED, JobSpec
from tests.mesh.bench import ALICE, BOB, LIMITS, Bench

SIZE = 3 * PART_JOBS + 7
KEY = b"k" * 16
LEVEL = 2
"""From the next level on, such an array has one record instead."""
ROOM = LIMITS._replace(jobs=4 * SIZE, finished=4 * SIZE, keys=1024)


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


def bench_of(signer: Identity, limits: Limits = ROOM, **settings: Any) -> Bench:
    return Bench(signer, limits=limits, level=LEVEL, **settings).lead().hello()


def submit(bench: Bench, token: str, indexes: tuple[int, ...], **spec: Any) -> None:
    spec = {"argv": ("true",), "gpu_milli": 1000, **spec}
    bench.feed(events.JobSubmitted(token, ALICE, KEY, JobSpec(**spec), indexes))


def begun(bench: Bench, parts: int) -> None:
    """Have some parts of an array in the log, and the next one on its way to it."""
    bench.answering = False
    submit(bench, "array", tuple(range(SIZE)))
    for _ in range(parts):
        bench.feed(bench.land())
    assert "array" not in bench.replies


def land_all(bench: Bench) -> None:
    bench.answering = True
    while bench.appends:
        bench.feed(bench.land())


def states(bench: Bench, first: int, last: int) -> dict[str, int]:
    book = bench.replica.state.book
    found = [book.get(number).state for number in range(first, last + 1)]
    return {state: found.count(state) for state in set(found)}


def test_other_jobs_do_not_come_between_its_parts(signer: Identity) -> None:
    bench = bench_of(signer)
    begun(bench, 1)
    bench.submit("bob", owner=BOB)
    bench.feed(events.CancelRequested("cancel", [2], "not needed"))
    for _ in range(2):
        bench.feed(bench.land())
    assert "cancel" in bench.replies  # what is no submit does not wait for the array
    assert not {"array", "bob"} & bench.replies.keys()
    land_all(bench)
    book = bench.replica.state.book
    specs = [book.get(number).decoded_spec() for number in range(1, SIZE + 1)]
    assert [(spec.array_index, spec.array_place) for spec in specs] == [
        (place, place) for place in range(SIZE)
    ]
    assert bench.replies["array"].job == 1 and bench.replies["bob"].job == SIZE + 1
    assert book.get(2).state == "cancelled"
    assert bench.replica.state.open_array is None


def test_its_key_names_the_whole_of_it(signer: Identity) -> None:
    """A repeat makes nothing, also while the array is on its way; another array is refused."""
    bench = bench_of(signer)
    begun(bench, 1)
    submit(bench, "early", tuple(range(SIZE)))
    land_all(bench)
    submit(bench, "late", tuple(range(SIZE)))
    assert [bench.replies[each].job for each in ("array", "early", "late")] == [1, 1, 1]
    submit(bench, "other", (*range(SIZE - 1), 2 * SIZE))  # only the last entry differs
    assert "idempotency" in str(bench.replies["other"]) or "key" in str(bench.replies["other"])
    assert len(bench.replica.state.book) == SIZE
    assert taken(bench) == SIZE


def taken(bench: Bench) -> int:
    """Return how many jobs are in the log."""
    return bench.replica.state.core.counters()["submitted"]


def check_withdrawn(bench: Bench, count: int) -> None:
    """The jobs so far are cancelled, the key says so, and the next job follows them."""
    bench.submit("next", owner=BOB)
    assert bench.replies["next"].job == count + 1
    assert set(states(bench, 1, count)) <= ENDED | {"stopping"}
    assert states(bench, 2, count) == {"cancelled": count - 1}
    assert WITHDRAWN in bench.replica.state.book.get(count).reason
    submit(bench, "again", tuple(range(SIZE)))
    assert "could not be taken whole" in str(bench.replies["again"])
    assert len(bench.replica.state.book) == count + 1


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_the_next_leader_withdraws_what_the_last_one_began(signer: Identity, parts: int) -> None:
    old = bench_of(signer)
    begun(old, parts)
    check_withdrawn(Bench(signer, old.log, level=LEVEL, limits=ROOM).lead(), taken(old))


def test_a_leader_from_a_snapshot_knows_it_as_well(signer: Identity) -> None:
    old = bench_of(signer)
    begun(old, 2)
    snapshot = old.replica.state.snapshot()
    digest = snapshots.encode(snapshot).digest
    new = Bench(signer, old.log, snapshot, digest, level=LEVEL, limits=ROOM)
    check_withdrawn(new.lead(), taken(old))


def test_a_whole_array_without_its_last_jobs_is_not_taken_for_a_part(signer: Identity) -> None:
    old = bench_of(signer)
    submit(old, "array", tuple(range(SIZE)))
    old.feed(events.CancelRequested("cancel", [SIZE], ""))
    old.feed(events.Remove("remove", [SIZE], [], "removed by alice", "alice"))
    snapshot = old.replica.state.snapshot()
    digest = snapshots.encode(snapshot).digest
    new = Bench(signer, old.log, snapshot, digest, level=LEVEL, limits=ROOM).lead()
    new.submit("next", owner=BOB)
    assert states(new, 1, SIZE - 1) == states(old, 1, SIZE - 1)
    assert "cancelled" not in states(new, 1, SIZE - 1)


def test_a_leader_goes_on_after_a_loss_of_the_log(signer: Identity) -> None:
    """The entry on its way did not happen: the same leader has the rest taken."""
    bench = bench_of(signer)
    begun(bench, 2)
    bench.appends.clear()
    bench.feed(events.LogFailed("the broker is restarting"))
    bench.answering = True
    for _ in range(200):
        bench.tick()
        if "array" in bench.replies:
            break
    assert bench.replies["array"].job == 1
    assert set(states(bench, 1, SIZE)) == {"pending", "starting"}


def test_a_part_that_is_refused_takes_the_others_with_it(signer: Identity) -> None:
    """Fewer jobs are allowed meanwhile: the answer says why, and nothing of the array goes on."""
    bench = bench_of(signer)
    begun(bench, 1)
    fewer = ROOM._replace(jobs=SIZE - 5)
    bench.feed(events.Admin("limits", (), (LimitsBlob(fewer),)))
    land_all(bench)
    told = bench.replies["array"]
    assert isinstance(told, Refused), told
    count = taken(bench)
    assert f"{count} of {SIZE} jobs were taken and are cancelled" in str(told)
    assert states(bench, 2, count) == {"cancelled": count - 1}


def test_an_array_that_does_not_fit_is_refused_before_its_first_job(signer: Identity) -> None:
    budgets = Budgets(pending_jobs=SIZE - 1)
    small = bench_of(signer, budgets=budgets)
    submit(small, "user", tuple(range(SIZE)))
    assert f"alice would have more than {SIZE - 1} jobs" in str(small.replies["user"])
    full = bench_of(signer, ROOM._replace(jobs=SIZE))
    full.submit("bob", owner=BOB)
    submit(full, "table", tuple(range(SIZE)))
    said = f"the array has {SIZE} jobs, and the cluster has room for {SIZE - 1} more"
    assert said in str(full.replies["table"])
    assert not len(small.replica.state.book) and len(full.replica.state.book) == 1


def test_jobs_of_an_array_that_enters_count_once(signer: Identity) -> None:
    """While the parts enter and afterwards, its user has room for exactly what is left."""
    bench = bench_of(signer, budgets=Budgets(pending_jobs=SIZE + 1))
    begun(bench, 2)
    bench.submit("one more")
    bench.submit("too many")
    assert "budget pending_jobs" in str(bench.replies["too many"])
    land_all(bench)
    assert bench.replies["one more"].job == SIZE + 1
    bench.feed(events.CancelRequested("cancel", [SIZE], ""))
    bench.submit("room again")
    assert bench.replies["room again"].job == SIZE + 2


def test_a_repeat_takes_no_room_before_anything_is_in_the_log(signer: Identity) -> None:
    """The log is slow, and the client asks again: both are told of the one array."""
    bench = bench_of(signer, budgets=Budgets(pending_jobs=SIZE))
    begun(bench, 0)
    submit(bench, "again", tuple(range(SIZE)))
    assert "again" not in bench.replies
    land_all(bench)
    assert [bench.replies[each].job for each in ("array", "again")] == [1, 1]
    assert taken(bench) == SIZE
    bench.submit("other")
    assert "budget pending_jobs" in str(bench.replies["other"])


def test_all_of_its_jobs_have_the_options_of_the_request(signer: Identity) -> None:
    bench = bench_of(signer)
    submit(bench, "array", tuple(range(SIZE)), name="sweep", priority=3, gpu_milli=1000)
    book = bench.replica.state.book
    whole = {"array_index": 0, "array_place": 0}
    first = msgspec.structs.replace(book.get(1).decoded_spec(), **whole)
    last = msgspec.structs.replace(book.get(SIZE).decoded_spec(), **whole)
    assert first == last and (last.name, last.array_size) == ("sweep", SIZE)
