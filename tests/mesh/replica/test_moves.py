# SPDX-License-Identifier: Apache-2.0
"""Moves of jobs off drained nodes, through the whole replica: what is moved, how it stops, and what
is told of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.server import administration, node_moves
from stoker.mesh.wire.command import StateRequest, open_desired
from stoker.mesh.wire.schema import NodeDrainRequest
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import NodeReport, Outcome, StopJob
from tests.mesh.bench import Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


class Token(NamedTuple):
    """The token of a request, by its number."""

    number: int


def drain(bench: Bench, node: str = "n1", **fields: Any) -> Any:
    token = Token(len(bench.replies))
    request, state = NodeDrainRequest(node=node, **fields), bench.replica.state
    bench.feed(administration.node_drain(token, request, state, bench.now, "root"))
    bench.tick(1.1)
    return bench.replies[token]


def job(bench: Bench, number: int) -> Job:
    return bench.replica.state.book.get(number)


def stops(bench: Bench, node: str = "n1") -> list[StopJob]:
    return [each for each in bench.actions(node) if isinstance(each, StopJob)]


def ended(bench: Bench, number: int, node: str = "n1", task: int = 0) -> None:
    """Let the node say that the task has ended on its stop."""
    record = job(bench, number)
    key = bench.replica.state.book.key(number, record.attempt, task)
    made = Outcome(*key, 1, "cancelled", bench.now, reason=record.reason)
    bench.feed(events.Outcomes(("ended", number, task, record.attempt), node, (made,)))


def test_a_job_that_may_run_again_is_stopped_with_its_signal_and_runs_elsewhere(
    bench: Bench,
) -> None:
    bench.submit("s", retries=1, restart="on-node-loss", checkpoint_signal="USR1", grace_s=7.0)
    bench.hello("n2")
    assert drain(bench, move=True, reason="new fans") == AdminApplied(True)
    (stop,) = stops(bench)
    assert stop.reason == "moved off n1, drained by root: new fans"
    assert (stop.signal, stop.grace_s, stop.state) == ("USR1", 7.0, "cancelled")
    assert job(bench, 1).state == "stopping" and job(bench, 1).reason == stop.reason
    ended(bench, 1)
    found = job(bench, 1)
    assert found.decision is not None and found.decision.node == "n2"
    (before,) = found.attempts
    assert (before.state, before.reason) == ("cancelled", stop.reason)
    info = bench.replica.state.core.job(1)
    assert info is not None and info.retried - info.preemptions == 0, "it costs no retry"


def test_the_grace_of_the_drain_counts_and_outlasts_it(bench: Bench) -> None:
    """Whoever leads next, and whatever message was lost, the node hears the same."""
    bench.submit("s", retries=1)
    bench.hello("n2")
    drain(bench, move=True, grace_s=600.0)
    (first,) = stops(bench)
    assert (first.signal, first.grace_s) == ("TERM", 600.0)
    state = bench.replica.state
    up = administration.node_drain("u", NodeDrainRequest(node="n1", drain=False), state, bench.now)
    bench.feed(up)
    restored = ReplicaState.restore(state.snapshot())
    assert restored.digest() == state.digest() and restored.book.graces == {1: 600.0}
    assert desired(bench).stops == (first,)
    ended(bench, 1)
    assert state.book.graces == {} and job(bench, 1).attempt == 2


def desired(bench: Bench, node: str = "n1") -> Any:
    """Return what a node that has nothing is told to have."""
    request = StateRequest(7)
    bench.feed(events.StateRequested("desired", node, request))
    return open_desired(bench.replies.pop("desired"), [bench.signer.verifier])


def test_jobs_stay_that_run_once_only_or_fit_nowhere_else(bench: Bench) -> None:
    bench.submit("once", cpu_milli=100)
    bench.submit("big", cpu_milli=4000, retries=1)
    small = NodeReport("n2", "b", 1, 2000, 1 << 30, ())
    bench.feed(events.NodeReported("small", small))
    drain(bench, move=True)
    assert stops(bench) == []
    found = node_moves.leaving("n1", bench.replica.state)
    assert found is not None and found.moving == 0 and found.staying_more == 0
    assert [(each.job, each.why) for each in found.staying] == [
        (1, "it may not run again (--restart never)"),
        (2, "no other node that takes jobs could run it"),
    ]
    bench.hello("n3")
    bench.tick(1.1)
    assert [stop.job for stop in stops(bench)] == [2], "it moves once a node for it came"


def test_a_plain_drain_moves_nothing_and_ends_the_moving(bench: Bench) -> None:
    bench.submit("s", retries=1)
    assert drain(bench, move=True) == AdminApplied(True)
    assert node_moves.leaving("n1", bench.replica.state) is not None
    drain(bench)
    bench.hello("n2")
    bench.tick(1.1)
    assert stops(bench) == [] and node_moves.leaving("n1", bench.replica.state) is None


def test_a_gang_is_moved_as_a_whole(bench: Bench) -> None:
    bench.hello("n2")
    bench.submit("gang", tasks=2, tasks_per_node=1, retries=1, checkpoint_signal="USR2")
    ranks = [rank.decision.node for rank in job(bench, 1).ranks]
    assert sorted(ranks) == ["n1", "n2"]
    bench.hello("n3")
    drain(bench, move=True)
    for node in ("n1", "n2"):
        (stop,) = stops(bench, node)
        assert stop.signal == "USR2"
    for task, node in enumerate(ranks):
        ended(bench, 1, node, task)
    found = job(bench, 1)
    assert sorted(rank.decision.node for rank in found.ranks) == ["n2", "n3"]
    assert found.attempts[0].state == "cancelled"
    assert found.attempts[0].reason.startswith("moved off n1, drained by root")


def test_a_node_that_dies_in_the_grace_ends_the_attempt(bench: Bench) -> None:
    from stoker.mesh.log.entry import EvictBlob
    from stoker.mesh.replica.works.work import EvictWork

    bench.submit("s", retries=1)
    bench.hello("n2")
    drain(bench, move=True, grace_s=60.0)
    instance = bench.replica.state.book.nodes["n1"].instance
    work = EvictWork(EvictBlob("n1", instance, "silent"))
    bench.replica._appends.enqueue(work, bench.replica._now)
    bench.tick(1.1)
    found = job(bench, 1)
    assert found.decision is not None and found.decision.node == "n2"
    assert found.attempts[0].state == "lost" and bench.replica.state.book.graces == {}
    info = bench.replica.state.core.job(1)
    assert info is not None and info.retried - info.preemptions == 0


def test_a_preempted_job_has_its_signal_and_its_own_grace(bench: Bench) -> None:
    bench.submit("s", gpu_milli=1000, preemptible=True, checkpoint_signal="USR1", grace_s=9.0)
    bench.tick(1)
    bench.submit("t", gpu_milli=1000, preemptor=True, priority=5)
    (stop,) = stops(bench)
    assert (stop.job, stop.signal, stop.grace_s) == (1, "USR1", 9.0)


def test_a_cancelled_job_has_no_time_to_save_its_work(bench: Bench) -> None:
    bench.submit("s", retries=1, checkpoint_signal="USR1")
    bench.feed(events.CancelRequested("c", [1], ""))
    (stop,) = stops(bench)
    assert (stop.signal, stop.grace_s) == ("", None)


def test_a_job_that_is_cancelled_in_its_grace_ends_at_once(bench: Bench) -> None:
    bench.submit("s", retries=1, checkpoint_signal="USR1")
    bench.hello("n2")
    drain(bench, move=True, grace_s=600.0)
    bench.feed(events.CancelRequested("c", [1], "not needed"))
    first, second = stops(bench)
    assert (first.signal, first.grace_s) == ("USR1", 600.0)
    assert second.key == first.key and (second.signal, second.grace_s) == ("", None)
    assert second.reason == job(bench, 1).reason != first.reason
    assert desired(bench).stops == (second,), "a message that was lost is repeated"
    ended(bench, 1)
    assert job(bench, 1).state == "cancelled"


def test_a_gang_that_is_cancelled_in_its_grace_ends_at_once_on_all_nodes(bench: Bench) -> None:
    bench.hello("n2")
    bench.submit("s", tasks=2, tasks_per_node=1, retries=1)
    bench.hello("n3")
    drain(bench, move=True, grace_s=600.0)
    bench.feed(events.CancelRequested("c", [1], ""))
    for node in ("n1", "n2"):
        told = stops(bench, node)
        assert [each.signal for each in told] == ["TERM", ""], node
