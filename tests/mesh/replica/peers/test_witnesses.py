# SPDX-License-Identifier: Apache-2.0
"""A replica that is stuck asks all that it knows, and takes what proves itself or what a majority
has told it alike."""

from __future__ import annotations

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.entry import FORMAT, Entry, seal
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.outbox import Outbox
from stoker.mesh.replica.peers.snapshot_exchange import SnapshotExchange
from stoker.mesh.replica.peers.witnesses import AGAIN_NS, STUCK_NS, Witnesses
from stoker.mesh.replica.replica import Replica
from stoker.mesh.wire import peer_messages as wire
from stoker.mesh.wire.term_owner import next_term
from tests.mesh.replica_cluster import CLUSTER, Cluster

GOOD, FORGED = (90, b"good"), (1000, b"forged")


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(5)]


@pytest.fixture
def cluster(signers: list[Identity]) -> Cluster:
    cluster = Cluster(signers)
    cluster.submit(cluster.settle(), "a")
    cluster.pass_time(0.5)
    return cluster


class Stuck:
    """The witnesses of a follower whose chain ends at a gap, and what it sends because of it."""

    def __init__(self, cluster: Cluster) -> None:
        number = next(n for n, each in cluster.replicas.items() if each.role == "following")
        self.replica: Replica = cluster.replicas[number]
        self.others = sorted(cluster.replicas.keys() - {number})
        self.witnesses: Witnesses = self.replica._peers.witnesses
        self.now = cluster.now

    def gap(self, after_ns: int) -> list[tuple[int, wire.Message]]:
        """Meet the gap after so much time, and return the messages that are sent."""
        self.now += after_ns
        self.witnesses.gap(Instant(self.now, self.now))
        sent = self.replica._outbox.take()
        return [
            (each.to, wire.read_envelope(each.data).message)
            for each in sent
            if isinstance(each, events.SendPeer)
        ]

    def ask(self) -> None:
        """Ask all others."""
        self.gap(0)
        assert len(self.gap(STUCK_NS)) == len(self.others)

    def told(self, sender: int, has: tuple[int, bytes], *, first: int = 80) -> None:
        """Take the answer of a scheduler that has this snapshot, and entries behind it."""
        question = self.witnesses._question
        message = wire.Witnessed(question, first, has[0] + 1, *has)
        self.witnesses.told(sender, message, Instant(self.now, self.now))

    def count(self, counter: str) -> int:
        return self.replica.counters.get(counter, 0)


def test_it_asks_all_others_once_a_second_after_its_chain_has_ended_there_for_long(
    cluster: Cluster,
) -> None:
    stuck = Stuck(cluster)
    question = wire.WitnessRequest(stuck.witnesses._question)
    assert stuck.gap(0) == [] and stuck.gap(STUCK_NS - 1) == []
    assert stuck.gap(1) == [(each, question) for each in stuck.others]
    assert stuck.gap(AGAIN_NS - 1) == []
    assert len(stuck.gap(1)) == len(stuck.others)


def test_what_a_leader_names_twice_and_the_log_does_not_show_is_missing(cluster: Cluster) -> None:
    stuck = Stuck(cluster)
    end = stuck.replica.tail.end.index
    named = [stuck.witnesses.is_missing(index) for index in (end, end + 1, end + 3, end, end + 1)]
    assert named == [False, False, True, False, False]


def test_a_chain_that_grows_is_not_stuck(cluster: Cluster) -> None:
    stuck = Stuck(cluster)
    stuck.gap(0)
    cluster.submit(next(n for n, e in cluster.replicas.items() if e.role == "leading"), "b")
    assert stuck.gap(STUCK_NS) == []


def test_an_answer_that_nobody_asked_for_is_counted(cluster: Cluster) -> None:
    stuck = Stuck(cluster)
    stuck.told(stuck.others[0], GOOD)
    stuck.ask()
    stuck.told(stuck.others[0], GOOD)
    stuck.told(stuck.others[0], FORGED)
    other = wire.Witnessed(stuck.witnesses._question + 1, 1, 9, *GOOD)
    stuck.witnesses.told(stuck.others[1], other, Instant(stuck.now, stuck.now))
    stuck.told(99, GOOD)
    assert stuck.count("witness_refused") == 4


def test_entries_are_fetched_of_one_after_the_other(cluster: Cluster) -> None:
    stuck = Stuck(cluster)
    index = stuck.replica.state.index
    one, other, *_ = stuck.others
    sources = []
    stuck.ask()
    for _ in range(3):
        stuck.told(one, GOOD, first=1)
        stuck.told(other, GOOD, first=1)
        (to, message), *asked = stuck.gap(AGAIN_NS)
        assert message == wire.FetchRequest(index) and len(asked) == len(stuck.others)
        sources.append(to)
    assert sources == [one, other, one]


def test_a_snapshot_needs_the_word_of_a_majority_beside_its_own(cluster: Cluster) -> None:
    """Three of the four others must have it alike. Two say so, and one has been robbed."""
    stuck = Stuck(cluster)
    good, more, robbed, third = stuck.others
    stuck.ask()
    for each in (good, more):
        stuck.told(each, GOOD)
    stuck.told(robbed, FORGED)
    assert {type(message) for _, message in stuck.gap(AGAIN_NS)} == {wire.WitnessRequest}
    assert stuck.count("snapshot_unvouched") == 1
    for each in (good, more, third):
        stuck.told(each, GOOD)
    stuck.told(robbed, FORGED)
    (to, message), *_ = stuck.gap(AGAIN_NS)
    assert to in (good, more, third) and message == wire.SnapshotRequest(0, 0)
    assert stuck.count("snapshot_unvouched") == 1


