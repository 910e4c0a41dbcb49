# SPDX-License-Identifier: Apache-2.0
"""A server outside the roster is heard as a reader, and others not at all."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.replica import events
from stoker.mesh.wire import peer_messages as wire
from tests.mesh.replica_cluster import CLUSTER, Cluster

NEW = 9


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(4)]


def answered(cluster: Cluster, to: int, message: wire.Message, signer: Identity) -> list[object]:
    """The answers of a replica to a message of the server that is not in the roster."""
    envelope = wire.PeerEnvelope(wire.FORMAT, CLUSTER, NEW, to, message)
    sealed = events.PeerMessage(wire.seal(envelope, signer))
    effects = cluster.replicas[to].step(sealed, cluster.now, cluster.now)
    return [
        wire.read_envelope(each.data).message
        for each in effects
        if isinstance(each, events.SendPeer) and each.to == NEW
    ]


def led(signers: list[Identity]) -> tuple[Cluster, int]:
    """A cluster of three whose leader knows the fourth key as that of a server."""
    cluster = Cluster(signers[:3])
    leader = cluster.settle()
    cluster.submit(leader, "a")
    servers = (RosterMember(NEW, signers[3].public),)
    cluster.feed(leader, events.ServersKnown(servers))
    return cluster, leader


def test_a_reader_is_told_what_it_lacks(signers: list[Identity]) -> None:
    cluster, leader = led(signers)
    (fetched,) = answered(cluster, leader, wire.FetchRequest(0), signers[3])
    assert isinstance(fetched, wire.Fetched) and len(fetched.entries) == 2
    (has,) = answered(cluster, leader, wire.WitnessRequest(5), signers[3])
    assert isinstance(has, wire.Witnessed) and (has.number, has.last) == (5, 2)
    (recalled,) = answered(cluster, leader, wire.RecallRequest(6), signers[3])
    assert isinstance(recalled, wire.Recalled) and recalled.number == 6


def test_no_word_of_a_reader_counts(signers: list[Identity]) -> None:
    cluster, leader = led(signers)
    replica = cluster.replicas[leader]
    held = wire.Held(replica.voter.promised, 2, b"h" * 32, 2, b"t" * 32)
    for said in (held, wire.PledgeRequest(99, 1), wire.Resigned(replica.voter.promised)):
        before = replica.counters.get("peer_unknown", 0)
        assert answered(cluster, leader, said, signers[3]) == []
        assert replica.counters["peer_unknown"] == before + 1
    assert replica.role == "leading"


def test_who_was_not_named_or_has_another_key_is_not_heard(signers: list[Identity]) -> None:
    cluster, leader = led(signers)
    assert answered(cluster, leader, wire.FetchRequest(0), signers[2]) == []
    assert cluster.replicas[leader].counters["peer_refused"] == 1
    other = next(number for number in cluster.replicas if number != leader)
    assert answered(cluster, other, wire.FetchRequest(0), signers[3]) == []
    assert cluster.replicas[other].counters["peer_unknown"] == 1
