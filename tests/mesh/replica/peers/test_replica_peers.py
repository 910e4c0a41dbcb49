# SPDX-License-Identifier: Apache-2.0
"""Three replicas: one leads by pledges, majorities confirm entries, and none of these is lost."""

from __future__ import annotations

import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log.entry import FORMAT, HASH_BYTES, Entry, SnapshotBlob, seal
from stoker.mesh.log.log_time import Instant
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.log.held_entry import ChainPlace
from stoker.mesh.replica.peers.voter import PLEDGE_NS
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.works.work import InFlight, WorkBatch
from stoker.mesh.wire import peer_messages as wire
from stoker.mesh.wire.term_owner import next_term
from stoker.native.errors import NotLeader
from tests.mesh.replica_cluster import CLUSTER, Cluster, Disk


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    return [identity.create(tmp_path_factory.mktemp("keys") / "s.nk") for _ in range(3)]


@pytest.fixture
def cluster(signers: list[Identity]) -> Cluster:
    return Cluster(signers)


def test_one_leads_and_the_others_follow(cluster: Cluster) -> None:
    leader = cluster.settle()
    roles = [each.role for each in cluster.replicas.values()]
    assert sorted(roles) == ["following", "following", "leading"]
    assert cluster.submit(leader, "a").job == 1
    cluster.pass_time(0.5)
    assert {each.state.index for each in cluster.replicas.values()} == {2}
    assert len(cluster.digests()) == 1


def test_a_follower_names_the_leader_at_once(cluster: Cluster) -> None:
    leader = cluster.settle()
    other = leader % 3 + 1
    cluster.pass_time(0.6)
    answer = cluster.submit(other, "a")
    assert isinstance(answer, NotLeader)
    assert f"scheduler {leader:016x}" in answer.hint


def test_another_leads_after_the_leader_died(cluster: Cluster) -> None:
    first = cluster.settle()
    cluster.submit(first, "a")
    cluster.kill(first)
    second = cluster.settle()
    assert second != first
    assert cluster.submit(second, "b").job == 2
    cluster.boot(first)
    cluster.settle()
    assert len(cluster.digests()) == 1


def answers(cluster: Cluster, replica: Replica, event: events.Event) -> list[events.SendPeer]:
    """The messages that a replica sends because of this event, which are still on their way."""
    sent: list[events.SendPeer] = []
    for effect in replica.step(event, cluster.now, cluster.now):
        if isinstance(effect, events.SendPeer):
            sent.append(effect)
        else:
            cluster.carry_out(replica.settings.leader, effect)
    return sent


def test_of_two_candidates_of_one_moment_the_one_of_the_newer_term_leads_at_once(
    cluster: Cluster,
) -> None:
    """Their requests cross. If each pledged to the other, nobody could lead for two seconds."""
    cluster.kill(cluster.settle())
    cluster.cut = set(cluster.replicas)
    candidates = list(cluster.replicas.values())
    for _ in range(2000):
        if all(each.role == "pledging" for each in candidates):
            break
        cluster.pass_time(0.05)
    cluster.cut = set()
    low, high = sorted(candidates, key=lambda each: each._peers.pledges.term)
    requests = [
        (
            other,
            peer_message(cluster, each.settings.leader, other.settings.leader, request_of(each)),
        )
        for each, other in ((low, high), (high, low))
    ]
    sent = [each for to, event in requests for each in answers(cluster, to, event)]
    for each in sent:
        cluster.feed(each.to, events.PeerMessage(each.data))
    assert (low.role, high.role) == ("following", "leading")


def request_of(candidate: Replica) -> wire.PledgeRequest:
    pledges = candidate._peers.pledges
    return wire.PledgeRequest(pledges.term, pledges.requested_ns)