def test_who_is_in_no_roster_has_no_word(cluster: Cluster) -> None:
    stuck = Stuck(cluster)
    stuck.ask()
    stuck.witnesses._asked |= {98, 99}
    for each in (stuck.others[0], 98, 99):
        stuck.told(each, FORGED)
    assert {type(message) for _, message in stuck.gap(AGAIN_NS)} == {wire.WitnessRequest}


def test_who_is_asked_tells_what_it_has(cluster: Cluster) -> None:
    stuck = Stuck(cluster)
    stuck.witnesses.has(2, b"digest")
    stuck.witnesses.has(1, b"older")
    stuck.witnesses.requested(stuck.others[0], wire.WitnessRequest(7), Instant(0, 0))
    (sent,) = stuck.replica._outbox.take()
    assert isinstance(sent, events.SendPeer) and sent.to == stuck.others[0]
    last = stuck.replica.state.index
    assert wire.read_envelope(sent.data).message == wire.Witnessed(7, 1, last, 2, b"digest")


def test_a_replica_that_starts_with_a_snapshot_tells_of_it(signers: list[Identity]) -> None:
    cluster = Cluster(signers, snapshot_entries=4)
    leader = cluster.settle()
    for number in range(12):
        cluster.submit(leader, f"job-{number}")
    cluster.pass_time(1)
    one = leader % 5 + 1
    file = snapshots.decode(cluster.disks[one].snapshot)[0]
    cluster.kill(one)
    replica = cluster.boot(one)
    assert replica._peers.witnesses._snapshot == (file.index, snapshots.agreement(file))


# --- what a witness sends -------------------------------------------------------------------------


def fetched(cluster: Cluster, sender: int, to: int, entries: tuple[bytes, ...]) -> None:
    """Bring a replica entries of another one."""
    message = wire.Fetched(1, 1, entries, True)
    around = wire.PeerEnvelope(wire.FORMAT, CLUSTER, sender, to, message)
    cluster.feed(to, events.PeerMessage(wire.seal(around, cluster.signers[sender])))


def test_an_entry_of_a_witness_replaces_nothing_that_was_acknowledged(cluster: Cluster) -> None:
    """A leader's chain replaces what differs from it. A witness may show an old chain of its own,
    and what it knows better must be proved as in the log: by a newer term with its pledges."""
    stuck = Stuck(cluster)
    replica = stuck.replica
    leader = next(n for n, each in cluster.replicas.items() if each.role == "leading")
    robbed = next(each for each in stuck.others if each != leader)
    number = replica.settings.leader
    cluster.cut = {n for n in cluster.replicas if n not in (leader, number)}
    cluster.submit(leader, "unconfirmed")
    held = replica._tail.end
    state = replica.state
    assert held.index == state.index + 1, "it holds an entry that two of five have"
    for term in (robbed, next_term(held.term, list(cluster.signers).index(robbed))):
        entry = Entry(
            *(FORMAT, CLUSTER, term, robbed, 1, state.index, state.hash),
            *(state.index, state.time_ns, b""),
        )
        stuck.witnesses.source = robbed
        cluster.cut = set()
        fetched(cluster, robbed, number, (seal(entry, cluster.signers[robbed]).data,))
        assert replica._tail.hash_at(held.index) == held.hash


def test_entries_that_nobody_asked_for_are_counted(cluster: Cluster) -> None:
    stuck = Stuck(cluster)
    leader = next(n for n, each in cluster.replicas.items() if each.role == "leading")
    other = next(each for each in stuck.others if each != leader)
    fetched(cluster, other, stuck.replica.settings.leader, ())
    assert stuck.count("fetched_unasked") == 1


def test_a_file_counts_only_with_the_state_that_was_told(cluster: Cluster) -> None:
    good = cluster.replicas[1].state.snapshot()
    installed: list[bytes] = []
    outbox = Outbox()
    exchange = SnapshotExchange(
        lambda to, message: None,
        outbox,
        covers=lambda snapshot: False,
        install=lambda data, why, reached: installed.append(data),
    )

    def arrives(snapshot: snapshots.Snapshot) -> bool:
        data = snapshots.encode(snapshot).data
        exchange.want(2, 0, snapshots.agreement(good))
        return exchange.part(2, wire.SnapshotPart(snapshot.index, 0, len(data), data), 1)

    assert not arrives(msgspec.structs.replace(good, term=good.term + 8))
    assert installed == [] and outbox.counters["snapshot_unvouched"] == 1
    assert arrives(msgspec.structs.replace(good, seq=10**6))
    (data,) = installed
    assert snapshots.decode(data)[0] == msgspec.structs.replace(good, seq=0), (
        "the sender's place in the log is no part of what was told"
    )


def test_a_state_that_names_a_later_place_in_the_log_reads_it_from_its_beginning(
    cluster: Cluster,
) -> None:
    """A snapshot says how far its replica had read, which may be further than its last entry."""
    stuck = Stuck(cluster)
    number = stuck.replica.settings.leader
    cluster.kill(number)
    cut = cluster.cut = {number}
    snapshot = stuck.replica.state.snapshot()
    leader = next(n for n, each in cluster.replicas.items() if each.role == "leading")
    for key in ("b", "c"):
        cluster.submit(leader, key)
    cluster.disks[number].entries = []
    cluster.disks[number].snapshot = snapshots.encode(
        msgspec.structs.replace(snapshot, seq=snapshot.seq + 1)
    ).data
    cluster.boot(number)
    assert cluster.cut == cut, "nobody helps it"
    cluster.pass_time(2)
    assert cluster.replicas[number].tail.end.index >= snapshot.index + 2
