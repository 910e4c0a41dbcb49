# SPDX-License-Identifier: Apache-2.0
"""A trail leads to the state of those who wrote it, and takes nothing that they would not take."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.mesh.audit import trail_rows
from stoker.mesh.audit.trail import Trail
from stoker.mesh.audit.trail_rows import TrailRow
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import entry as entries
from stoker.mesh.log import roster_change
from stoker.mesh.log.entry import GenesisBlob, LimitsBlob
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.log.roster_change import entering
from stoker.mesh.replica import origin
from stoker.mesh.replica.snapshots import Snapshot
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.wire.term_owner import TERMS_PER_ROUND
from stoker.native.errors import BadRequest, Corrupt
from tests.agent.sim.stage import Stage
from tests.agent.sim.test_scenarios_roster import Changes, members
from tests.mesh.bench import LEADER, Bench
from tests.mesh.replica.test_origin import genesis_behind

Found = list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Identity:
    return identity.create(tmp_path_factory.mktemp("keys") / "s.nk")


@pytest.fixture
def bench(signer: Identity) -> Bench:
    """A scheduler alone, with a log of some 30 entries."""
    made = Bench(signer).lead().hello()
    for number in range(30):
        made.submit(number)
    return made


def followed(found: Found) -> Trail:
    trail = Trail()
    for place, data in found:
        trail.take(place, data)
    return trail


def test_it_leads_to_the_state_of_the_scheduler(bench: Bench) -> None:
    trail, state = followed(bench.log.read(1)), bench.replica.state
    assert trail.state is not None
    assert (trail.index, trail.state.hash, trail.state.trail) == (
        state.index, state.hash, state.trail
    )  # fmt: skip
    assert trail.state.core.snapshot() == state.core.snapshot()
    assert dict(trail.signed) == {LEADER: state.index} and not trail.passed


@pytest.mark.parametrize("at", [0, 6, 28])
def test_a_missing_entry_is_named(bench: Bench, at: int) -> None:
    found = bench.log.read(1)
    says = "not at the genesis" if not at else f"log entry {at + 2} follows entry {at + 1} "
    with pytest.raises(Corrupt, match=says):
        followed(found[:at] + found[at + 1 :])


def test_a_changed_byte_is_named(bench: Bench) -> None:
    found = bench.log.read(1)
    place, data = found[9]
    found[9] = place, data[:100] + bytes([data[100] ^ 1]) + data[101:]
    with pytest.raises(Corrupt, match="log entry 10: the checksum"):
        followed(found)


def test_what_a_stranger_wrote_is_passed_over(bench: Bench, signer: Identity) -> None:
    """It follows the chain in every way, but no scheduler of the roster signed it."""
    found = bench.log.read(1)
    forged = bench.replica._tail.following(
        bench.replica.state.term, LEADER, bench.now, b"", (LimitsBlob(bench.replica.state.limits),)
    )
    stranger = identity.of_raw(bytes(range(32)))
    trail = followed([*found, (len(found) + 1, entries.seal(forged, stranger).data)])
    assert trail.passed == {"entry_signature": 1} and trail.index == len(found)
    later = msgspec.structs.replace(forged, term=forged.term + TERMS_PER_ROUND)
    trail = followed([*found, (len(found) + 1, entries.seal(later, signer).data)])
    assert trail.index == len(found) + 1, "the only scheduler may begin a term of its own"


def test_an_entry_that_came_too_late_is_passed_over(bench: Bench, signer: Identity) -> None:
    found = bench.log.read(1)
    place, data = found[-1]
    trail = followed([*found, (place + 1, data)])
    assert trail.passed == {"entry_stale": 1} and trail.index == place
    foreign = msgspec.structs.replace(entries.unseal(*found[-1]).entry, cluster="another")
    trail = followed([*found, (place + 1, entries.seal(foreign, signer).data)])
    assert trail.passed == {"entry_cluster": 1}


def test_leaders_and_rosters_that_change_are_judged_by_the_roster_of_their_time() -> None:
    """SIM: one of three leaves, a new one enters and leads; its entries count, and only behind its
    own entry into the roster."""
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    leader, lost, kept = members(stage)
    lost.crash()
    leaves = roster_change.leaving(changes.roster(leader), lost.number)
    assert changes.ask(leaves) == AdminApplied(True)
    enters = entering(changes.roster(leader), RosterMember(new.number, new.signer.public))
    assert changes.ask(enters) == AdminApplied(True)
    stage.until(lambda: new.replica.state.index == leader.replica.state.index, "the new one reads")
    stage.pass_time(3)
    leader.crash()
    stage.let_lead(new, kept)
    stage.submit("after")
    stage.until(lambda: stage.end("after"), "a job under the new leader")
    state, trail = kept.replica.state, Trail(KeyedHash)
    held = [each for each in kept.disk.held if each[0] <= state.index]
    for place, data in held:
        trail.take(place, data)
    assert trail.state is not None and not trail.passed
    assert (trail.index, trail.state.trail) == (state.index, state.trail)
    assert trail.signed[new.number] and trail.signed[leader.number]
    without = [each for each in held if not _enters(each[1])]
    with pytest.raises(Corrupt, match="entries are missing"):
        _follow(without)


def test_the_trail_of_a_restored_cluster_begins_with_the_backup(
    bench: Bench, tmp_path: Path
) -> None:
    """Its entries name the state that they begin behind, and no other one is taken for it."""
    other = identity.create(tmp_path / "other.nk")
    base = origin.plain(bench.replica.state.snapshot())
    made = genesis_behind(base, other)
    own = msgspec.structs.replace(base, cluster=made.cluster)
    again = Bench(other, None, own, genesis=made).lead()
    again.submit("new")
    found, state = again.log.read(1), again.replica.state
    trail = Trail(base=base)
    for place, data in found:
        trail.take(place, data)
    trail.check_end(state.index, state.hash.hex(), state.trail.hex())
    assert trail.behind == base.index and trail.state is not None
    assert trail.state.core.snapshot() == state.core.snapshot()
    assert trail.state.book.snapshot() == state.book.snapshot()
    with pytest.raises(BadRequest, match=f"at entry {base.index}, behind which its trail begins"):
        followed(found)
    bench.submit("later")
    with pytest.raises(Corrupt, match="another genesis"):
        Trail(base=bench.replica.state.snapshot()).take(*found[0])
    assert [row.what for row in rows_of(base, found)][:2] == ["term.begun", "cluster.restored"]


def rows_of(base: Snapshot, found: Found) -> list[TrailRow]:
    trail = Trail(base=base)
    taken = [trail.take(place, data) for place, data in found]
    return [row for each in taken if each is not None for row in trail_rows.rows(each)]


def test_a_genesis_in_the_middle_counts_for_nothing(bench: Bench, signer: Identity) -> None:
    """Nobody makes another cluster of a trail, not even the scheduler whose log it is."""
    state = bench.replica.state
    made = genesis_behind(origin.plain(state.snapshot()), signer, state.cluster)
    forged = bench.replica._tail.following(
        state.term + TERMS_PER_ROUND, LEADER, bench.now, b"", (GenesisBlob(made),)
    )
    found = bench.log.read(1)
    trail = followed([*found, (len(found) + 1, entries.seal(forged, signer).data)])
    assert trail.passed == {"entry_genesis": 1} and trail.index == len(found)


def _enters(data: bytes) -> bool:
    change = roster_change.of(entries.unseal(0, data).entry)
    return change is not None and bool(change.member.number)


def _follow(found: Found) -> None:
    trail = Trail(KeyedHash)
    for place, data in found:
        trail.take(place, data)
