# SPDX-License-Identifier: Apache-2.0
"""A replica that lost its memory asks the others, and takes no part before enough have answered."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.held_entries import FORGOTTEN
from stoker.mesh.replica.events import PeerMessage
from stoker.mesh.wire import peer_messages as wire
from tests.mesh.replica_cluster import CLUSTER, Cluster, Disk


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(3)]


@pytest.fixture
def cluster(signers: list[Identity]) -> Cluster:
    cluster = Cluster(signers)
    leader = cluster.settle()
    cluster.submit(leader, "a")
    cluster.pass_time(0.5)
    return cluster


def lose(cluster: Cluster, number: int) -> None:
    """Start a replica again with an empty disk."""
    cluster.kill(number)
    cluster.disks[number] = Disk(floor=FORGOTTEN)
    cluster.boot(number)


def follower(cluster: Cluster) -> int:
    return next(n for n, each in cluster.replicas.items() if each.role == "following")


def test_it_takes_part_again_after_both_others_have_answered(cluster: Cluster) -> None:
    one = follower(cluster)
    promised, end = cluster.disks[one].promised, cluster.replicas[one]._tail.end.rank
    lose(cluster, one)
    cluster.pass_time(5)
    replica = cluster.replicas[one]
    assert replica.counters["recalled"] == 1
    assert cluster.disks[one].floor >= end
    assert replica.voter.promised >= promised
    leader = next(n for n, each in cluster.replicas.items() if each.role == "leading")
    cluster.kill(leader)
    assert cluster.settle() != leader
    assert len(cluster.digests()) == 1


def test_it_says_nothing_before_all_that_are_needed_have_answered(cluster: Cluster) -> None:
    one = follower(cluster)
    away = next(n for n in cluster.replicas if n != one and cluster.replicas[n].role != "leading")
    cluster.kill(away)
    lose(cluster, one)
    cluster.pass_time(8)
    assert cluster.disks[one].floor == FORGOTTEN
    assert cluster.disks[one].promised == 0, "it has pledged to nobody"
    assert cluster.replicas[one].state.index == 0
    assert cluster.replicas[one].counters["peer_unheard"] > 0
    assert {each.role for each in cluster.replicas.values()} <= {"following", "pledging"}
    cluster.boot(away)
    cluster.settle()
    cluster.pass_time(3)
    assert cluster.disks[one].floor != FORGOTTEN
    assert len(cluster.digests()) == 1


def test_two_that_forgot_tell_each_other_nothing(cluster: Cluster) -> None:
    leader = next(n for n, each in cluster.replicas.items() if each.role == "leading")
    for number in [n for n in cluster.replicas if n != leader]:
        lose(cluster, number)
    cluster.pass_time(8)
    floors = [cluster.disks[n].floor for n in cluster.replicas if n != leader]
    assert floors == [FORGOTTEN, FORGOTTEN], "a person must look"


def test_an_answer_to_another_question_is_refused(cluster: Cluster) -> None:
    one = follower(cluster)
    others = [n for n in cluster.replicas if n != one]
    lose(cluster, one)
    for sender in others:
        answer = wire.Recalled(7, 0, 0, 0, ())
        told = wire.PeerEnvelope(wire.FORMAT, CLUSTER, sender, one, answer)
        cluster.feed(one, PeerMessage(wire.seal(told, cluster.signers[sender])))
    replica = cluster.replicas[one]
    assert replica.counters["recall_refused"] == 2
    assert replica._peers.floor.rank == FORGOTTEN
