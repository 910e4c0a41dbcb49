# SPDX-License-Identifier: Apache-2.0
"""Heartbeats: they are sent as long as the scheduler lives, whatever fails, and are bounded."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.authority import BEAT_NS, LEASE_MS, SILENT_NS, Authority, Heartbeats
from stoker.mesh.wire.command import (
    CommandGap,
    DesiredState,
    HeartbeatJudge,
    LeaseRenewal,
    NodeReply,
    Position,
    StateRequest,
)
from stoker.native.errors import Refused, Unavailable
from tests.mesh.bench import CLUSTER, LEADER, Bench
from tests.mesh.replica.test_replica_rules import forge, read_back

LEASE_NS = LEASE_MS * 1_000_000
STEP_S = 0.1


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("k") / "s")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    return Bench(signer).lead().hello()


class Lease:
    """A node that follows all its commands; it records how near it came to freezing."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.chain = bench.chain()
        bench.feed(events.StateRequested(("first", bench.now), "n1", self.chain.state_request(())))
        self.answer(("first", bench.now))
        self.heard_ns = bench.now
        self.freezes = 0
        bench.beaten.clear()

    def answer(self, token: object) -> None:
        desired = self.chain.reconcile(self.bench.replies[token])
        assert isinstance(desired, DesiredState)
        assert desired.lease_ms == LEASE_MS

    def pass_time(self, seconds: float) -> None:
        """Run tick by tick, and deliver everything that is sent at once."""
        for _ in range(round(seconds / STEP_S)):
            self.bench.tick(STEP_S)
            for _, data in self.bench.beaten:
                if isinstance(self.chain.beat(data), LeaseRenewal):
                    self.heard_ns = self.bench.now
            self.bench.beaten.clear()
            self.freezes += self.bench.now - self.heard_ns > LEASE_NS


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
    read_back(bench, forge(bench, signer, term=bench.replica.state.term + 8, batch=1))
    assert bench.replica.role == "halted"
    assert "took the lead" in bench.halted
    bench.beaten.clear()
    for _ in range(50):
        bench.tick()
    assert bench.beaten == []


def test_one_that_never_led_renews_nothing(bench: Bench, signer: Identity) -> None:
    next_one = Bench(signer, bench.log)
    next_one.log_is_down = True
    for _ in range(50):
        next_one.tick()
    assert next_one.beaten == []


def test_a_restart_beats_at_once_and_its_answer_renews(bench: Bench, signer: Identity) -> None:
    lease = Lease(bench)
    again = Bench(signer, bench.log)
    again.now = bench.now
    again.lead()
    ((node, data),) = again.beaten
    assert node == "n1"
    assert isinstance(lease.chain.beat(data), CommandGap)  # a new term: a state request follows
    again.feed(events.StateRequested("r", "n1", lease.chain.state_request(())))
    lease.bench = again
    lease.answer("r")


# --- the beats alone ------------------------------------------------------------------------------


def granted(beats: Heartbeats, term: int, now_ns: int) -> None:
    beats.grant(Authority(CLUSTER, term, (("n1", Position(term, 3)),)), now_ns)


def test_once_a_second_and_at_once_in_a_new_term(signer: Identity) -> None:
    beats = Heartbeats(signer)
    assert beats.due(1, BEAT_NS) == []
    granted(beats, 1, 0)
    rounds = [len(beats.due(1, BEAT_NS + n * BEAT_NS // 2)) for n in range(5)]
    assert rounds == [1, 0, 1, 0, 1]
    granted(beats, 2, 0)
    assert len(beats.due(1, 3 * BEAT_NS)) == 1
    beats.grant(None, 0)
    assert beats.due(1, 9 * BEAT_NS) == []


def test_each_beat_is_a_new_one(signer: Identity) -> None:
    beats, judge = Heartbeats(signer), HeartbeatJudge(CLUSTER, "n1", signer.verifier)
    granted(beats, LEADER, 0)
    for n in range(1, 4):
        ((_, data),) = beats.due(1, n * BEAT_NS)
        verdict = judge.judge(data, Position(LEADER, 3))
        assert isinstance(verdict, LeaseRenewal)
        assert verdict.heartbeat.lease_ms == LEASE_MS
        assert not isinstance(judge.judge(data, Position(LEADER, 3)), LeaseRenewal)


def test_a_replica_that_has_gone_silent_is_not_spoken_for(signer: Identity) -> None:
    beats = Heartbeats(signer)
    granted(beats, 1, 0)
    assert beats.due(1, SILENT_NS) != []
    assert beats.due(1, SILENT_NS + BEAT_NS) == []
    assert beats.withheld == 1
    granted(beats, 1, SILENT_NS + 2 * BEAT_NS)
    assert beats.due(1, SILENT_NS + 2 * BEAT_NS) != []


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
