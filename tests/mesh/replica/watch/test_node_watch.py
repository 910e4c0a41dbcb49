# SPDX-License-Identifier: Apache-2.0
"""Nodes that are given up, nodes that return, and second instances, at one replica."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.entry import EvictBlob, unseal
from stoker.mesh.replica import events
from stoker.mesh.replica.watch.node_watch import OVER_NS
from stoker.mesh.replica.watch.silence import MASS_WAIT_NS
from stoker.mesh.wire import lease_messages
from stoker.mesh.wire.command import DesiredState, NodeReply, open_desired
from stoker.mesh.wire.lease_messages import LeaseRequest
from stoker.native.errors import Unavailable
from stoker.scheduler.nouns import StartJob
from tests.mesh.bench import LIMITS, Bench

NODES = ("n1", "n2", "n3", "n4")
S = 1_000_000_000


class Watched(Bench):
    """A leader with nodes that request leases each tick unless they are `silent`."""

    def __init__(self, signer: Identity, names: tuple[str, ...] = NODES, **more: Any) -> None:
        super().__init__(signer, limits=LIMITS._replace(nodes=16, devices=16), **more)
        self.names = names
        self.silent: set[str] = set()
        self.failed: set[str] = set()
        """The nodes that everybody's gossip holds as failed."""
        self.instances = dict.fromkeys(names, 1)
        self.lead()
        for name in names:
            self.hello(name, instance=1, ping=f"{name}:1")
        self.tick()

    def ask(self, name: str) -> int:
        """Request a lease; return how many answers for this node came."""
        request = LeaseRequest(lease_messages.FORMAT, name, self.instances[name], self.now, 1)
        self.leases.receive(lease_messages.encode_request(request), name, self.now)
        return sum(name in answer.nodes for answer in self.leases.due(self.now))

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            for name in self.names:
                if name not in self.silent:
                    self.ask(name)
            self.feed(events.NodesHeard(self.leases.heard()))
            self.tick()
            self.report_pings()

    def report_pings(self) -> None:
        asked, self.pings = self.pings, []
        for ping in asked:
            assert ping.pinger not in self.silent
            answered = ping.target not in self.silent
            failed = ping.target in self.failed
            self.feed(events.PingReported(ping.pinger, ping.target, answered, failed=failed))

    @property
    def evicted(self) -> list[str]:
        found = []
        for seq, data in self.log.read(1):
            blobs = unseal(seq, data).entry.blobs
            found += [blob.node for blob in blobs if isinstance(blob, EvictBlob)]
        return found

    def desired(self, name: str) -> DesiredState | Unavailable:
        token = ("state", name, self.now, len(self.replies))
        self.feed(events.StateRequested(token, name, self.chain(name).state_request(())))
        value = self.replies[token]
        return open_desired(value, [self.signer.verifier]) if isinstance(value, bytes) else value


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "scheduler")


@pytest.fixture
def bench(signer: Identity) -> Watched:
    return Watched(signer)


def placed_on(bench: Watched, job: int) -> str:
    decision = bench.replica.state.book.get(job).decision
    return decision.node if decision is not None else ""


def run_one(bench: Watched, **spec: Any) -> tuple[int, str]:
    """Submit one job and report that it runs; return its number and node."""
    token = ("job", len(bench.replies))
    bench.submit(token, gpu_milli=1000, **spec)
    job = bench.replies[token].job
    node = placed_on(bench, job)
    bench.outcome(job, "running", node=node)
    return job, node


def test_a_silent_node_is_given_up_once_its_lease_must_be_over(bench: Watched) -> None:
    bench.pass_time(1)
    lost, node = run_one(bench)
    again, other = run_one(bench, retries=1, restart="on-node-loss")
    assert node != other
    last = bench.now
    bench.silent = {node, other}
    bench.names = NODES
    while len(bench.evicted) < 2:
        assert bench.now - last < OVER_NS + 3 * S
        bench.pass_time(0.1)
    assert bench.now - last >= OVER_NS - S // 5
    book = bench.replica.state.book
    assert book.get(lost).state == "lost"
    assert sorted(bench.evicted) == sorted([node, other])
    bench.pass_time(2)
    moved = book.get(again)
    assert (moved.attempt, moved.state) == (2, "starting")
    assert moved.decision is not None and moved.decision.node not in (node, other)
    assert "silent for" in book.evicted[node].why and "went unanswered" in book.evicted[node].why


def test_a_reply_to_a_ping_keeps_a_node_for_ever(bench: Watched) -> None:
    _, node = run_one(bench)
    bench.names = tuple(name for name in NODES if name != node)  # it asks no more, but replies
    bench.pass_time(30)
    assert bench.evicted == []


def test_pings_of_one_node_alone_give_nobody_up(signer: Identity) -> None:
    bench = Watched(signer, ("n1", "n2"))
    bench.silent = {"n1"}
    bench.pass_time(20)
    assert bench.evicted == []


def test_gossip_gives_up_a_node_that_has_one_neighbour(signer: Identity) -> None:
    bench = Watched(signer, ("n1", "n2"))
    bench.silent = {"n1"}
    bench.pass_time(20)
    bench.failed = {"n1"}
    bench.pass_time(2)
    assert bench.evicted == ["n1"]
    why = bench.replica.state.book.evicted["n1"].why
    assert "pings of n2 went unanswered, and gossip holds it as failed" in why


def test_gossip_alone_gives_nobody_up(signer: Identity) -> None:
    bench = Watched(signer, ("n1", "n2"))
    bench.failed = {"n1"}
    bench.pass_time(20)
    bench.names = ("n2",)  # n1 requests no lease any more, and its host replies to pings
    bench.pass_time(20)
    assert bench.evicted == []


