# SPDX-License-Identifier: Apache-2.0
"""The configuration of a cluster is in its log: replicas derive it, and refuse a foreign one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry, genesis, roster_change
from stoker.mesh.log.entry import AccountBlob, GenesisBlob, LimitsBlob
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.log.model_log import ModelLog
from stoker.mesh.replica import cluster_limits, events, new_cluster, snapshots
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.server import administration
from stoker.mesh.wire.schema import ClusterLimitsRequest
from stoker.native.errors import BadRequest, Corrupt, Refused
from stoker.scheduler.core import Core, Limits
from stoker.scheduler.nouns import Account, Owner
from tests.mesh.bench import CLUSTER, LEADER, LIMITS, Bench
from tests.mesh.founding import FORMATS, genesis_of, replay

ALICE = Account("key of alice", False, Owner("alice", 1000, 1000))


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "scheduler.nk")


def entries_of(bench: Bench) -> list[entry.Entry]:
    return [entry.unseal(seq, data).entry for seq, data in bench.log.read(1)]


def follower(bench: Bench) -> Bench:
    """A new process that has nothing but the log."""
    return Bench(bench.signer, log=bench.log, genesis=bench.replica.settings.genesis).lead()


def change_limits(bench: Bench, **limits: int) -> object:
    state, token = bench.replica.state, ("limits", len(bench.replies))
    request = ClusterLimitsRequest(limits=limits)
    bench.feed(administration.cluster_limits(token, request, state, bench.now))
    return bench.replies[token]


def test_the_first_entry_states_the_genesis_and_no_other_does(signer: Identity) -> None:
    bench = Bench(signer, accounts={"alice": ALICE}).lead().hello()
    again = follower(bench)
    stated = [entry.genesis_of(each) for each in entries_of(bench)]
    assert stated[0] == genesis_of(CLUSTER, LIMITS, signer.public, LEADER, {"alice": ALICE})
    assert stated[1:] == [None] * (len(stated) - 1)
    for each in (bench, again):
        assert each.replica.state.limits == LIMITS == each.replica.state.core.limits
        assert each.replica.state.accounts == {"alice": ALICE}


def test_a_log_of_another_genesis_is_refused_and_left_alone(signer: Identity) -> None:
    log = Bench(signer).lead().hello().log
    tail = log.last
    other = Bench(signer, log=log, limits=LIMITS._replace(nodes=5))
    other.tick()
    assert "genesis" in other.halted
    assert other.replica.counters["entry_genesis"] > 0
    assert other.replica.state.config is None and log.last == tail


@pytest.mark.parametrize("cluster", ["bench", "another"])
def test_a_second_genesis_changes_nothing(signer: Identity, cluster: str) -> None:
    bench = Bench(signer).lead().hello()
    before = bench.replica.state.digest()
    forged = bench.replica._tail.following(1, LEADER, bench.now, b"", ())
    stated = genesis_of(cluster, LIMITS._replace(nodes=1), signer.public, LEADER)
    sealed = entry.seal(msgspec.structs.replace(forged, blobs=(GenesisBlob(stated),)), signer)
    bench.log.append(bench.log.last, sealed.data)
    bench.feed(events.LogEntries(bench.log.read(bench.log.last)))
    assert bench.replica.counters["entry_genesis"] == 1
    bench.replica.state.seen -= 1
    assert bench.replica.state.digest() == before


def test_only_the_roster_writes_entries(signer: Identity, tmp_path: Path) -> None:
    bench = Bench(signer).lead()
    stranger = identity.create(tmp_path / "stranger.nk")
    forged = bench.replica._tail.following(1, LEADER + 1, bench.now, b"", (LimitsBlob(Limits()),))
    bench.log.append(bench.log.last, entry.seal(forged, stranger).data)
    bench.feed(events.LogEntries(bench.log.read(bench.log.last)))
    assert bench.replica.counters["entry_signature"] == 1
    assert bench.replica.state.limits == LIMITS


def test_a_snapshot_of_another_genesis_is_corrupt(signer: Identity) -> None:
    bench = Bench(signer).lead().hello()
    snapshot = bench.replica.state.snapshot()
    other = genesis_of(CLUSTER, LIMITS._replace(jobs=7), signer.public, LEADER)
    with pytest.raises(Corrupt, match="another genesis"):
        Replica(ReplicaSettings(other, LEADER, 1 << 30), signer, snapshot)
    again, _ = snapshots.decode(snapshots.encode(snapshot).data)
    assert again.config == snapshot.config


def test_the_next_node_is_taken_after_the_limit_was_raised(signer: Identity) -> None:
    bench = Bench(signer).lead()
    for number in range(LIMITS.nodes + 1):
        bench.hello(f"n{number}", f"boot-{number}")
    last = ("hello", f"n{LIMITS.nodes}", f"boot-{LIMITS.nodes}", 1)
    assert not bench.replies[last].ok
    bench.submit("job", gpu_milli=500)
    assert change_limits(bench, nodes=70, devices=70).changed  # type: ignore[attr-defined]
    assert not change_limits(bench, nodes=70).changed  # type: ignore[attr-defined]
    for number in range(LIMITS.nodes, 70):
        bench.hello(f"n{number}", f"boot-{number}", 2)
    assert all(reply.ok for token, reply in bench.replies.items() if token[-1] == 2)
    assert len(bench.replica.state.book.nodes) == 70
    again = follower(bench).replica.state
    assert again.limits == LIMITS._replace(nodes=70, devices=70) == again.core.limits
    assert again.core.check() == "" and again.book.get(1).state == "starting"


def test_limits_that_the_state_does_not_fit_into_are_refused(signer: Identity) -> None:
    bench = Bench(signer).lead().hello("n1").hello("n2", "boot-2")
    with pytest.raises(Refused, match="does not fit"):
        change_limits(bench, nodes=1)
    for wrong in ({"nodes": 0}, {"nodes": 1 << 40}, {"cores": 3}):
        with pytest.raises(BadRequest):
            change_limits(bench, **wrong)
    assert bench.replica.state.limits == LIMITS


def test_an_entry_whose_limits_do_not_fit_is_the_same_no_op_everywhere(signer: Identity) -> None:
    bench = Bench(signer).lead().hello("n1").hello("n2", "boot-2")
    bench.feed(events.Admin("late", (), (LimitsBlob(LIMITS._replace(nodes=1)),)))
    for state in (bench.replica.state, follower(bench).replica.state):
        assert state.refused["limits"] == 1 and state.limits == LIMITS


def test_accounts_change_by_entries_of_their_differences(signer: Identity) -> None:
    bench = Bench(signer, accounts={"alice": ALICE}).lead()
    bob = Account("key of bob", True, None, "bob has no Unix identity")
    many = {f"user{n}": Account(f"key {n}", False, None) for n in range(150)}
    for wanted in ({"alice": ALICE}, {"alice": ALICE, "bob": bob}, {"bob": bob, **many}):
        bench.feed(events.AccountsRead(wanted))
        for _ in range(5):
            bench.tick()
        assert bench.replica.state.accounts == dict(sorted(wanted.items()))
    changes = [[b for b in e.blobs if isinstance(b, AccountBlob)] for e in entries_of(bench)]
    assert [len(each) for each in changes if each] == [1, 64, 64, 23]
    assert follower(bench).replica.state.accounts == bench.replica.state.accounts


def test_an_unfounded_replica_reads_an_empty_log_and_founds_it_once(signer: Identity) -> None:
    log = ModelLog()
    first, second = Bench(signer, log=log), Bench(signer, log=log)
    first.lead()
    second.tick()
    stated = [each for each in entries_of(first) if entry.genesis_of(each) is not None]
    assert len(stated) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedulers": ()},
        {"schedulers": (RosterMember(1, "a"), RosterMember(1, "b"))},
        {"limits": LIMITS._replace(jobs=0)},
        {"accounts": {f"u{n}": Account("k" * 600, False, None) for n in range(300)}},
    ],
    ids=["no scheduler", "two of one number", "no jobs", "too large"],
)
def test_a_genesis_that_cannot_found_a_cluster_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        genesis.check(msgspec.structs.replace(genesis_of(CLUSTER, LIMITS), **wrong))


def test_more_users_than_a_genesis_holds_are_left_to_later_entries() -> None:
    many = {f"u{n}": Account("k" * 600, False, None) for n in range(300)}
    made = new_cluster.founding(CLUSTER, "UKEY", LIMITS, many)
    assert made.accounts == {} and genesis.size(made) < genesis.GENESIS_BYTES_MAX
    assert new_cluster.founding(CLUSTER, "UKEY", LIMITS, {"alice": ALICE}).accounts


def test_a_cluster_has_one_three_or_five_schedulers_in_a_fixed_order() -> None:
    keys = [f"U{name}EXAMPLEKEY" for name in "ABCDEF"]
    for count in (1, 3, 5):
        made = new_cluster.founding_several(CLUSTER, keys[:count], LIMITS, {})
        assert [each.public_key for each in made.schedulers] == keys[:count]
        assert genesis.digest(made) == genesis.digest(
            new_cluster.founding_several(CLUSTER, keys[:count], LIMITS, {})
        )
    for count in (0, 2, 4, 6):
        with pytest.raises(BadRequest, match="1, 3 or 5"):
            new_cluster.founding_several(CLUSTER, keys[:count], LIMITS, {})
    with pytest.raises(BadRequest, match="different schedulers"):
        new_cluster.founding_several(CLUSTER, [keys[0]] * 3, LIMITS, {})


def test_two_genesis_records_differ_by_any_field() -> None:
    base = genesis_of(CLUSTER, LIMITS)
    others = [
        msgspec.structs.replace(base, **{name: value})
        for name, value in (
            ("cluster", "other"),
            ("limits", LIMITS._replace(keys=9)),
            ("schedulers", (RosterMember(78, "U"),)),
            ("formats", msgspec.structs.replace(FORMATS, entry=99)),
            ("accounts", {"alice": ALICE}),
        )
    ]
    assert len({genesis.digest(each) for each in (base, *others)}) == 6


def test_limits_of_a_configuration_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    assert cluster_limits.read(file) == Limits()
    file.write_text("[limits]\nnodes = 1000\n")
    assert cluster_limits.read(file) == Limits()._replace(nodes=1000)
    assert Core(cluster_limits.read(file)).limits.nodes == 1000
    for wrong in ("[limits]\nnodes = 0\n", "[limits]\nwheels = 4\n", "limits = 3\n", "["):
        file.write_text(wrong)
        with pytest.raises(BadRequest, match=r"config\.toml"):
            cluster_limits.read(file)


def test_snapshot_and_tail_are_the_full_replay_across_changed_limits(signer: Identity) -> None:
    bench = Bench(signer, accounts={"alice": ALICE}).lead().hello()
    bench.submit("before", gpu_milli=300)
    taken = snapshots.decode(snapshots.encode(bench.replica.state.snapshot()).data)[0]
    change_limits(bench, nodes=9, jobs=99)
    bench.feed(events.AccountsRead({}))
    bench.tick()
    bench.hello("n2", "boot-2")
    bench.submit("after", gpu_milli=1000)
    whole = ReplicaState(CLUSTER, bench.replica.state.genesis)
    part = ReplicaState.restore(taken)
    for seq, data in bench.log.read(1):
        for state in (whole, part):
            if seq > state.seen:
                replay(state, seq, data)
    assert whole.digest() == part.digest() == bench.replica.state.digest()
    assert (part.limits.nodes, part.limits.jobs, dict(part.accounts)) == (9, 99, {})


def test_a_genesis_of_the_first_level_has_the_bytes_of_one_that_names_none() -> None:
    """Clusters that were founded before there were levels keep their digest."""
    plain = genesis_of(CLUSTER, LIMITS)
    first = msgspec.structs.replace(plain, level=1)
    assert b"level" not in msgspec.json.encode(first) and b"level" in msgspec.json.encode(plain)
    assert genesis.first_config(first).level == 1


def test_one_scheduler_is_a_replica_from_the_level_on_that_knows_it() -> None:
    public = "U" + "A" * 55
    made = new_cluster.founding(CLUSTER, public, LIMITS, {})
    assert made.alone
    replicated = msgspec.structs.replace(made, replicated=True)
    genesis.check(replicated)
    assert not replicated.alone and genesis.first_config(replicated).replicated
    assert (roster_change.kept_min(replicated), roster_change.kept_min(made)) == (1, 2)
    assert genesis.digest(replicated) != genesis.digest(made)
    older = genesis.REPLICATED_SINCE - 1
    with pytest.raises(BadRequest, match="from feature level 4 on"):
        genesis.check(msgspec.structs.replace(replicated, level=older))
