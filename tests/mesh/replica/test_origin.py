# SPDX-License-Identifier: Apache-2.0
"""A restored cluster begins behind the state of its backup: nothing of the former one is granted
any more, and what may run only once never runs again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry as entries
from stoker.mesh.log.genesis import Genesis, RosterMember, digest
from stoker.mesh.replica import origin, snapshots
from stoker.mesh.replica.origin import LEFT_BEHIND, MAY_HAVE_RUN
from stoker.mesh.replica.snapshots import Snapshot
from stoker.native.errors import Corrupt, KeyWindow
from tests.mesh.bench import BOB, LEADER, LIMITS, Bench
from tests.mesh.founding import FORMATS, LEVEL
from tests.mesh.replica_cluster import Cluster

WITH = "restored"


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "s.nk")


@pytest.fixture(scope="module")
def other_signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "other.nk")


@pytest.fixture
def former(signer: Identity) -> Bench:
    """A cluster whose only device has job 1, for which 2 to 4 wait; 5 is over."""
    bench = Bench(signer).lead().hello()
    bench.submit("gone", cpu_milli=100)
    bench.outcome(1, "succeeded", exit_code=0)
    bench.submit("runs", gpu_milli=1000, key=b"runs")
    bench.submit("waits", gpu_milli=1000)
    bench.submit("again", gpu_milli=1000, retries=3)
    bench.submit("bob", gpu_milli=1000, preemptible=True, owner=BOB)
    return bench


def backup(bench: Bench) -> Snapshot:
    return origin.plain(bench.replica.state.snapshot())


def genesis_behind(state: Snapshot, signer: Identity, cluster: str = WITH) -> Genesis:
    member = RosterMember(LEADER, signer.public)
    return Genesis(cluster, LIMITS, (member,), FORMATS, {}, origin.of(state, 5), LEVEL)


def restored(state: Snapshot, signer: Identity, bench: Bench | None = None) -> Bench:
    """A scheduler of the restored cluster; that of `bench` again, which has its log."""
    made = genesis_behind(state, signer)
    own = msgspec.structs.replace(state, cluster=made.cluster)
    return Bench(signer, bench.log if bench else None, own, genesis=made)


def states(bench: Bench) -> dict[int, str]:
    return {job: bench.replica.state.book.get(job).state for job in range(1, 6)}


def test_jobs_are_treated_by_their_policy(former: Bench, other_signer: Identity) -> None:
    assert states(former) == {
        1: "succeeded", 2: "starting", 3: "pending", 4: "pending", 5: "pending"
    }  # fmt: skip
    bench = restored(backup(former), other_signer).lead()
    assert states(bench) == {1: "succeeded", 2: "lost", 3: "cancelled", 4: "pending", 5: "pending"}
    book = bench.replica.state.book
    assert LEFT_BEHIND in book.get(2).reason and MAY_HAVE_RUN in book.get(3).reason
    assert not bench.actions(), "nobody of the former cluster is told anything"
    bench.hello()
    refused = bench.replies["hello", "n1", "boot-1", 1]
    assert not refused.ok and refused.code == "removed", "the former node is told so"
    bench.hello(boot="boot-9", instance=9, key="new")
    started = [each.job for each in bench.actions()]
    assert len(started) == 1 and started[0] in (4, 5), "a node of the same name is a new one"


def test_one_that_runs_and_may_run_again_waits_for_another_node(
    signer: Identity, other_signer: Identity
) -> None:
    former = Bench(signer).lead().hello()
    former.submit("a", gpu_milli=1000, retries=1)
    former.outcome(1, "running")
    bench = restored(backup(former), other_signer).lead()
    job = bench.replica.state.book.get(1)
    assert (job.state, job.attempt) == ("pending", 1)
    assert (job.attempts[-1].state, job.attempts[-1].reason) == (
        "lost",
        f"node evicted: {LEFT_BEHIND}",
    )
    bench.tick(2)
    bench.hello("n2", "boot-2")
    assert (job.state, job.attempt) == ("starting", 2)


def test_no_node_and_no_device_is_left(former: Bench, other_signer: Identity) -> None:
    state = restored(backup(former), other_signer).lead().replica.state
    assert not state.core.nodes() and not state.book.nodes
    assert state.core.counters()["devices"] == state.core.counters()["tasks"] == 0
    departed = state.book.departures.newest("n1")
    assert departed is not None and departed.why == LEFT_BEHIND


def test_the_chain_goes_on_under_another_name(former: Bench, other_signer: Identity) -> None:
    before = former.replica.state
    bench = restored(backup(former), other_signer).lead()
    first = entries.unseal(*bench.log.read(1)[0])
    assert (first.entry.prev_index, first.entry.prev_hash) == (before.index, before.hash)
    assert first.entry.cluster == WITH and first.entry.term > before.term
    state = bench.replica.state
    assert (state.index, state.cluster) == (before.index + 1, WITH) and state.is_founded
    assert state.limits == LIMITS and state.restored_ns == first.entry.now_ns
    assert [member.public_key for member in state.schedulers] == [other_signer.public]


def test_a_scheduler_that_starts_again_finds_the_same_state(
    former: Bench, other_signer: Identity
) -> None:
    state = backup(former)
    bench = restored(state, other_signer).lead()
    bench.hello("n2", "boot-2")
    bench.submit("new", gpu_milli=1000)
    again = restored(state, other_signer, bench).lead()
    assert again.replica.state.index == bench.replica.state.index + 1  # its own term
    assert states(again) == states(bench)
    later = bench.replica.state.snapshot()
    made = genesis_behind(state, other_signer)
    behind = Bench(other_signer, bench.log, later, genesis=made).lead().replica.state
    assert behind.is_founded and behind.book.get(6).state == again.replica.state.book.get(6).state


def test_entries_of_the_former_cluster_count_for_nothing(
    former: Bench, signer: Identity, other_signer: Identity
) -> None:
    """Somebody puts what the former cluster did after the backup into the log of the new one."""
    state = backup(former)
    former.submit("later", gpu_milli=1000)
    late = former.log.read(state.index + 1)
    bench = restored(state, other_signer)
    for _, data in late:
        bench.log.append(len(bench.log.read(1)), data)
    renamed = entries.unseal(*late[0]).entry
    forged = msgspec.structs.replace(renamed, cluster=WITH, term=renamed.term + 8)
    bench.log.append(len(bench.log.read(1)), entries.seal(forged, signer).data)
    bench.tick()
    assert bench.replica.state.refused["entry_cluster"] == len(late)
    assert bench.replica.state.refused["entry_genesis"] == 1
    assert bench.halted or bench.replica.role != "leading", "a log of another cluster is refused"


def test_a_state_that_is_not_that_of_the_origin_is_refused(
    former: Bench, other_signer: Identity
) -> None:
    state = backup(former)
    made = genesis_behind(state, other_signer)
    former.submit("later")
    for wrong in (backup(former), msgspec.structs.replace(state, term=state.term + 1)):
        with pytest.raises(Corrupt, match="another genesis"):
            Bench(other_signer, None, wrong, genesis=made)


def test_a_genesis_without_an_origin_is_encoded_as_ever(other_signer: Identity) -> None:
    made = Genesis("c", LIMITS, (RosterMember(1, "U"),), FORMATS, {}, level=LEVEL)
    assert b"origin" not in msgspec.msgpack.encode(made)
    begins = msgspec.structs.replace(made, origin=origin.Origin("o", 1, 1, b"h", b"s", 1))
    assert digest(begins) != digest(made)


def test_a_repeat_from_before_the_restore_makes_no_second_job(
    former: Bench, other_signer: Identity
) -> None:
    """Its first sending may have been taken after the backup, and its job may have run."""
    bench = restored(backup(former), other_signer)
    bench.now += 10**12
    bench.lead()
    bench.submit("unknown", key=b"since", since_ns=former.now)
    assert isinstance(bench.replies["unknown"], KeyWindow)
    assert "restored from a backup" in bench.replies["unknown"].message
    bench.submit("known", key=b"runs", gpu_milli=1000, since_ns=former.now)
    assert bench.replies["known"].job == 2
    bench.submit("new", key=b"since", since_ns=bench.now)
    assert bench.replies["new"].job == 6


@pytest.fixture
def three(former: Bench, tmp_path: Path) -> Cluster:
    """Three schedulers of a restored cluster; the first one alone has the state of the backup."""
    signers = [identity.create(tmp_path / f"{number}.nk") for number in range(3)]
    state, made = backup(former), Cluster(signers)
    made.genesis = msgspec.structs.replace(made.genesis, origin=origin.of(state, 5))
    own = msgspec.structs.replace(state, cluster=made.genesis.cluster)
    made.disks[1].snapshot = snapshots.encode(own).data
    for number in made.disks:
        made.boot(number)
    return made


def test_one_of_three_brings_the_state_to_the_others(three: Cluster, former: Bench) -> None:
    three.settle()
    assert all(each.state.is_founded for each in three.replicas.values())
    assert len({each.state.trail for each in three.replicas.values()}) == 1
    assert three.replicas[2].state.index > former.replica.state.index
    assert states_of(three) == {
        1: "succeeded",
        2: "lost",
        3: "cancelled",
        4: "pending",
        5: "pending",
    }


def states_of(cluster: Cluster) -> dict[int, str]:
    return {job: cluster.replicas[3].state.book.get(job).state for job in range(1, 6)}


def test_a_majority_without_the_state_founds_nothing(three: Cluster) -> None:
    three.kill(1)
    three.pass_time(20)
    assert not three.log.read(1), "they wait for the one that has it"
    assert not any(each.state.is_founded for each in three.replicas.values())
    three.boot(1)
    pass_until(three, lambda: all(each.state.is_founded for each in three.replicas.values()))
    three.kill(1)
    pass_until(three, lambda: any(e.role == "leading" for e in three.replicas.values()))


def pass_until(cluster: Cluster, true: Callable[[], bool]) -> None:
    for _ in range(60):
        if true():
            return
        cluster.pass_time(1)
    pytest.fail("not within a minute of simulated time")


def test_a_restored_cluster_can_be_restored(
    former: Bench, signer: Identity, other_signer: Identity
) -> None:
    once = restored(backup(former), other_signer).lead()
    once.submit("new", gpu_milli=1000, retries=1)
    state = backup(once)
    made = genesis_behind(state, signer, "twice")
    twice = Bench(signer, None, msgspec.structs.replace(state, cluster="twice"), genesis=made)
    twice.lead()
    assert twice.replica.state.index == state.index + 1
    assert twice.replica.state.book.get(6).state == "pending"