def test_while_its_fate_is_open_a_node_is_answered_nothing(bench: Watched) -> None:
    bench.pass_time(1)
    _, node = run_one(bench)
    bench.silent = {node}
    bench.answering = False
    while not bench.replica.watch.is_withheld(node):
        bench.pass_time(0.1)
        if bench.appends and not bench.replica.watch.is_withheld(node):
            bench.feed(bench.land())
    assert bench.evicted == [] and len(bench.appends) == 1
    bench.tick(0.2)
    assert bench.ask(node) == 0 and isinstance(bench.desired(node), Unavailable)
    bench.feed(bench.land())
    bench.answering = True
    assert bench.evicted == [node]
    bench.tick()
    bench.ask(node)
    bench.tick()
    assert bench.ask(node) == 1
    state = bench.desired(node)
    assert isinstance(state, DesiredState) and state.settle > 0 and state.wanted == ()


def test_a_proposal_that_finds_a_young_answer_is_withdrawn(bench: Watched) -> None:
    bench.pass_time(1)
    bench.silent = {"n1"}
    carry_out = bench.carry_out

    def answer_first(effect: events.Effect) -> list[events.Event]:
        if isinstance(effect, events.Withhold):
            assert bench.ask("n1") == 1  # its thread answers at the last moment
        return carry_out(effect)

    bench.carry_out = answer_first  # type: ignore[method-assign]
    while not bench.replica.counters.get("eviction_too_early"):
        bench.pass_time(0.1)
    assert bench.evicted == [] and not bench.replica.watch.is_withheld("n1")


def test_a_range_answer_counts_as_an_answered_request(bench: Watched) -> None:
    bench.pass_time(1)
    bench.silent = {"n1"}
    bench.pass_time(4)
    answered = bench.now
    assert isinstance(bench.desired("n1"), DesiredState)
    while not bench.evicted:
        bench.pass_time(0.1)
    assert bench.now - answered >= OVER_NS


def test_a_new_leader_waits_a_lease_before_it_gives_up_anybody(signer: Identity) -> None:
    bench = Watched(signer, began_ns=1_700_000_000_000_000_000)
    began = bench.now
    bench.silent = {"n1"}
    while not bench.evicted:
        bench.pass_time(0.1)
    assert bench.now - began >= OVER_NS - S


def test_many_silent_nodes_wait_longer(signer: Identity) -> None:
    names = tuple(f"n{number}" for number in range(1, 9))
    bench = Watched(signer, names)
    bench.pass_time(1)
    last = bench.now
    bench.silent = {"n1", "n2", "n3"}
    while not bench.evicted:
        bench.pass_time(0.1)
    assert bench.now - last >= OVER_NS + MASS_WAIT_NS - S
    assert bench.replica.counters["mass_silence"] == 1


# --- return ---------------------------------------------------------------------------------------


def evict(bench: Watched, node: str) -> int:
    """Give up a node; return the log index of that."""
    bench.silent = {node}
    while not bench.evicted:
        bench.pass_time(0.1)
    bench.silent = set()
    return bench.replica.state.book.evicted[node].index


def starts_on(bench: Watched, node: str) -> int:
    return sum(isinstance(action, StartJob) for action in bench.actions(node))


def test_a_device_serves_nobody_before_its_old_attempt_has_ended(signer: Identity) -> None:
    bench = Watched(signer, ("n1", "n2", "n3"))
    held = dict(reversed(run_one(bench)) for _ in range(3))
    index = evict(bench, "n1")
    assert bench.replica.state.book.get(held["n1"]).state == "lost"
    before = starts_on(bench, "n1")
    bench.submit("next", gpu_milli=1000)
    job = bench.replies["next"].job
    bench.hello("n1", incarnation=2, instance=1, ping="n1:1")
    bench.pass_time(3)
    assert placed_on(bench, job) == "" and starts_on(bench, "n1") == before
    assert bench.replica.state.book.evicted
    bench.hello("n1", incarnation=3, instance=1, ping="n1:1", settled=index)
    bench.pass_time(2)
    assert placed_on(bench, job) == "n1" and starts_on(bench, "n1") == before + 1
    assert not bench.replica.state.book.evicted


def test_an_evicted_node_that_rebooted_is_clean(bench: Watched) -> None:
    evict(bench, "n1")
    bench.instances["n1"] = 2
    bench.hello("n1", boot="boot-2", incarnation=2, instance=2, ping="n1:1")
    bench.pass_time(7)
    bench.hello("n1", boot="boot-2", incarnation=3, instance=2, ping="n1:1")
    assert isinstance(bench.replies["hello", "n1", "boot-2", 3], NodeReply)
    assert not bench.replica.state.book.evicted


def test_an_eviction_is_in_a_snapshot(bench: Watched) -> None:
    index = evict(bench, "n1")
    restored = type(bench.replica.state).restore(bench.replica.state.snapshot())
    assert restored.book.evicted["n1"].index == index
    assert restored.digest() == bench.replica.state.digest()


# --- instances ------------------------------------------------------------------------------------


def test_a_second_instance_enters_only_after_the_first_can_hold_no_lease(bench: Watched) -> None:
    bench.pass_time(1)
    job, node = run_one(bench)
    for number in range(8):  # both ask; the first is renewed, the second is turned away
        bench.hello(node, boot="boot-2", incarnation=9 + number, instance=100)
        bench.pass_time(1)
    assert bench.replica.state.book.nodes[node].instance == 1
    assert bench.replica.state.book.get(job).state == "running"
    replies = [v for k, v in bench.replies.items() if k[0] == "hello" and isinstance(v, NodeReply)]
    assert {reply.code for reply in replies if not reply.ok} <= {"wait"}
    assert bench.replica.counters["node_entry_waits"] >= 1
