# SPDX-License-Identifier: Apache-2.0
"""Attempts by the entry that placed them: one of another log's entry is none of this log's."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.nodes.node_channel import key_of
from stoker.mesh.wire.command import DesiredState, NodeReply
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import Outcome, StartJob, StopJob, TaskKey, placing_of
from tests.mesh.bench import Bench


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


def desired(bench: Bench, *have: TaskKey) -> DesiredState:
    """Return what the node should be in that has these attempts."""
    chain = bench.chain()
    bench.feed(events.StateRequested("r", "n1", chain.state_request(have)))
    found = chain.reconcile(bench.replies["r"])
    assert isinstance(found, DesiredState)
    return found


def reports(bench: Bench, key: TaskKey, state: Any) -> Any:
    token = ("reports", key, state)
    bench.feed(events.Outcomes(token, "n1", (Outcome(*key, 1, state, bench.now),)))
    return bench.replies[token]


def other(key: TaskKey) -> TaskKey:
    """Return the attempt of the same name that another log placed."""
    return key._replace(placing=key.placing ^ 1)


def test_start_and_stop_name_the_hash_of_the_entry_that_placed_the_attempt(bench: Bench) -> None:
    bench.submit("s")
    last = bench.log.entries[bench.log.last]
    placing = placing_of(entry.unseal(bench.log.last, last).hash)
    assert placing > 0
    bench.feed(events.CancelRequested("c", [1], ""))
    start, stop = bench.actions()
    assert isinstance(start, StartJob) and isinstance(stop, StopJob)
    assert start.key == stop.key == TaskKey(1, 1, 0, placing)
    assert start.decision.placing == placing


def test_a_snapshot_keeps_what_placed_an_attempt(bench: Bench) -> None:
    bench.submit("s")
    state = bench.replica.state
    restored = snapshots.decode(snapshots.encode(state.snapshot()).data)[0]
    again = type(state).restore(restored)
    (task,) = again.core.node_tasks(name_id("n1"))
    assert key_of(task, again.book) == bench.key(1) and bench.key(1).placing


def test_each_attempt_of_a_job_has_a_placing_of_its_own(bench: Bench) -> None:
    bench.submit("s", retries=1)
    first = bench.key(1)
    assert reports(bench, first, "failed") == NodeReply(True, term=1)
    bench.tick(10)
    second = bench.key(1, 2)
    assert second.placing not in (0, first.placing)
    assert bench.key(1, 1) == first, "the first attempt is still known"


@pytest.mark.parametrize("state", ["running", "succeeded", "failed", "lost"])
def test_an_outcome_of_another_placing_is_answered_counted_and_changes_nothing(
    bench: Bench, state: Any
) -> None:
    bench.submit("s")
    before, last = bench.replica.state.digest(), bench.log.last
    assert reports(bench, other(bench.key(1)), state) == NodeReply(True, term=1)
    assert (bench.replica.state.digest(), bench.log.last) == (before, last)
    assert bench.replica.counters["outcome_unknown"] == 1
    assert reports(bench, bench.key(1), "succeeded") == NodeReply(True, term=1)
    assert bench.replica.state.book.get(1).state == "succeeded"
    assert bench.replica.counters["outcome_unknown"] == 1


def test_a_node_with_the_attempt_of_another_placing_is_told_to_start_this_one(
    bench: Bench,
) -> None:
    bench.submit("s")
    key = bench.key(1)
    found = desired(bench, other(key))
    assert found.wanted == (key,)
    assert [start.key for start in found.starts] == [key]
    assert found.stops == (), "the log says nothing about an attempt that it does not know"


def test_an_attempt_that_is_over_is_stopped_only_under_its_own_placing(bench: Bench) -> None:
    bench.submit("s")
    key = bench.key(1)
    reports(bench, key, "succeeded")
    assert [stop.key for stop in desired(bench, key, other(key)).stops] == [key]
