# SPDX-License-Identifier: Apache-2.0
"""An append whose outcome is unknown is sent again only while it can still follow the chain."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.log import entry as entries
from stoker.mesh.replica import events
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.works.work import InFlight, WorkBatch
from tests.mesh.replica_cluster import Cluster


@pytest.fixture
def leader(tmp_path_factory: pytest.TempPathFactory) -> Replica:
    folder = tmp_path_factory.mktemp("keys")
    cluster = Cluster([identity.create(folder / f"{n}.nk") for n in range(3)])
    return cluster.replicas[cluster.settle()]


def unknown(leader: Replica, prev_hash: bytes) -> InFlight:
    """Let the leader have an unknown append behind the end of its chain, after this entry."""
    entry = leader._tail.following(leader.state.term, leader.settings.leader, 1, b"", ())
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    entry = type(entry)(**{**fields, "prev_hash": prev_hash})
    sealed = entries.seal(entry, leader._peers._signer)
    sent = InFlight(entry, sealed.hash, WorkBatch([]), sealed.data, "name")
    leader._appends._unknown.append(sent)
    return sent


def test_an_unknown_append_that_follows_the_chain_is_sent_again(leader: Replica) -> None:
    sent = unknown(leader, leader._tail.end.hash)
    leader._appends.settle_unknown(leader.state.term)
    appends = [each for each in leader._outbox.take() if isinstance(each, events.Append)]
    assert [each.data for each in appends] == [sent.data]


def test_an_unknown_append_behind_another_chain_of_that_length_is_not(leader: Replica) -> None:
    unknown(leader, b"x" * entries.HASH_BYTES)
    leader._appends.settle_unknown(leader.state.term)
    assert not any(isinstance(each, events.Append) for each in leader._outbox.take())
    assert leader._appends.idle


def test_an_append_has_another_name_at_each_tail(leader: Replica) -> None:
    """The log's servers answer a name that they know with its first place, which may be gone."""
    sent = unknown(leader, leader._tail.end.hash)
    names = []
    for seen in (7, 7, 9):
        leader._appends._unknown[:] = [sent]
        leader.state.seen = seen
        leader._appends.settle_unknown(leader.state.term)
        names += [each.name for each in leader._outbox.take() if isinstance(each, events.Append)]
        sent = leader._appends._in_flight or sent
    assert names[0] == names[1] != names[2]
    assert leader._appends.acknowledged(10, names[2]) and not leader._appends.acknowledged(
        10, names[0]
    )
