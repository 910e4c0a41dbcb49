# SPDX-License-Identifier: Apache-2.0
"""A gang in the replica: all or nothing into the log, one release, one reason for all ranks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events, gangs
from stoker.mesh.replica.nodes.leader_tick import GATHER_NS
from stoker.mesh.server import explanation, job_views, node_proxy
from stoker.mesh.wire.command import CommandChain, DesiredState, Position
from stoker.native.errors import NotFound
from stoker.scheduler.book import Book, Job
from stoker.scheduler.nouns import Outcome, ReleaseJob, StartJob, StopJob, TaskKey, Usage
from tests.mesh.bench import CLUSTER, Bench

NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    made = Bench(signer).lead()
    for number, node in enumerate(NODES):
        made.hello(node, boot=f"boot-{node}", ping=f"10.0.0.{number + 1}:7")
    return made


def submit(bench: Bench, **spec: Any) -> Job:
    bench.submit("s", tasks=4, tasks_per_node=2, **spec)
    job: Job = bench.replies["s"]
    return job


def tell(bench: Bench, task: int, state: Any, attempt: int = 1, **fields: Any) -> None:
    node = NODES[task // 2]
    key = book(bench).key(1, attempt, task)
    made = Outcome(*key, 1, state, bench.now, **fields)
    bench.feed(events.Outcomes(object(), node, (made,)))


def actions(bench: Bench, kind: type[Any]) -> dict[str, list[Any]]:
    found = {node: [] for node in NODES}
    for node in NODES:
        for command in bench.commands(node):
            found[node] += [each for each in command.actions if isinstance(each, kind)]
    return found


def keys(bench: Bench, kind: type[Any]) -> dict[str, list[int]]:
    return {node: [each.task for each in some] for node, some in actions(bench, kind).items()}


def book(bench: Bench) -> Book:
    return bench.replica.state.book


def test_all_ranks_get_their_places_in_one_entry_and_know_the_others(bench: Bench) -> None:
    job = submit(bench)
    assert [rank.decision.node for rank in job.ranks] == ["n1", "n1", "n2", "n2"]
    assert len({rank.decision.id for rank in job.ranks}) == 4
    starts = [each for some in actions(bench, StartJob).values() for each in some]
    assert [each.decision for each in starts] == [rank.decision for rank in job.ranks]
    (gang,) = {each.gang for each in starts}
    assert (gang.nodes, gang.places, gang.master_addr) == (NODES, (0, 0, 1, 1), "10.0.0.1")
    assert gang.master_port == job.master_port > 0


def test_ranks_are_released_together_when_all_of_them_are_ready(bench: Bench) -> None:
    submit(bench)
    for task in (0, 3, 1):
        tell(bench, task, "ready")
    assert keys(bench, ReleaseJob) == {"n1": [], "n2": []}
    tell(bench, 1, "ready")  # said again
    tell(bench, 2, "ready")
    assert keys(bench, ReleaseJob) == {"n1": [0, 1], "n2": [2, 3]}
    assert [rank.state for rank in book(bench).get(1).ranks] == ["ready"] * 4
    tell(bench, 2, "running")
    assert book(bench).get(1).state == "running"
    assert not book(bench).gathering


def test_the_desired_state_says_again_what_may_run(bench: Bench) -> None:
    submit(bench)
    for task in range(4):
        tell(bench, task, "ready")
    tell(bench, 3, "running")
    ranks = [book(bench).key(1, 1, task) for task in range(4)]
    assert desired(bench, "n1").releases == (ranks[0], ranks[1])
    assert desired(bench, "n2", ranks[2], ranks[3]).releases == (ranks[2],)
    tell(bench, 0, "failed", exit_code=3)
    assert desired(bench, "n1", ranks[1]).releases == ()


def desired(bench: Bench, node: str, *have: TaskKey) -> DesiredState:
    chain = CommandChain(CLUSTER, node, [bench.signer.verifier], Position())
    request = chain.state_request(have)
    token = ("range", node, have)
    bench.feed(events.StateRequested(token, node, request))
    found = chain.reconcile(bench.replies[token])
    assert isinstance(found, DesiredState)
    return found


def test_the_first_rank_that_fails_is_the_reason_of_all(bench: Bench) -> None:
    submit(bench)
    for task in range(4):
        tell(bench, task, "running")
    tell(bench, 3, "failed", exit_code=7, usage=Usage(1, 2, 3, 4))
    reason = "rank 3 on node n2: exit code 7"
    assert (book(bench).get(1).state, book(bench).get(1).reason) == ("stopping", reason)
    stops = actions(bench, StopJob)
    assert [stop.task for stop in (*stops["n1"], *stops["n2"])] == [0, 1, 2]
    assert {stop.reason for some in stops.values() for stop in some} == {reason}
    port = book(bench).get(1).master_port
    assert book(bench).ports._used == {"n1": {port: 1}}
    for task in (1, 0, 2):
        tell(bench, task, "cancelled", signal=15, reason=reason, usage=Usage(1, 2, 3, 4))
    ended = book(bench).get(1)
    assert (ended.state, ended.reason, ended.exit_code, ended.signal) == ("failed", reason, 7, None)
    assert ended.usage == Usage(4, 8, 12, 16)
    assert [rank.state for rank in ended.ranks] == [*["cancelled"] * 3, "failed"]
    assert book(bench).ports._used == {}


def test_an_attempt_that_failed_is_followed_by_one_of_the_whole_gang(bench: Bench) -> None:
    submit(bench, retries=1)
    for task in range(4):
        tell(bench, task, "running")
    tell(bench, 0, "failed", signal=9)
    for task in (1, 2, 3):
        tell(bench, task, "cancelled", signal=15)
    waits = book(bench).get(1)
    assert (waits.state, waits.ranks) == ("pending", [])
    (first,) = waits.attempts
    assert (first.state, first.reason) == ("failed", "rank 0 on node n1: ended by signal 9")
    assert (first.signal, first.nodes) == (9, ("n1", "n1", "n2", "n2"))
    bench.tick(5.0)
    again = book(bench).get(1)
    assert (again.attempt, len(again.ranks)) == (2, 4)
    old, new = book(bench).key(1, 1, 3), book(bench).key(1, 2, 1)
    assert old.placing != new.placing
    assert node_proxy._chosen(again, 1, 3)[:4] == (old, "n2", True, False)
    assert node_proxy._chosen(again, 0, 1)[:4] == (new, "n1", False, False)
    with pytest.raises(NotFound, match="job 1 has no rank 4: it has 4 from 0"):
        node_proxy._chosen(again, 0, 4)
    assert set(book(bench).where(1)) == set(NODES)


def test_a_gang_that_does_not_become_ready_is_given_up_and_nothing_of_it_runs(
    bench: Bench,
) -> None:
    submit(bench)
    for task in (0, 1, 2):
        tell(bench, task, "ready")
    bench.tick(GATHER_NS / 1e9 - 1)
    assert book(bench).get(1).state == "starting"
    bench.tick(2.0)
    given_up = book(bench).get(1)
    reason = "not all of its tasks were ready in time, so none of them was started (rank 3 on n2)"
    assert (given_up.state, given_up.reason) == ("stopping", reason)
    tell(bench, 3, "ready")  # too late
    assert keys(bench, ReleaseJob) == {"n1": [], "n2": []}
    assert keys(bench, StopJob) == {"n1": [0, 1], "n2": [2, 3]}
    bench.tick(2.0)
    for task in range(4):
        tell(bench, task, "cancelled")
    assert (book(bench).get(1).state, book(bench).get(1).reason) == ("failed", reason)


def test_a_gang_of_which_one_rank_cannot_be_launched_waits_again_as_a_whole(bench: Bench) -> None:
    submit(bench)
    for task in (0, 1, 2):
        tell(bench, task, "ready")
    why = "it could not be launched on node n2: No space left on device"
    tell(bench, 3, "unlaunched", reason=why)
    assert book(bench).get(1).state == "stopping"
    assert keys(bench, StopJob) == {"n1": [0, 1], "n2": [2]}
    for task in (0, 1, 2):
        tell(bench, task, "cancelled")
    waits = book(bench).get(1)
    assert (waits.state, waits.attempts[0].state) == ("pending", "cancelled")
    assert waits.attempts[0].reason == f"rank 3 on node n2: {why}"
    assert keys(bench, ReleaseJob) == {"n1": [], "n2": []}
    bench.tick(1.2)
    assert keys(bench, StartJob) == {"n1": [0, 1] * 2, "n2": [2, 3] * 2}


def test_a_released_gang_fails_with_a_rank_that_cannot_be_launched(bench: Bench) -> None:
    """The others may have run, so this is for its own policy to decide."""
    submit(bench)
    for task in range(4):
        tell(bench, task, "ready")
    tell(bench, 3, "unlaunched", reason="no process")
    for task in (0, 1, 2):
        tell(bench, task, "cancelled")
    ended = book(bench).get(1)
    assert (ended.state, ended.reason) == ("failed", "rank 3 on node n2: no process")
    assert ended.attempt == 1


def test_a_released_gang_is_not_given_up(bench: Bench) -> None:
    submit(bench)
    for task in range(4):
        tell(bench, task, "ready")
    bench.tick(2 * GATHER_NS / 1e9)
    assert book(bench).get(1).state == "starting"


def test_a_node_that_reboots_at_the_barrier_ends_the_attempt(bench: Bench) -> None:
    submit(bench, retries=1, restart="on-node-loss")
    for task in (0, 1, 2):
        tell(bench, task, "ready")
    bench.hello("n2", boot="another")
    stopping = book(bench).get(1)
    assert stopping.state == "stopping"
    reason = stopping.reason
    assert reason.endswith("(ranks 2, 3 on node n2)")
    assert keys(bench, StopJob)["n1"] == [0, 1]
    for task in (0, 1):
        tell(bench, task, "cancelled")
    (first,) = book(bench).get(1).attempts
    assert (first.state, first.reason) == ("lost", reason)
    assert keys(bench, ReleaseJob) == {"n1": [], "n2": []}


def test_a_restored_book_goes_on_where_it_was(bench: Bench) -> None:
    submit(bench)
    tell(bench, 0, "ready")
    restored = Book.restore(book(bench).snapshot())
    assert restored.snapshot() == book(bench).snapshot()
    assert restored.gathering == {1}
    assert restored.ports._used == book(bench).ports._used != {}
    assert restored.get(1) == book(bench).get(1)


def test_a_gang_is_shown_by_its_ranks(bench: Bench) -> None:
    submit(bench)
    for task in range(4):
        tell(bench, task, "running")
    view = job_views.job_view(bench.replica, book(bench).get(1))
    assert (view.nodes, view.spec.tasks) == (NODES, 4)
    assert [(rank.rank, rank.node, rank.state) for rank in view.ranks] == [
        (0, "n1", "running"), (1, "n1", "running"), (2, "n2", "running"), (3, "n2", "running"),
    ]  # fmt: skip
    assert view.master == f"10.0.0.1:{book(bench).get(1).master_port}"
    listed = job_views.job_view(bench.replica, book(bench).get(1), short=True)
    assert (listed.nodes, listed.ranks) == (NODES, ())
    explained = explanation.explain_view(bench.replica, book(bench).get(1), bench.now)
    assert explained.summary.startswith("runs as 4 ranks on nodes n1, n2 for")


def test_ranks_are_named_briefly() -> None:
    found = [gangs.numbers(ranks) for ranks in ([3], [0, 2], list(range(4, 12)), [0, 2, 4, 6, 8])]
    assert found == ["rank 3", "ranks 0, 2", "ranks 4 to 11", "5 ranks from 0"]


def test_one_task_is_started_as_before(bench: Bench) -> None:
    bench.submit("s")
    (start,) = [each for some in actions(bench, StartJob).values() for each in some]
    assert start.gang is None
    assert msgspec.msgpack.encode(start)
    assert book(bench).get(1).ranks == [] and not book(bench).gathering
