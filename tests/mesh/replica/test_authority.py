# SPDX-License-Identifier: Apache-2.0
"""Leases are renewed as long as the scheduler lives, whatever fails, and by nobody else."""

from __future__ import annotations

import itertools

import pytest

from stoker.agent.jobs.lease_judge import LeaseExtended, LeaseHolder, LeaseJudge, LeaseRefused
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.authority import LEASE_MS
from stoker.mesh.wire.command import DesiredState, NodeReply, Position, StateRequest
from stoker.native.errors import Refused, Unavailable
from tests.mesh.bench import CLUSTER, Bench
from tests.mesh.replica.test_replica_rules import forge, read_back

LEASE_NS = LEASE_MS * 1_000_000
STEP_S = 0.1
ROUNDS = 50


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


class Lease:
    """A node that follows all its commands; it counts how often its lease ended."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.chain = bench.chain()
        nonces = itertools.count(1)
        holder = LeaseHolder(CLUSTER, "n1", 0)
        self.judge = LeaseJudge(holder, [bench.signer.verifier], lambda: next(nonces))
        self.freezes = 0
        self.read()
        bench.tick()  # the authority covers the node
        self.renew()

    def read(self) -> None:
        token = ("read", self.bench.now)
        request = self.chain.state_request(())
        self.bench.feed(events.StateRequested(token, "n1", request))
        assert isinstance(self.chain.reconcile(self.bench.replies[token]), DesiredState)

    def renew(self) -> LeaseExtended | LeaseRefused | None:
        """Request and hear the answer at once; None if there is none."""
        now_ns, at = self.bench.now, self.chain.position
        request = self.judge.request(now_ns, at, frozen=False)
        verdict: LeaseExtended | LeaseRefused | None = None
        for data in self.bench.renew(request):
            verdict = self.judge.judge(data, now_ns, at, None)
        return verdict

    def pass_time(self, seconds: float) -> None:
        """Run tick by tick, and request whenever that is due."""
        for _ in range(round(seconds / STEP_S)):
            self.bench.tick(STEP_S)
            if self.bench.now >= self.judge.due_ns():
                self.renew()
            self.freezes += self.bench.now >= self.judge.expiry_ns


def test_a_log_outage_freezes_nothing_and_acknowledges_nothing(bench: Bench) -> None:
    bench.submit("s", gpu_milli=1000)
    lease = Lease(bench)
    bench.log_is_down = True
    assert bench.outcome(1, "running") is None
    lease.pass_time(600.0)
    assert [reply.ok for reply in bench.replies.values() if isinstance(reply, NodeReply)] == [
        True,  # the hello is answered once the log is back
        False,
    ]
    assert (bench.replica.role, lease.freezes) == ("waiting", 0)
    assert bench.replica.status().startswith("blocked: nobody serves the log")
    bench.submit("meanwhile")
    assert isinstance(bench.replies["meanwhile"], Refused)
    assert bench.replica.state.book.get(1).state == "starting"
    bench.log_is_down = False
    lease.pass_time(3.0)
    assert (bench.replica.role, lease.freezes) == ("leading", 0)
    assert bench.outcome(1, "running").ok
    assert bench.replica.state.book.get(1).state == "running"


def test_a_halted_scheduler_freezes_nothing_and_says_that_it_is_halted(bench: Bench) -> None:
    lease = Lease(bench)
    bench.feed(events.LogBroken("the log ends at entry 1, though it confirmed entry 2"))
    lease.pass_time(60.0)
    assert (bench.replica.role, lease.freezes) == ("halted", 0)
    assert bench.replica.status().startswith("blocked: halted: the log ends at entry 1")
    bench.submit("meanwhile")
    assert "halted" in bench.replies["meanwhile"].message


def test_one_that_another_has_deposed_renews_nothing_more(bench: Bench, signer: Identity) -> None:
    lease = Lease(bench)
    read_back(bench, forge(bench, signer, term=bench.replica.state.term + 8, batch=1))
    assert bench.replica.role == "halted"
    assert "took the lead" in bench.halted
    for _ in range(ROUNDS):
        bench.tick()
        assert lease.renew() is None


def test_one_that_never_led_renews_nothing(bench: Bench, signer: Identity) -> None:
    lease = Lease(bench)
    next_one = lease.bench = Bench(signer, bench.log)
    next_one.log_is_down = True
    for _ in range(ROUNDS):
        next_one.tick()
        assert lease.renew() is None


def test_a_restart_answers_what_waited_and_shows_its_term(bench: Bench, signer: Identity) -> None:
    lease = Lease(bench)
    again = Bench(signer, bench.log)
    again.now = bench.now
    request = lease.judge.request(bench.now, lease.chain.position, frozen=False)
    assert again.renew(request) == []  # it does not lead yet
    again.lead()
    (answer,) = again.leases.due(again.now)
    verdict = lease.judge.judge(answer.data, again.now, lease.chain.position, None)
    assert isinstance(verdict, LeaseExtended)
    assert verdict.expiry_ns == bench.now + LEASE_NS
    assert lease.chain.is_behind(verdict.at)  # a new term: a state request follows
    lease.bench = again
    lease.read()
    assert not lease.chain.is_behind(verdict.at)


def test_an_answer_names_the_last_command(bench: Bench) -> None:
    lease = Lease(bench)
    bench.submit("s")
    bench.tick()
    verdict = lease.renew()
    assert isinstance(verdict, LeaseExtended)
    assert lease.chain.is_behind(verdict.at)
    for sent in bench.sent:
        lease.chain.offer(sent.data)
    assert not lease.chain.is_behind(verdict.at)


# --- terms that the log lost ----------------------------------------------------------------------


def test_a_node_that_followed_what_the_log_lost_gets_a_newer_term(
    bench: Bench, signer: Identity
) -> None:
    """A node ahead of the log gets a larger term: its chain would refuse the same one for ever."""
    whole = dict(bench.log.entries)
    second = Bench(signer, bench.log).lead()
    second.submit("lost with the end of the log")
    chain = second.chain()
    second.feed(events.StateRequested("r", "n1", chain.state_request(())))
    assert isinstance(chain.reconcile(second.replies["r"]), DesiredState)
    assert chain.position.term == 9
    bench.log.entries, bench.log.last = whole, max(whole)
    third = Bench(signer, bench.log).lead()
    assert third.replica.state.term == 9
    absurd = StateRequest(1, Position((1 << 64) - 1, 1))
    third.feed(events.StateRequested("absurd", "n1", absurd))
    assert (third.replica.role, third.replica.state.term) == ("leading", 9)
    third.feed(events.StateRequested("before", "n1", chain.state_request(())))
    assert isinstance(third.replies["before"], Unavailable)
    third.tick()
    assert (third.replica.role, third.replica.state.term) == ("leading", 17)
    third.feed(events.StateRequested("after", "n1", chain.state_request(())))
    assert isinstance(chain.reconcile(third.replies["after"]), DesiredState)
    assert chain.position.term == 17
