# SPDX-License-Identifier: Apache-2.0
"""A node leaves for good at one replica: what refuses it, what it takes along, and who returns."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import departed_nodes, events, snapshots
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.replica.watch.node_watch import OVER_NS
from stoker.mesh.replica.works.fence import FENCE_ID
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.server import administration, cluster_views, job_views
from stoker.mesh.wire import schema
from stoker.mesh.wire.command import NodeReply
from stoker.native.errors import NotFound, Refused, Unavailable
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import ForgetJob, NodeReport
from tests.mesh.bench import Bench

S = 1_000_000_000


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "scheduler")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    """A leader long after its start with one node n1, of key K1 and instance 1."""
    made = Bench(signer).lead()
    made.hello("n1", instance=1, key="K1").tick(10)
    return made


def requested(bench: Bench, node: str = "n1", *, force: bool = False) -> Any:
    """Request a removal; return its token."""
    token = ("remove", len(bench.replies), bench.now)
    bench.feed(events.NodeRemoval(token, node, "worn out, by root", force))
    return token


def remove(bench: Bench, node: str = "n1", *, force: bool = False) -> Any:
    return bench.replies.get(requested(bench, node, force=force))


def drain(bench: Bench, node: str = "n1") -> None:
    request = schema.NodeDrainRequest(node=node)
    token = ("drain", len(bench.replies))
    bench.feed(administration.node_drain(token, request, bench.replica.state, bench.now))


def run_one(bench: Bench, token: str = "job", **spec: Any) -> int:
    bench.submit(token, gpu_milli=1000, **spec)
    job = int(bench.replies[token].job)
    bench.outcome(job, "running")
    return job


def names(bench: Bench) -> list[str]:
    return [row.node for row in cluster_views.node_list(bench.replica, bench.now).nodes]


def replayed(bench: Bench) -> bytes:
    """The digest of the state that a snapshot of this state gives."""
    data = snapshots.encode(bench.replica.state.snapshot()).data
    return ReplicaState.restore(snapshots.decode(data)[0]).digest()


def test_a_node_that_takes_jobs_or_has_some_is_refused_with_what_to_do(bench: Bench) -> None:
    refused = remove(bench)
    assert isinstance(refused, Refused) and "takes jobs" in refused.message
    assert "stoker node drain n1" in refused.hint
    job = run_one(bench)
    drain(bench)
    refused = remove(bench)
    assert isinstance(refused, Refused) and refused.message == f"node n1 has job {job}"
    assert "--force" in refused.hint and "drain" in refused.hint
    assert names(bench) == ["n1"]
    unknown = remove(bench, "n9")
    assert isinstance(unknown, NotFound)


def test_a_drained_node_leaves_every_list_and_its_jobs_still_name_it(bench: Bench) -> None:
    job = run_one(bench)
    bench.outcome(job, "succeeded", exit_code=0)
    cordon = schema.DeviceCordonRequest(node="n1", device="gpu-0")
    bench.feed(administration.device_cordon("c", cordon, bench.replica.state, bench.now))
    drain(bench)
    before = len(bench.log.read(1))
    assert remove(bench) == AdminApplied(True)
    assert len(bench.log.read(1)) == before + 1, "one entry"
    state = bench.replica.state
    assert names(bench) == [] and state.core.node(name_id("n1")) is None
    assert cluster_views.device_list(bench.replica, None).devices == ()
    assert not (state.book.drained or state.book.cordoned or state.book.evicted)
    assert "n1" not in bench.replica.nodes.observations
    view = job_views.job_view(bench.replica, state.book.get(job))
    assert view.decision is not None and view.decision.node == "n1"
    assert view.device_ns is not None
    decision = state.book.get(job).decision
    assert decision is not None
    left = departed_nodes.departure(state, decision)
    assert left is not None and (left.key, left.instance) == ("K1", 1)
    assert "removed from the cluster on 20" in departed_nodes.words(left)
    assert "worn out, by root" in departed_nodes.words(left)
    assert remove(bench) == AdminApplied(False), "a repeat is no error"
    assert replayed(bench) == state.digest()


def test_time_goes_on_without_it(bench: Bench) -> None:
    """Its observations become stale and its jobs are forgotten, and it hears of neither."""
    job = run_one(bench)
    bench.outcome(job, "succeeded", exit_code=0)
    drain(bench)
    remove(bench)
    told = len(bench.actions())
    bench.feed(events.Remove("rm", [job], [], "removed by alice"))
    for _ in range(200):
        bench.tick()
    assert not any(isinstance(action, ForgetJob) for action in bench.actions()[told:])
    assert bench.halted == ""


def test_it_does_not_come_back_and_another_host_may_have_its_name(bench: Bench) -> None:
    job = run_one(bench)
    bench.outcome(job, "succeeded", exit_code=0)
    drain(bench)
    remove(bench)
    bench.hello("n1", incarnation=2, instance=1, key="K1")
    reply = bench.replies["hello", "n1", "boot-1", 2]
    assert isinstance(reply, NodeReply) and (reply.ok, reply.code) == (False, "removed")
    bench.hello("n1", "boot-2", incarnation=3, instance=5, key="K1")
    assert not bench.replies["hello", "n1", "boot-2", 3].ok, "its host has booted again"
    assert names(bench) == []
    bench.hello("n1", incarnation=4, instance=6, key="K2")
    assert bench.replies["hello", "n1", "boot-1", 4].ok
    state = bench.replica.state
    assert names(bench) == ["n1"] and state.book.drained == {}
    assert cluster_views.node_list(bench.replica, bench.now).nodes[0].jobs == 0
    old = state.book.get(job).decision
    assert old is not None and departed_nodes.report_of(state, old) is None
    later = run_one(bench, "later")
    new = state.book.get(later).decision
    assert new is not None and departed_nodes.report_of(state, new) is not None
    assert replayed(bench) == state.digest()


def test_force_waits_for_the_end_of_the_lease_and_answers_nothing_meanwhile(bench: Bench) -> None:
    lost, again = run_one(bench), None
    bench.submit("again", cpu_milli=100, retries=1, restart="on-node-loss", tolerate=("a=b",))
    again = bench.replies["again"].job
    bench.outcome(again, "running")
    bench.replica.watch.answered("n1", bench.now)
    token = requested(bench, force=True)
    began = bench.now
    while token not in bench.replies:
        assert bench.replica.watch.is_withheld("n1")
        assert names(bench) == ["n1"] and bench.now - began < OVER_NS + S
        bench.tick()
    assert bench.replies[token] == AdminApplied(True)
    assert bench.now - began >= OVER_NS
    book = bench.replica.state.book
    ended = book.get(lost)
    assert ended.state == "lost" and "worn out, by root" in ended.reason
    moved = book.get(again)
    assert moved.state == "pending" and moved.attempts[0].state == "lost"
    assert names(bench) == [] and replayed(bench) == bench.replica.state.digest()
    bench.tick()
    assert not bench.replica.watch.is_withheld("n1")


def test_a_repeated_request_takes_the_place_of_the_first(bench: Bench) -> None:
    run_one(bench)
    bench.replica.watch.answered("n1", bench.now)
    first = requested(bench, force=True)
    bench.tick(3)
    second = requested(bench, force=True)
    assert isinstance(bench.replies[first], Unavailable)
    for _ in range(40):
        bench.tick()
    assert bench.replies[second] == AdminApplied(True)


def test_a_hello_on_its_way_does_not_undo_a_removal(bench: Bench) -> None:
    drain(bench)
    bench.answering = False
    bench.submit("busy", argv=("true",), cpu_milli=1)  # an append is on its way
    token = requested(bench)
    report = NodeReport("n1", "boot-1", 9, 8000, 1 << 34, instance=1, key="K1")
    bench.feed(events.NodeReported("late", report))
    while bench.appends:
        bench.feed(bench.land())
    assert bench.replies[token] == AdminApplied(True)
    assert bench.replies["late"].code == "removed"
    assert names(bench) == []


def test_the_last_other_node_needs_no_fence_any_more(bench: Bench) -> None:
    bench.hello("n2", instance=2, key="K2", unfenced="no cgroups")

    def fenced() -> bool:
        labels = bench.replica.state.core.labels(name_id("n2"))
        return any(label.label == FENCE_ID for label in labels)

    assert fenced()
    drain(bench)
    assert remove(bench) == AdminApplied(True)
    assert not fenced()
