# SPDX-License-Identifier: Apache-2.0
"""Reads at followers: what they wait for, who confirms them, and when they are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stoker.mesh.broker.budgets import Budgets
from stoker.mesh.identity import identity
from stoker.mesh.replica import events
from stoker.mesh.replica.events import ReadPosition, ReadRequested
from stoker.mesh.wire import peer_messages as wire
from stoker.native.errors import Busy, NotLeader, Unavailable
from tests.mesh.replica_cluster import Cluster

EACH = 3


def made(folder: Path, schedulers: int) -> ReadCluster:
    signers = [identity.create(folder / f"{number}.nk") for number in range(schedulers)]
    return ReadCluster(signers, budgets=Budgets(waiters=EACH))


@pytest.fixture
def cluster(tmp_path: Path) -> ReadCluster:
    return made(tmp_path, 3)


class ReadCluster(Cluster):
    """A cluster in which a test may hold messages of one kind back, and deliver them later."""

    holds: Callable[[int, int, wire.Message], bool] = staticmethod(lambda *_: False)

    def carry_out(self, number: int, effect: events.Effect) -> None:
        if isinstance(effect, events.SendPeer):
            message = wire.read_envelope(effect.data).message
            self.sent_messages.append((number, effect.to, message))
            if self.holds(number, effect.to, message):
                self.held_back.append((effect.to, events.PeerMessage(effect.data)))
                return
        super().carry_out(number, effect)

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.held_back: list[tuple[int, events.Event]] = []
        self.sent_messages: list[tuple[int, int, wire.Message]] = []
        super().__init__(*arguments, **settings)

    def deliver(self) -> None:
        """Deliver what was held back, in order."""
        held, self.held_back = self.held_back, []
        for to, event in held:
            self.feed(to, event)

    def hold(self, *kinds: type, sender: int = 0) -> None:
        """Hold these messages back from now on, of one sender or of all."""
        self.holds = lambda who, to, message: isinstance(message, kinds) and sender in (0, who)

    def hold_nothing(self) -> None:
        self.holds = lambda *_: False

    def requests(self) -> int:
        """The requests for a read index so far."""
        return sum(isinstance(message, wire.ReadIndexRequest) for *_, message in self.sent_messages)

    def read(self, number: int, token: str, user: str = "alice") -> Any:
        """Read, a moment after all that was before; return the answer if it came at once."""
        self.now += 1000
        self.feed(number, ReadRequested(token, user))
        return self.replies.get(token)

    def followers(self) -> list[int]:
        """Those that do not lead."""
        return [n for n, each in self.replicas.items() if each.role != "leading"]


def test_a_read_at_a_follower_shows_what_was_acknowledged(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    for token in ("a", "b", "c"):
        cluster.submit(leader, token)
        position = cluster.replicas[leader].state.index
        for number in cluster.followers():
            at = cluster.read(number, f"{token} at {number}")
            assert at == ReadPosition(cluster.replicas[leader].state.term, position)


def test_a_follower_that_is_behind_waits_until_it_has_the_entry(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    late, _ = cluster.followers()
    before = cluster.replicas[late].state.index
    cluster.hold(wire.Appended, wire.Confirmed, wire.PledgeRequest, sender=leader)
    cluster.holds, held = (lambda who, to, m, f=cluster.holds: to == late and f(who, to, m)), None
    cluster.submit(leader, "a")
    acknowledged = cluster.replicas[leader].state.index
    assert acknowledged > before == cluster.replicas[late].state.index
    assert cluster.read(late, "read") is held, "the other voter proves the leader's right"
    cluster.hold_nothing()
    cluster.deliver()
    assert cluster.replies["read"].at >= acknowledged


def test_one_of_five_more_must_pledge(tmp_path: Path) -> None:
    cluster = made(tmp_path, 5)
    leader = cluster.settle()
    follower = cluster.followers()[0]
    cluster.hold(wire.Promised)
    assert cluster.read(follower, "read") is None
    assert cluster.replicas[leader].role == "leading", "its old pledges still hold"
    cluster.deliver()
    assert isinstance(cluster.replies["read"], ReadPosition)


def test_two_of_three_are_enough(cluster: ReadCluster) -> None:
    cluster.settle()
    follower, other = cluster.followers()
    cluster.cut = {other}
    pledged = sum(isinstance(message, wire.PledgeRequest) for *_, message in cluster.sent_messages)
    assert isinstance(cluster.read(follower, "read"), ReadPosition)
    sent = sum(isinstance(message, wire.PledgeRequest) for *_, message in cluster.sent_messages)
    assert sent == pledged, "a read costs one round trip"


def test_a_follower_of_a_newer_term_needs_the_word_of_the_third(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    follower, other = cluster.followers()
    cluster.replicas[follower].voter.promise(cluster.replicas[leader].state.term + 8)
    cluster.cut = {other}
    cluster.read(follower, "read")
    cluster.pass_time(3)
    assert isinstance(cluster.replies["read"], Unavailable)


def test_a_deposed_leader_says_that_it_does_not_lead(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    cluster.cut = {leader}
    cluster.pass_time(2.5)
    new = cluster.settle()
    assert cluster.replicas[leader].role != "leading"
    at = ({1, 2, 3} - {leader, new}).pop()
    assert isinstance(cluster.read(at, "read"), ReadPosition)
    cluster.cut = set()
    cluster.replicas[at]._leadership.leader = leader
    refused = cluster.read(at, "at the old one")
    assert isinstance(refused, Unavailable)
    assert "it does not lead" in refused.message and f"{leader:016x}" in refused.message


def test_reads_that_come_meanwhile_share_the_next_request(cluster: ReadCluster) -> None:
    cluster.settle()
    follower, _ = cluster.followers()
    cluster.hold(wire.ReadIndexReply)
    before = cluster.requests()
    for number in range(EACH):
        cluster.read(follower, f"first {number}")
    for number in range(EACH):
        cluster.read(follower, f"then {number}", user="bob")
    assert cluster.requests() == before + 1, "one is under way"
    cluster.hold_nothing()
    cluster.deliver()
    answers = [cluster.replies[f"{when} {n}"] for when in ("first", "then") for n in range(EACH)]
    assert all(isinstance(each, ReadPosition) for each in answers)
    assert cluster.requests() == before + 2, "the second serves all that came after the first"


def test_an_index_serves_no_read_that_came_after_its_request(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    follower, _ = cluster.followers()
    cluster.hold(wire.ReadIndexReply)
    cluster.read(follower, "before")
    cluster.submit(leader, "a")
    cluster.read(follower, "after")
    acknowledged = cluster.replicas[leader].state.index
    cluster.hold_nothing()
    cluster.deliver()
    assert cluster.replies["after"].at >= acknowledged


def test_a_request_that_was_lost_is_sent_again(cluster: ReadCluster) -> None:
    cluster.settle()
    follower, _ = cluster.followers()
    cluster.hold(wire.ReadIndexRequest)
    cluster.read(follower, "read")
    cluster.held_back.clear()
    cluster.hold_nothing()
    cluster.pass_time(0.3)
    assert isinstance(cluster.replies["read"], ReadPosition)


def test_a_late_answer_to_an_earlier_request_counts_for_nothing(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    follower, _ = cluster.followers()
    cluster.hold(wire.ReadIndexReply)
    cluster.read(follower, "read")
    cluster.pass_time(0.3)  # requested again
    early = cluster.held_back[:1]
    cluster.submit(leader, "a")
    cluster.read(follower, "later")
    cluster.feed(*early[0])
    assert cluster.replicas[follower].counters["read_index_late"] == 1
    assert "read" not in cluster.replies and "later" not in cluster.replies


def test_reads_without_an_answer_are_refused_in_time(cluster: ReadCluster) -> None:
    cluster.settle()
    follower, _ = cluster.followers()
    cluster.hold(wire.ReadIndexReply)
    cluster.read(follower, "read")
    cluster.pass_time(1.9)
    assert "read" not in cluster.replies
    cluster.pass_time(0.2)
    refused = cluster.replies["read"]
    assert isinstance(refused, Unavailable) and "within 2 s" in refused.message
    assert "--stale" in refused.hint


def test_one_user_has_a_limited_number_of_waiting_reads(cluster: ReadCluster) -> None:
    cluster.settle()
    follower, _ = cluster.followers()
    cluster.hold(wire.ReadIndexReply)
    for number in range(EACH):
        assert cluster.read(follower, f"read {number}") is None
    assert isinstance(cluster.read(follower, "one more"), Busy)
    assert cluster.read(follower, "of another", user="bob") is None
    cluster.hold_nothing()
    cluster.deliver()
    assert isinstance(cluster.read(follower, "again"), ReadPosition)


def test_a_scheduler_without_a_leader_refuses_at_once(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    follower, other = cluster.followers()
    cluster.hold(wire.ReadIndexReply)
    cluster.read(follower, "waits")
    cluster.kill(leader)
    cluster.kill(other)
    cluster.pass_time(4)
    assert isinstance(cluster.replies["waits"], Unavailable)
    assert cluster.replicas[follower].role in ("following", "pledging")
    cluster.replicas[follower]._leadership.leader = 0
    refused = cluster.read(follower, "read")
    assert isinstance(refused, NotLeader) and "no scheduler leads" in refused.message


def test_reads_that_wait_behind_an_answer_of_a_leader_that_is_gone_are_refused(
    cluster: ReadCluster,
) -> None:
    """Nobody is asked who does not exist: the answer came when no scheduler led any more."""
    cluster.settle()
    follower, _ = cluster.followers()
    cluster.hold(wire.ReadIndexReply)
    cluster.read(follower, "first")
    cluster.read(follower, "then", user="bob")
    cluster.replicas[follower]._leadership.leader = 0
    before = cluster.requests()
    cluster.hold_nothing()
    cluster.deliver()
    assert isinstance(cluster.replies["first"], ReadPosition), "its index was acknowledged"
    assert cluster.requests() == before
    cluster.feed(follower, events.TimePassed())
    assert isinstance(cluster.replies["then"], NotLeader)


def test_reads_that_wait_are_answered_by_the_follower_that_comes_to_lead(
    cluster: ReadCluster,
) -> None:
    first = cluster.settle()
    cluster.submit(first, "a")
    acknowledged = cluster.replicas[first].state.index
    cluster.kill(first)
    tokens = []
    for _ in range(60):
        for number in cluster.replicas:
            tokens.append(f"read {len(tokens)}")
            cluster.read(number, tokens[-1])
        cluster.pass_time(0.1)
    cluster.pass_time(2.5)
    answers = [cluster.replies[token] for token in tokens]
    good = [each for each in answers if isinstance(each, ReadPosition)]
    assert good and all(each.at >= acknowledged for each in good)
    assert all(isinstance(each, ReadPosition | Unavailable | Busy) for each in answers)


def test_a_halted_scheduler_reads_nothing(cluster: ReadCluster) -> None:
    cluster.settle()
    follower, _ = cluster.followers()
    replica = cluster.replicas[follower]
    assert replica.reads.not_stale() is None
    replica._halt("its log is of another cluster")
    stale, refused = replica.reads.not_stale(), cluster.read(follower, "read")
    for why in (stale, refused):
        assert isinstance(why, Unavailable) and "of another cluster" in why.message


def test_a_replica_without_its_first_entry_has_nothing_to_show(cluster: ReadCluster) -> None:
    why = cluster.replicas[1].reads.not_stale()
    assert why is not None and "first entry" in why.message


def test_a_get_here_is_answered_by_a_follower(cluster: ReadCluster) -> None:
    leader = cluster.settle()
    follower, _ = cluster.followers()
    cluster.submit(leader, "a")
    cluster.pass_time(1)
    cluster.feed(follower, events.Get("elsewhere", 1, "", cluster.now))
    cluster.feed(follower, events.Get("here", 1, "", cluster.now, here=True))
    assert isinstance(cluster.replies["elsewhere"], NotLeader)
    assert cluster.replies["here"].job == 1