def test_nothing_is_acknowledged_without_a_majority(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.cut = {number for number in cluster.replicas if number != leader}
    assert cluster.submit(leader, "a") is None
    cluster.pass_time(4)
    assert cluster.replicas[leader].role != "leading"
    cluster.cut = set()
    again = cluster.settle()
    assert cluster.submit(again, "b").job in (1, 2)


def test_an_acknowledged_entry_that_the_log_lost_is_appended_again(cluster: Cluster) -> None:
    first = cluster.settle()
    cluster.submit(first, "a")
    cluster.submit(first, "b")
    lost = cluster.log.last
    del cluster.log.entries[lost]
    cluster.log.last -= 1
    cluster.kill(first)
    second = cluster.settle()
    assert cluster.submit(second, "c").job == 3
    cluster.boot(first)
    cluster.settle()
    assert len(cluster.digests()) == 1
    assert cluster.replicas[second].state.book.get(2).job == 2


def test_a_leader_appends_again_what_the_log_lost(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.submit(leader, "a")
    del cluster.log.entries[cluster.log.last]
    cluster.log.last -= 1
    cluster.submit(leader, "b")
    cluster.settle()
    cluster.pass_time(3)
    assert cluster.replies["a"].job == 1
    assert cluster.replies["b"].job == 2
    assert len(cluster.digests()) == 1


def test_a_log_that_begins_again_far_before_what_was_read_is_followed(cluster: Cluster) -> None:
    leader = cluster.settle()
    for number in range(12):
        cluster.submit(leader, number)
    cluster.pass_time(0.6)
    for each in cluster.disks.values():
        each.snapshot = snapshots.encode(cluster.replicas[leader].state.snapshot()).data
        each.entries = each.entries[-1:]
    cluster.log.entries.clear()
    cluster.log.last = 0
    for number in list(cluster.replicas):
        cluster.kill(number)
    for number in cluster.disks:
        cluster.boot(number)
    again = cluster.settle()
    assert cluster.submit(again, "b").job == 13
    assert len(cluster.digests()) == 1 and not cluster.halted


def orphan(cluster: Cluster, number: int) -> bytes:
    """A sealed entry of a new term that follows an entry which no replica has."""
    state = cluster.replicas[number].state
    place = list(cluster.signers).index(number)
    entry = Entry(
        *(FORMAT, state.cluster, next_term(state.term, place), number, 1),
        *(state.index, b"x" * HASH_BYTES, state.index, state.time_ns, b""),
    )
    return seal(entry, cluster.signers[number]).data


def test_an_entry_whose_predecessor_nobody_has_stops_no_candidate(cluster: Cluster) -> None:
    first = cluster.settle()
    cluster.submit(first, "a")
    cluster.log.append(cluster.log.last, orphan(cluster, first))
    cluster.kill(first)
    second = cluster.settle()
    assert cluster.submit(second, "b").job == 2
    cluster.boot(first)
    cluster.settle()
    assert len(cluster.digests()) == 1 and not cluster.halted
    assert sum(each.counters.get("entry_orphan", 0) for each in cluster.replicas.values()) > 0


def test_a_leader_that_appended_behind_another_chain_reads_the_log_again(
    cluster: Cluster,
) -> None:
    leader = cluster.replicas[cluster.settle()]
    entry = leader._tail.following(leader.state.term, leader.settings.leader, 1, b"", ())
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    entry = type(entry)(**{**fields, "prev_hash": b"x" * HASH_BYTES})
    sealed = seal(entry, cluster.signers[leader.settings.leader])
    leader._appends._in_flight = InFlight(entry, sealed.hash, WorkBatch([]), sealed.data, "n")
    leader.step(events.AppendDone(leader.state.seen + 1, "n"), cluster.now, cluster.now)
    assert leader.role == "waiting" and "does not count" in leader.why


def test_two_leaders_never_overlap_however_messages_are_cut(signers: list[Identity]) -> None:
    cluster = Cluster(signers)
    cluster.settle()
    for cut in (1, 2, 3, 1, 3, 2):
        cluster.cut = {cut}
        for _ in range(60):
            cluster.pass_time(0.1)
            leaders = [n for n, each in cluster.replicas.items() if each.role == "leading"]
            assert len(leaders) <= 1
    cluster.cut = set()
    leader = cluster.settle()
    assert cluster.submit(leader, "a").job == 1
    assert not cluster.halted


def test_all_take_a_snapshot_at_one_point_and_the_log_is_trimmed(signers: list[Identity]) -> None:
    cluster = Cluster(signers, snapshot_entries=10)
    leader = cluster.settle()
    for number in range(40):
        cluster.submit(leader, number)
        cluster.pass_time(0.05)
    cluster.settle()
    indexes = {snapshots.decode(disk.snapshot)[0].index for disk in cluster.disks.values()}
    assert len(indexes) == 1
    assert min(cluster.log.entries) > 20
    assert len(cluster.digests()) == 1


def test_a_disk_has_the_entries_of_a_state_before_its_snapshot(signers: list[Identity]) -> None:
    """A batch of the log may have many entries, and the process may end at any effect."""
    cluster = Cluster(signers, snapshot_entries=10)
    leader = cluster.settle()
    late = leader % 3 + 1
    cluster.kill(late)
    cluster.log.drop = lambda seq: None  # type: ignore[method-assign]  # nothing is trimmed before it was read here
    for number in range(25):
        cluster.submit(leader, number)
        cluster.pass_time(0.05)
    follower, disk = cluster.boot(late), Disk()
    read = events.LogEntries(tuple(cluster.log.read(1)))
    saved = 0
    for effect in follower.step(read, cluster.now, cluster.now):
        if isinstance(effect, events.Store):
            disk.store(effect)
        elif isinstance(effect, events.SaveSnapshot):
            indexes = [index for index, _ in disk.entries]
            assert indexes == list(range(1, indexes[-1] + 1))
            assert indexes[-1] >= effect.snapshot.index
            saved += 1
    assert saved > 1


def test_a_disk_has_what_was_read_before_a_gap(signers: list[Identity]) -> None:
    """The replica claims it with its next pledge, although it looks for the missing entry first."""
    cluster = Cluster(signers)
    leader = cluster.settle()
    late = leader % 3 + 1
    cluster.kill(late)
    for number in range(8):
        cluster.submit(leader, number)
        cluster.pass_time(0.05)
    follower, disk = cluster.boot(late), cluster.disks[late]
    before, found = follower.tail.end.index, list(cluster.log.read(1))
    del found[-3]
    for effect in follower.step(events.LogEntries(tuple(found)), cluster.now, cluster.now):
        if isinstance(effect, events.Store):
            disk.store(effect)
    end = follower.tail.end.index
    assert before < end < cluster.replicas[leader].state.index - 2
    assert [index for index, _ in disk.entries][-1] == end


def test_a_candidate_stands_down_if_it_cannot_hold_what_a_voter_has(cluster: Cluster) -> None:
    """A majority may have confirmed it, so nobody may lead without it."""
    first = cluster.settle()
    cluster.submit(first, "a")
    cluster.kill(first)
    number, voter = sorted(cluster.replicas)
    candidate = cluster.replicas[number]
    cluster.pass_time(3)
    candidate.step_down("a test", Instant(cluster.now, cluster.now))
    pledges = candidate._peers.pledges
    pledges.begin(next_term(candidate.voter.promised + 8, number - 1))
    end = ChainPlace(candidate.state.term + 1, 9, b"h" * HASH_BYTES)
    pledges.names_end(voter, end)
    candidate._leadership.role = "fetching"
    fetched = wire.Fetched(candidate.state.index, candidate.state.index + 1, (b"torn",), False)
    event = peer_message(cluster, voter, number, fetched)
    candidate._peers.receive(event.data, Instant(cluster.now, cluster.now))
    assert candidate.role == "following" and "nothing can be held" in candidate.why


def test_a_replica_that_the_log_left_behind_gets_a_snapshot(signers: list[Identity]) -> None:
    cluster = Cluster(signers, snapshot_entries=10)
    leader = cluster.settle()
    late = leader % 3 + 1
    cluster.kill(late)
    for number in range(60):
        cluster.submit(leader, number)
        cluster.pass_time(0.05)
    cluster.disks[late] = Disk()
    cluster.boot(late)
    cluster.settle()
    assert len(cluster.digests()) == 1
    assert cluster.replicas[late].state.book.get(60).job == 60


def test_a_replica_whose_state_differs_begins_again(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.submit(leader, "a")
    other = leader % 3 + 1
    broken = cluster.replicas[other]
    broken.state.trail = b"x" * 32
    cluster.submit(leader, "b")
    cluster.settle()
    cluster.submit(leader, "c")
    cluster.settle()
    assert cluster.replicas[other] is not broken
    assert len(cluster.digests()) == 1


def test_only_the_leader_renews_leases_and_no_longer_than_its_pledges(cluster: Cluster) -> None:
    leader = cluster.settle()
    cluster.hello(leader)
    cluster.pass_time(0.2)
    authority = cluster.authority[leader]
    assert authority is not None and authority.until_ns is not None
    assert not authority.extend_only
    assert [place.node for place in authority.places] == ["n1"]
    assert cluster.now < authority.until_ns <= cluster.now + PLEDGE_NS
    assert [cluster.authority.get(n) for n in cluster.replicas if n != leader] == [None, None]
    cluster.cut = {number for number in cluster.replicas if number != leader}
    cluster.pass_time(2.1)
    assert cluster.authority[leader] is None


def test_a_candidate_that_waits_for_the_log_only_extends_leases(cluster: Cluster) -> None:
    first = cluster.settle()
    cluster.hello(first)
    cluster.pass_time(0.2)
    cluster.log_down = set(cluster.replicas)
    cluster.kill(first)
    for _ in range(100):
        cluster.pass_time(0.1)
        held = [each for n, each in cluster.authority.items() if n != first and each is not None]
        if held:
            break
    (authority,) = held
    assert authority.extend_only
    assert authority.term > min(each.state.term for each in cluster.replicas.values())
    cluster.log_down = set()
    second = cluster.settle()
    cluster.pass_time(0.1)
    led = cluster.authority[second]
    assert led is not None and not led.extend_only


def test_a_log_is_not_trimmed_beyond_a_snapshot_whose_places_are_others_now(
    cluster: Cluster,
) -> None:
    leader = cluster.settle()
    for number in range(5):
        cluster.submit(leader, number)
    replica = cluster.replicas[leader]
    third, fifth = (replica._tail.at(index) for index in (3, 5))
    assert third is not None and fifth is not None
    taken = SnapshotBlob(third.seq, b"", 3)
    assert replica.tail.trim_to(Applied(snapshot=taken, trim_to=third.seq)) == third.seq
    assert replica.tail.trim_to(Applied(snapshot=taken, trim_to=fifth.seq)) == 0

    fourth = replica.tail.at(4)
    assert fourth is not None
    replica.tail.forget_places()
    replica.tail.appended(5, fifth.seq)
    assert not replica.tail.may_trim(third.seq, 3), "entry 4 can be anywhere before entry 5"
    replica.tail.appended(4, fourth.seq)
    assert replica.tail.may_trim(third.seq, 3)


def peer_message(
    cluster: Cluster, sender: int, to: int, message: wire.Message, *, name: str = CLUSTER
) -> events.PeerMessage:
    """Return a message that the sender's own key has sealed."""
    envelope = wire.PeerEnvelope(wire.FORMAT, name, sender, to, message)
    return events.PeerMessage(wire.seal(envelope, cluster.signers[sender]))


def refuses(cluster: Cluster, to: int, event: events.PeerMessage, counter: str) -> None:
    """Require that a replica counts a message and does nothing else."""
    replica = cluster.replicas[to]
    before, role, promised = dict(replica.counters), replica.role, replica.voter.promised
    digest = replica.state.digest()
    cluster.feed(to, event)
    assert replica.counters == {**before, counter: before.get(counter, 0) + 1}
    assert (replica.role, replica.voter.promised) == (role, promised)
    assert replica.state.digest() == digest


def test_a_message_of_another_cluster_or_for_another_receiver_is_counted(cluster: Cluster) -> None:
    leader = cluster.settle()
    sender, third = leader % 3 + 1, (leader + 1) % 3 + 1
    request = wire.PledgeRequest(10**6, 1)
    foreign = peer_message(cluster, sender, leader, request, name="another")
    refuses(cluster, leader, foreign, "peer_refused")
    refuses(cluster, leader, peer_message(cluster, sender, third, request), "peer_refused")


def test_a_forged_message_or_one_of_a_stranger_is_counted(cluster: Cluster) -> None:
    leader = cluster.settle()
    sender = leader % 3 + 1
    good = peer_message(cluster, sender, leader, wire.NotPledged(10**6, 1)).data
    refuses(cluster, leader, events.PeerMessage(bytes([good[0] ^ 1]) + good[1:]), "peer_refused")
    refuses(cluster, leader, events.PeerMessage(good[:20]), "peer_refused")
    stranger = wire.PeerEnvelope(wire.FORMAT, CLUSTER, 9, leader, wire.NotPledged(10**6, 1))
    sealed = wire.seal(stranger, cluster.signers[sender])
    refuses(cluster, leader, events.PeerMessage(sealed), "peer_unknown")
    echo = peer_message(cluster, leader, leader, wire.NotPledged(10**6, 1))
    refuses(cluster, leader, echo, "peer_unknown")


def test_a_pledge_that_a_candidate_did_not_request_is_counted(cluster: Cluster) -> None:
    """One of the past, of the future, for another candidate, of another voter, or forged."""
    leader = cluster.settle()
    voter, other = leader % 3 + 1, (leader + 1) % 3 + 1
    term = cluster.replicas[leader].state.term
    for pledge, key in (
        (wire.Pledge(CLUSTER, voter, leader, term, 1), voter),
        (wire.Pledge(CLUSTER, voter, leader, term, cluster.now + 10**12), voter),
        (wire.Pledge(CLUSTER, voter, leader, term + 800, cluster.now), voter),
        (wire.Pledge(CLUSTER, voter, other, term, cluster.now), voter),
        (wire.Pledge(CLUSTER, other, leader, term, cluster.now), other),
        (wire.Pledge(CLUSTER, voter, leader, term, cluster.now), other),
    ):
        sealed = wire.seal_pledge(pledge, cluster.signers[key])
        promised = wire.Promised(sealed, term, 1, b"h" * HASH_BYTES)
        refuses(cluster, leader, peer_message(cluster, voter, leader, promised), "pledge_refused")
    torn = wire.Promised(b"x" * 80, term, 1, b"h" * HASH_BYTES)
    refuses(cluster, leader, peer_message(cluster, voter, leader, torn), "pledge_refused")
