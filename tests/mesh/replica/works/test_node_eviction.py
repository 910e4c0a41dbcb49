# SPDX-License-Identifier: Apache-2.0
"""An operator gives a node up: what is refused, what it waits for, and what the log says of it."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.entry import EvictBlob, unseal
from stoker.mesh.replica import attempt_words, events
from stoker.mesh.replica.watch.node_watch import OVER_NS
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.server import administration, explanation
from stoker.mesh.wire.schema import NodeDrainRequest, NodeEvictRequest
from stoker.native.errors import BadRequest, NotFound, Refused, Unavailable
from tests.mesh.replica.watch.test_node_watch import Watched, placed_on, run_one

WHY = "an operator: root: its board is dead"


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "scheduler")


@pytest.fixture
def bench(signer: Identity) -> Watched:
    """A leader with two nodes, of which neither is evicted without gossip."""
    made = Watched(signer, ("n1", "n2"))
    made.pass_time(1)
    return made


def requested(bench: Watched, node: str, *, force: bool = False, reason: str = "") -> Any:
    """Request an eviction; return its token."""
    token = ("evict", len(bench.replies), bench.now)
    request = NodeEvictRequest(node=node, force=force, reason=reason or "its board is dead")
    bench.feed(administration.node_evict(token, request, bench.replica.state, bench.now, "root"))
    return token


def answer(bench: Watched, token: Any) -> Any:
    """Pass time until a request is answered."""
    end = bench.now + OVER_NS + 10**9
    while token not in bench.replies:
        assert bench.now < end
        bench.pass_time(0.1)
    return bench.replies[token]


def silence(bench: Watched, node: str, seconds: float = 2) -> None:
    """Let a node request no lease any more, while its host replies to pings."""
    bench.names = tuple(name for name in bench.names if name != node)
    bench.pass_time(seconds)


def test_a_node_whose_host_lives_is_given_up_in_a_cluster_of_two(bench: Watched) -> None:
    lost, node = run_one(bench)
    moves, other = run_one(bench, retries=1, restart="on-node-loss")
    assert node != other
    answered = bench.now
    silence(bench, other)
    token = requested(bench, other)
    assert bench.replica.watch.is_withheld(other) and bench.evicted == []
    assert answer(bench, token) == AdminApplied(True)
    assert bench.now - answered >= OVER_NS - 10**9 // 5 and bench.evicted == [other]
    book = bench.replica.state.book
    assert book.evicted[other].why == WHY and other in book.nodes
    assert book.get(lost).state == "running"
    ended = book.get(moves)
    assert (ended.attempts[0].state, ended.attempts[0].reason) == ("lost", f"node evicted: {WHY}")
    told = explanation.explain_view(bench.replica, ended, bench.now)
    assert WHY in " ".join((told.summary, *(each.text for each in told.reasons)))


def test_before_level_4_a_job_that_runs_again_does_not_keep_the_evidence(signer: Identity) -> None:
    former = Watched(signer, ("n1", "n2"), level=attempt_words.EVIDENCE_SINCE - 1)
    former.pass_time(1)
    moves, node = run_one(former, retries=1, restart="on-node-loss")
    silence(former, node)
    assert answer(former, requested(former, node)) == AdminApplied(True)
    (ended,) = former.replica.state.book.get(moves).attempts
    assert (ended.state, ended.reason) == ("lost", attempt_words.LOST_WITH_NODE)


def test_a_node_that_was_given_up_returns_like_any_other(bench: Watched) -> None:
    job, node = run_one(bench)
    silence(bench, node)
    assert answer(bench, requested(bench, node)) == AdminApplied(True)
    assert bench.replica.state.book.get(job).state == "lost"
    index = bench.replica.state.book.evicted[node].index
    again = requested(bench, node)
    assert bench.replies[again] == AdminApplied(False), "it is given up already"
    bench.tick()
    assert not bench.replica.watch.is_withheld(node) and bench.evicted == [node]
    bench.names = ("n1", "n2")
    bench.hello(node, incarnation=2, instance=1, ping=f"{node}:1", settled=index)
    bench.pass_time(1)
    found = {run_one(bench)[1], run_one(bench)[1]}
    assert found == {"n1", "n2"} and bench.replica.state.book.evicted == {}


def test_a_node_whose_agent_is_heard_is_given_up_by_force_alone(bench: Watched) -> None:
    job, node = run_one(bench)
    refused = bench.replies[requested(bench, node)]
    assert isinstance(refused, Refused) and refused.message.startswith(
        f"node {node} is not lost: its agent was heard 0."
    )
    assert f"`stoker drain {node}`" in refused.hint and "--force" in refused.hint
    began = bench.now
    token = requested(bench, node, force=True)
    assert answer(bench, token) == AdminApplied(True)
    assert bench.now - began >= OVER_NS - 10**9
    assert bench.replica.state.book.get(job).state == "lost"


def test_a_node_that_is_heard_while_its_lease_ends_keeps_its_jobs(bench: Watched) -> None:
    job, node = run_one(bench)
    silence(bench, node)
    token = requested(bench, node)
    bench.pass_time(1)
    assert token not in bench.replies
    bench.names = ("n1", "n2")
    refused = answer(bench, token)
    assert isinstance(refused, Refused) and "is not lost" in refused.message
    bench.pass_time(10)
    assert bench.evicted == [] and bench.replica.state.book.get(job).state == "running"
    assert not bench.replica.watch.is_withheld(node)


def test_what_cannot_be_given_up_is_refused_with_one_line(signer: Identity) -> None:
    alone = Watched(signer, ("n1",))
    silence(alone, "n1")
    for force in (False, True):
        refused = alone.replies[requested(alone, "n1", force=force)]
        assert isinstance(refused, Refused) and "the only one of this cluster" in refused.message
    unknown = alone.replies[requested(alone, "n9")]
    assert isinstance(unknown, NotFound) and unknown.message == "there is no node 'n9'"
    with pytest.raises(BadRequest, match="printable"):
        requested(alone, "n1", reason="two\nlines")


def test_a_node_that_was_removed_is_named_with_its_removal(bench: Watched) -> None:
    silence(bench, "n2", 8)
    bench.feed(events.NodeRemoval("remove", "n2", "sold, by root", True))
    bench.pass_time(1)
    gone = bench.replies[requested(bench, "n2")]
    assert isinstance(gone, NotFound) and "n2 was removed" in gone.message


def test_a_drained_node_without_jobs_is_given_up_as_well(bench: Watched) -> None:
    drain = NodeDrainRequest(node="n1", reason="new disk")
    bench.feed(administration.node_drain("drain", drain, bench.replica.state, bench.now))
    silence(bench, "n1")
    assert answer(bench, requested(bench, "n1")) == AdminApplied(True)
    book = bench.replica.state.book
    assert (book.drained, list(book.evicted)) == ({"n1": "new disk"}, ["n1"])


def test_the_last_of_equal_requests_is_answered_and_another_one_waits(bench: Watched) -> None:
    run_one(bench)
    silence(bench, "n1")
    first = requested(bench, "n1")
    bench.pass_time(0.5)
    second = requested(bench, "n1")
    assert isinstance(bench.replies[first], Unavailable)
    bench.feed(events.NodeRemoval("remove", "n1", "sold, by root", True))
    assert isinstance(bench.replies["remove"], Unavailable)
    assert answer(bench, second) == AdminApplied(True)
    assert "n1" in bench.replica.state.book.nodes


def test_a_leader_that_is_deposed_gives_nobody_up_by_an_old_word(bench: Watched) -> None:
    silence(bench, "n1")
    token = requested(bench, "n1")
    bench.replica.watch.end()
    bench.feed(events.TimePassed())
    assert isinstance(bench.replies[token], Unavailable)
    bench.pass_time(8)
    assert bench.evicted == []


def test_the_entry_is_that_of_any_eviction(bench: Watched) -> None:
    silence(bench, "n1", 8)
    before = len(bench.log.read(1))
    assert answer(bench, requested(bench, "n1")) == AdminApplied(True)
    entries = [unseal(*row).entry for row in bench.log.read(before + 1)]
    assert [entry.blobs for entry in entries] == [(EvictBlob("n1", 1, WHY),)]


def test_a_job_goes_on_elsewhere_although_no_ping_went_unanswered(bench: Watched) -> None:
    job, node = run_one(bench, retries=1, restart="on-node-loss")
    silence(bench, node)
    assert answer(bench, requested(bench, node)) == AdminApplied(True)
    bench.pass_time(3)
    assert placed_on(bench, job) in {"n1", "n2"} - {node}
