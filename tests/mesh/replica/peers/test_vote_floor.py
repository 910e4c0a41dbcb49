# SPDX-License-Identifier: Apache-2.0
"""A replica that forgot what it had acknowledged votes for nobody who lacks it."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry as entries
from stoker.mesh.replica.events import PeerMessage
from stoker.mesh.replica.peers.voter import PLEDGE_NS
from stoker.mesh.wire import peer_messages as wire
from stoker.mesh.wire.term_owner import next_term
from tests.mesh.replica_cluster import CLUSTER, Cluster


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(3)]


@pytest.fixture
def cluster(signers: list[Identity]) -> Cluster:
    return Cluster(signers)


def forgets(cluster: Cluster, number: int) -> None:
    """Have a replica begin again, cut off from the log and from the others."""
    leader = next(n for n, each in cluster.replicas.items() if each.role == "leading")
    index = cluster.replicas[number].state.index
    told = wire.PeerEnvelope(wire.FORMAT, CLUSTER, leader, number, wire.Diverged(index))
    cluster.log_down.add(number)
    cluster.cut.add(number)
    cluster.feed(number, PeerMessage(wire.seal(told, cluster.signers[leader])))


def asked(cluster: Cluster, voter: int, candidate: int, end: tuple[int, int]) -> int:
    """Request a pledge for the candidate's next term; return the newest one that is promised."""
    replica = cluster.replicas[voter]
    term = next_term(max(replica.voter.promised, end[0]), candidate - 1)
    request = wire.PledgeRequest(term, 1, end_term=end[0], end_index=end[1])
    sealed = wire.PeerEnvelope(wire.FORMAT, CLUSTER, candidate, voter, request)
    cluster.feed(voter, PeerMessage(wire.seal(sealed, cluster.signers[candidate])))
    return term


def test_the_floor_is_on_disk_before_anything_is_forgotten(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.submit(leader, "a")
    cluster.pass_time(0.5)
    other = leader % 3 + 1
    held = cluster.replicas[other]._tail.end
    forgets(cluster, other)
    assert cluster.disks[other].floor == held.rank
    assert cluster.replicas[other].state.index == 0
    cluster.kill(other)
    assert cluster.boot(other)._peers.floor.rank == held.rank, "it outlives a restart"


def test_below_its_floor_it_pledges_only_to_one_that_reaches_it(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.submit(leader, "a")
    cluster.pass_time(0.5)
    other, third = leader % 3 + 1, (leader + 1) % 3 + 1
    term, index = cluster.replicas[other]._tail.end.rank
    forgets(cluster, other)
    cluster.pass_time(PLEDGE_NS / 1e9 * 3)
    replica = cluster.replicas[other]
    assert replica.role == "following", "it does not stand itself"
    promised = replica.voter.promised
    for end in ((term, index - 1), (term - 1, index + 9), (0, 0)):
        asked(cluster, other, third, end)
    assert replica.voter.promised == promised
    assert replica.counters["pledge_withheld"] == 3
    assert asked(cluster, other, third, (term, index)) == replica.voter.promised


def test_it_votes_as_before_once_it_has_caught_up(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.submit(leader, "a")
    cluster.pass_time(0.5)
    other = leader % 3 + 1
    forgets(cluster, other)
    cluster.log_down.clear()
    cluster.cut.clear()
    cluster.pass_time(5)
    cluster.kill(leader)
    assert cluster.settle() != leader
    assert len(cluster.digests()) == 1


def test_entries_that_a_lost_snapshot_leads_to_are_forgotten(cluster: Cluster) -> None:
    leader = cluster.settle()
    for name in "abc":
        cluster.submit(leader, name)
    cluster.pass_time(0.5)
    other = leader % 3 + 1
    disk = cluster.disks[other]
    index, data = disk.entries[-1]
    term = entries.unseal(0, data).entry.term
    cluster.kill(other)
    disk.entries = disk.entries[-2:]  # those before were in a snapshot, which is damaged
    replica = cluster.boot(other)
    assert replica.state.index == 0
    assert replica._peers.floor.rank == (term, index)
