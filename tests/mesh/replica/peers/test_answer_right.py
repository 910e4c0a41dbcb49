# SPDX-License-Identifier: Apache-2.0
"""The right to answer: never two replicas have it, and nobody waits for one that lost it."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.replica import events
from stoker.mesh.wire import schema
from stoker.native.errors import NotLeader
from tests.mesh.replica_cluster import Cluster


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    folder = tmp_path_factory.mktemp("keys")
    return Cluster([identity.create(folder / f"{number}.nk") for number in range(3)])


def answering(cluster: Cluster) -> list[int]:
    """The replicas that may answer now."""
    return [n for n, each in cluster.replicas.items() if each.right.may_answer(cluster.now)]


def test_only_the_leader_may_answer_and_serves(cluster: Cluster) -> None:
    leader = cluster.settle()
    assert answering(cluster) == [leader]
    assert [n for n, each in cluster.replicas.items() if each.right.serves(cluster.now)] == [leader]
    assert cluster.replicas[leader].status() == "ok"
    cluster.pass_time(1)
    assert {each.status() for each in cluster.replicas.values()} == {"ok"}


def test_the_right_ends_by_the_clock_alone(cluster: Cluster) -> None:
    leader = cluster.settle()
    right = cluster.replicas[leader].right
    assert not right.serves(cluster.now + 2_000_000_000)
    assert not right.may_answer(cluster.now + 2_000_000_000)


def test_never_two_replicas_may_answer(cluster: Cluster) -> None:
    cluster.settle()
    for cut in (1, 2, 3, 2, 1):
        cluster.cut = {cut}
        for _ in range(60):
            cluster.pass_time(0.1)
            assert len(answering(cluster)) <= 1


def test_a_held_get_is_answered_when_its_leader_loses_the_right(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.submit(leader, "a")
    far = cluster.now + 3_600_000_000_000
    cluster.feed(leader, events.Get("waits", 1, "ended", far, "alice"))
    assert "waits" not in cluster.replies
    cluster.cut = {leader}
    cluster.pass_time(3)
    assert isinstance(cluster.replies["waits"], NotLeader)


def test_a_client_knows_the_error_of_a_follower(cluster: Cluster) -> None:
    cluster.settle()
    follower = next(each for each in cluster.replicas.values() if each.role == "following")
    data = schema.error_reply(follower.right.not_serving())
    with pytest.raises(NotLeader):
        schema.decode_reply("job", "list", data)
