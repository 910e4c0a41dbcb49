# SPDX-License-Identifier: Apache-2.0
"""A leader that is to end lets another lead at once, and acts on no pledge after it has said so."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.replica import events
from stoker.mesh.replica.authority import LEASE_MS
from stoker.mesh.replica.peers.handover import DRAIN_NS
from stoker.mesh.replica.peers.voter import PLEDGE_NS
from stoker.mesh.wire import peer_messages as wire
from stoker.mesh.wire.term_owner import TERMS_PER_ROUND
from stoker.native.errors import NotLeader
from stoker.scheduler.book import Job
from tests.mesh.replica_cluster import Cluster


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(3)]


class SlowCluster(Cluster):
    """A cluster whose log answers appends only when the test says so, once `waits` is set."""

    def __init__(self, signers: list[Identity]) -> None:
        self.waits = False
        self.open: list[tuple[int, events.Append]] = []
        self.left: list[int] = []
        self.told: dict[int, list[events.Effect]] = {}
        super().__init__(signers)

    def carry_out(self, number: int, effect: events.Effect) -> None:
        if self.waits and isinstance(effect, events.Append):
            self.open.append((number, effect))
            return
        if isinstance(effect, events.Left):
            self.left.append(number)
        self.told.setdefault(number, []).append(effect)
        super().carry_out(number, effect)

    def answer(self) -> None:
        """Let the log take the appends that wait."""
        self.waits, waiting = False, self.open
        for number, effect in waiting:
            for event in self.log_answers(number, effect):
                self.feed(number, event)

    @property
    def leaders(self) -> list[int]:
        """The replicas that lead now."""
        return [n for n, each in self.replicas.items() if each.role == "leading"]


@pytest.fixture
def cluster(signers: list[Identity]) -> SlowCluster:
    return SlowCluster(signers)


def resigned(effect: Any) -> bool:
    if not isinstance(effect, events.SendPeer):
        return False
    return isinstance(wire.read_envelope(effect.data).message, wire.Resigned)


def test_another_leads_before_any_time_has_passed(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    term = cluster.replicas[leader].state.term
    cluster.feed(leader, events.Leave())
    assert cluster.left == [leader]
    (other,) = cluster.leaders
    assert other != leader
    assert cluster.replicas[other].state.term > term
    cluster.submit(other, "a")
    assert isinstance(cluster.replies["a"], Job)


def test_its_authority_ends_before_the_others_hear_of_it(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    cluster.told[leader].clear()
    cluster.feed(leader, events.Leave())
    told = cluster.told[leader]
    over = told.index(events.RenewLeases(None))
    assert over < min(at for at, each in enumerate(told) if resigned(each))
    assert not cluster.replicas[leader].right.may_answer(cluster.now)


def test_it_stands_no_more(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    cluster.feed(leader, events.Leave())
    for other in {1, 2, 3} - {leader}:
        cluster.kill(other)
    cluster.pass_time(4 * PLEDGE_NS / 1e9)
    assert cluster.replicas[leader].role == "following"


def test_the_entry_on_its_way_is_answered_and_nothing_new_is_decided(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    cluster.waits = True
    cluster.submit(leader, "on its way")
    cluster.submit(leader, "queued")
    cluster.feed(leader, events.Leave())
    cluster.submit(leader, "late")
    assert isinstance(cluster.replies["late"], NotLeader)
    assert cluster.left == [] and "on its way" not in cluster.replies
    cluster.answer()
    assert isinstance(cluster.replies["on its way"], Job)
    assert isinstance(cluster.replies["queued"], NotLeader)
    assert cluster.left == [leader] and cluster.leaders not in ([], [leader])


def test_a_log_that_does_not_answer_is_waited_for_no_longer(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    cluster.waits = True
    cluster.submit(leader, "on its way")
    cluster.feed(leader, events.Leave())
    cluster.pass_time(DRAIN_NS / 1e9 - 0.1)
    assert cluster.left == []
    cluster.waits = False
    cluster.pass_time(0.1)
    assert cluster.left == [leader]
    assert cluster.settle() != leader


def test_the_next_one_stands_if_the_first_does_not_hear(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    first, second = sorted({1, 2, 3} - {leader})
    cluster.cut.add(first)
    cluster.feed(leader, events.Leave())
    cluster.pass_time(1)
    assert cluster.leaders == [second]


def test_a_follower_only_stands_no_more(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    other = leader % 3 + 1
    cluster.told[other].clear()
    cluster.feed(other, events.Leave())
    assert cluster.left == [other] and cluster.leaders == [leader]
    assert not any(resigned(each) for each in cluster.told[other])
    cluster.kill(leader)
    third = ({1, 2, 3} - {leader, other}).pop()
    cluster.pass_time(4 * PLEDGE_NS / 1e9)
    assert cluster.leaders == [third]


def test_a_lease_that_it_gave_last_is_waited_for(cluster: SlowCluster) -> None:
    """The next leader counts no lease from before the moment at which it had a majority: a voter
    that was set free shows only that the other has stopped by then."""
    leader = cluster.settle()
    cluster.pass_time(1)
    cluster.feed(leader, events.Leave())
    (other,) = cluster.leaders
    pledges = cluster.replicas[other]._peers.pledges
    assert pledges.others_ns == pledges.won_ns == cluster.now
    assert LEASE_MS * 1_000_000 > PLEDGE_NS


def test_a_candidate_tells_nobody_since_it_may_win_that_term_yet(cluster: SlowCluster) -> None:
    """A candidate promises its term last. If it ends before that, it stands for the same term when
    it is back; a word that it had resigned from it could come then, and free its voters."""
    leader = cluster.settle()
    candidate = leader % 3 + 1
    for other in {1, 2, 3} - {candidate}:
        cluster.kill(other)
    replica = cluster.replicas[candidate]
    for _ in range(100):
        if replica.role == "pledging":
            break
        cluster.pass_time(0.1)
    assert replica.role == "pledging"
    assert replica.voter.promised < replica._peers.pledges.term
    cluster.told[candidate].clear()
    cluster.feed(candidate, events.Leave())
    assert (replica.role, cluster.left) == ("following", [candidate])
    assert not any(map(resigned, cluster.told[candidate]))


def test_a_word_of_an_earlier_term_frees_nobody(cluster: SlowCluster) -> None:
    leader = cluster.settle()
    other = leader % 3 + 1
    replica = cluster.replicas[other]
    third = ({1, 2, 3} - {leader, other}).pop()
    waits = replica.voter.wait_ns(third, cluster.now)
    assert waits > 0
    led = cluster.replicas[leader].state.term
    for term in (led - TERMS_PER_ROUND, led + TERMS_PER_ROUND):
        message = wire.Resigned(term)
        told = wire.PeerEnvelope(wire.FORMAT, "cluster", leader, other, message)
        cluster.feed(other, events.PeerMessage(wire.seal(told, cluster.signers[leader])))
    foreign = wire.PeerEnvelope(wire.FORMAT, "cluster", third, other, wire.Resigned(led))
    cluster.feed(other, events.PeerMessage(wire.seal(foreign, cluster.signers[third])))
    assert replica.voter.wait_ns(third, cluster.now) == waits
    assert replica.counters["peer_term"] == 1


def test_a_word_that_comes_late_takes_no_leader_from_anybody(cluster: SlowCluster) -> None:
    first = cluster.settle()
    led = cluster.replicas[first].state.term
    cluster.feed(first, events.Leave())
    cluster.kill(first)
    (second,) = cluster.leaders
    cluster.pass_time(1)
    (third,) = {1, 2, 3} - {first, second}
    late = wire.PeerEnvelope(wire.FORMAT, "cluster", first, third, wire.Resigned(led))
    cluster.feed(third, events.PeerMessage(wire.seal(late, cluster.signers[first])))
    assert cluster.replicas[third]._leadership.leader == second
    assert cluster.leaders == [second]
