# SPDX-License-Identifier: Apache-2.0
"""A survivor's files give a backup of all good entries in them, or one clear refusal."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path

import pytest

from stoker.agent.join import cluster_backup, cluster_restore, foundation, survivor_backup
from stoker.agent.state import retirement, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address
from stoker.mesh.audit.trail import Trail
from stoker.mesh.broker import users
from stoker.mesh.identity import certificate, identity
from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Entry, GenesisBlob, RosterBlob, TermBlob
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.log.held_entries import FORGOTTEN, NAME, HeldEntries
from stoker.mesh.log.roster_change import VACANT
from stoker.mesh.replica import backup_file
from stoker.mesh.replica.backup_file import FormerBroker
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.mesh.wire import peer_messages
from stoker.mesh.wire.peer_messages import Pledge
from stoker.native.errors import Corrupt, Refused, StokerError, Unavailable
from tests.agent.join.test_foundation import HERE, Founders

LAST = 6
"""The index of the last entry that is written here."""
NAMES = ("first", "second", "third")


class Survivor:
    """The third of three servers that were founded, and a chain of entries of which each server
    would confirm each."""

    def __init__(self, folder: Path) -> None:
        made = Founders(folder)
        for number, name in enumerate(NAMES[1:], 4):
            made.join(name, number)
        assert made.registrar.found_if_due()
        for host in made.joined:
            foundation.take(host.where, state_folder.load(host.where), made.tables())
        self.folders = [made.where, *(host.where for host in made.joined)]
        self.where = self.folders[2]
        self.genesis = state_folder.read_json(self.where.genesis, Genesis)
        self.signers = [identity.load(where.key("scheduler")) for where in self.folders]
        self.found: list[tuple[int, bytes]] = []
        self._hash = entries.NO_HASH

    def add(self, place: int, term: int, *blobs: entries.Blob, pledged: bool = True) -> None:
        """Sign the next entry as the scheduler at a place of the roster."""
        leader, index = self.genesis.schedulers[place].number, len(self.found)
        if pledged:
            blobs = (*blobs, TermBlob(self._pledges(place, term)))
        made = Entry(
            entries.FORMAT, self.genesis.cluster, term, leader, index + 1, index, self._hash,
            index, 1_000_000_000 * (index + 1), b"", blobs,
        )  # fmt: skip
        sealed = entries.seal(made, self.signers[place])
        self._hash = sealed.hash
        self.found.append((index + 1, sealed.data))

    def _pledges(self, place: int, term: int) -> tuple[bytes, ...]:
        voter = (place + 1) % len(self.signers)
        numbers = [each.number for each in self.genesis.schedulers]
        pledge = Pledge(self.genesis.cluster, numbers[voter], numbers[place], term, 0)
        return (peer_messages.seal_pledge(pledge, self.signers[voter]),)

    def hold(self, count: int = LAST, floor: tuple[int, int] = (0, 0)) -> None:
        """Store the first entries as this server's scheduler does, and end it."""
        held = HeldEntries(self.where.scheduler, is_new=True)
        held.store(0, tuple(self.found[:count]), 9, floor)
        held.close()

    def snapshot(self, index: int) -> None:
        """Have a snapshot behind an entry, too."""
        trail = Trail()
        for place, data in self.found[:index]:
            trail.take(place, data)
        assert trail.state is not None
        SnapshotFolder(self.where.scheduler).save(trail.state.snapshot())


@pytest.fixture(scope="module")
def founded(tmp_path_factory: pytest.TempPathFactory) -> Survivor:
    """One with the genesis of the first server, and behind it a term of the second; its folder has
    none of it yet."""
    made = Survivor(tmp_path_factory.mktemp("servers"))
    made.add(0, 1, GenesisBlob(made.genesis))
    made.add(0, 1, pledged=False)
    made.add(1, 2)
    for _ in range(LAST - len(made.found)):
        made.add(1, 2, pledged=False)
    return made


@pytest.fixture
def survivor(founded: Survivor, tmp_path: Path) -> Survivor:
    """A copy of that server for one test."""
    shutil.copytree(founded.where.root, tmp_path / "third")
    made = copy.copy(founded)
    made.where = state_folder.locate(tmp_path / "third")
    made.found = list(founded.found)
    return made


@pytest.fixture
def to(tmp_path: Path) -> Path:
    return tmp_path / "kept.backup"


def answering(monkeypatch: pytest.MonkeyPatch, survivor: Survivor, *names: str) -> None:
    """Have the brokers of these servers answer."""
    there = {
        certificate.fingerprint(certificate.read(where.broker_certificate))
        for name, where in zip(NAMES, survivor.folders, strict=True)
        if name in names
    }

    def answers(broker: FormerBroker) -> bool:
        return broker.fingerprint in there

    monkeypatch.setattr(cluster_restore, "answers", answers)


def test_all_that_is_held_is_in_the_backup(survivor: Survivor, to: Path) -> None:
    survivor.hold()
    found = survivor_backup.take(survivor.where, to)
    state = backup_file.read(to).state
    assert (state.index, state.term, found.time_ns) == (LAST, 2, LAST * 1_000_000_000)
    assert state.hash == entries.unseal(LAST, survivor.found[-1][1]).hash
    assert (found.lost, found.others) == (("first", "second"), ())
    assert (found.left_out, found.forgot) == ("", False)
    assert [each.host for each in found.backup.brokers] == [HERE, "127.0.0.4", "127.0.0.5"]


@pytest.mark.parametrize("snapshot", [2, 3, LAST])
def test_a_snapshot_is_where_the_entries_begin(survivor: Survivor, to: Path, snapshot: int) -> None:
    survivor.snapshot(snapshot)
    survivor.hold()
    survivor_backup.take(survivor.where, to)
    assert backup_file.read(to).state.index == LAST


def test_a_scheduler_that_writes_meanwhile_is_not_disturbed(survivor: Survivor, to: Path) -> None:
    survivor.hold()
    with (survivor.where.scheduler / NAME).open("ab") as file:
        file.write(b"the begin of a record")
    before = (survivor.where.scheduler / NAME).read_bytes()
    survivor_backup.take(survivor.where, to)
    assert (survivor.where.scheduler / NAME).read_bytes() == before
    assert backup_file.read(to).state.index == LAST


def test_an_entry_that_no_majority_pledged_is_left_out_with_all_behind_it(
    survivor: Survivor, to: Path
) -> None:
    survivor.add(2, 3, pledged=False)
    survivor.add(2, 3, pledged=False)
    survivor.hold(len(survivor.found))
    found = survivor_backup.take(survivor.where, to)
    assert found.left_out == f"entry {LAST + 1} does not count: entry_pledges"
    assert backup_file.read(to).state.index == LAST


def test_entries_behind_a_missing_one_are_left_out(survivor: Survivor, to: Path) -> None:
    del survivor.found[3]
    survivor.hold()
    found = survivor_backup.take(survivor.where, to)
    assert "entries are missing or were changed" in found.left_out
    assert backup_file.read(to).state.index == 3


def test_one_that_has_forgotten_says_so(survivor: Survivor, to: Path) -> None:
    survivor.hold(3, floor=(2, LAST))
    assert survivor_backup.take(survivor.where, to).forgot


def test_one_whose_file_is_lost_has_its_snapshot(survivor: Survivor, to: Path) -> None:
    survivor.snapshot(3)
    found = survivor_backup.take(survivor.where, to)
    assert found.forgot and backup_file.read(to).state.index == 3


@pytest.mark.parametrize("floor", [(0, 0), FORGOTTEN])
def test_one_that_holds_nothing_is_refused(
    survivor: Survivor, to: Path, floor: tuple[int, int]
) -> None:
    survivor.hold(0, floor)
    with pytest.raises(Refused, match="server third holds no entry of its cluster"):
        survivor_backup.take(survivor.where, to)
    nothing_happened(survivor.where, to)


def nothing_happened(where: StateFolder, to: Path) -> None:
    retirement.check(where)
    assert not to.exists()


@pytest.mark.parametrize("names", [("first",), ("second",), ("first", "second")])
def test_while_enough_answer_to_decide_it_is_refused(
    survivor: Survivor, to: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    survivor.hold()
    answering(monkeypatch, survivor, *names)
    with pytest.raises(Refused, match=f"^{' and '.join(names)} answers?: with third") as refused:
        survivor_backup.take(survivor.where, to)
    assert "`stoker cluster backup` without --survivor" in refused.value.hint
    nothing_happened(survivor.where, to)


def test_a_server_that_was_removed_counts_for_no_majority(
    survivor: Survivor, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survivor.add(1, 2, RosterBlob(0, VACANT), pledged=False)
    survivor.hold(len(survivor.found))
    answering(monkeypatch, survivor, "first")
    found = survivor_backup.take(survivor.where, to)
    assert (found.lost, found.others) == (("second",), ())


def test_a_damaged_file_is_named(survivor: Survivor, to: Path) -> None:
    survivor.hold()
    path = survivor.where.scheduler / NAME
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    with pytest.raises(Corrupt, match="it does not begin like one"):
        survivor_backup.take(survivor.where, to)
    nothing_happened(survivor.where, to)


def test_the_server_is_retired_and_may_be_backed_up_again(survivor: Survivor, to: Path) -> None:
    survivor.hold()
    survivor_backup.take(survivor.where, to)
    with pytest.raises(Refused, match=rf"is retired: its state up to entry {LAST} went into {to}"):
        retirement.check(survivor.where)
    with pytest.raises(Refused, match="exists already"):
        survivor_backup.take(survivor.where, to)
    to.unlink()
    survivor_backup.take(survivor.where, to)
    assert backup_file.read(to).state.index == LAST


def test_a_file_that_cannot_be_written_retires_nobody(survivor: Survivor, tmp_path: Path) -> None:
    survivor.hold()
    with pytest.raises(StokerError):
        survivor_backup.take(survivor.where, tmp_path / "no/folder/kept")
    nothing_happened(survivor.where, tmp_path / "no/folder/kept")


def test_a_failure_later_does_not_undo_what_an_earlier_backup_retired(
    survivor: Survivor, to: Path, tmp_path: Path
) -> None:
    survivor.hold()
    survivor_backup.take(survivor.where, to)
    with pytest.raises(StokerError):
        survivor_backup.take(survivor.where, tmp_path / "no/folder/kept")
    with pytest.raises(Refused, match=f"went into {to} on"):
        retirement.check(survivor.where)


def test_the_only_server_of_a_cluster_survives_nobody(tmp_path: Path, to: Path) -> None:
    where = state_folder.locate(tmp_path / "alone")
    broker_address.init(where, HERE, None, "alone")
    with pytest.raises(Refused, match="alone is the only server of its cluster"):
        survivor_backup.take(where, to)
    nothing_happened(where, to)


def test_a_plain_backup_without_a_leader_names_the_option(
    survivor: Survivor, to: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def follow(root: str, trail: Trail, after: int) -> None:
        raise Unavailable("the node's scheduler is not answering")

    survivor.hold()
    monkeypatch.setattr(cluster_backup, "_follow", follow)
    with pytest.raises(Unavailable, match="no scheduler of the 3 servers answers") as refused:
        cluster_backup.take(survivor.where, to)
    assert "--survivor takes what this one holds" in refused.value.hint


def test_a_cluster_begins_with_it_as_with_any_backup(
    survivor: Survivor, to: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survivor.hold()
    survivor_backup.take(survivor.where, to)
    monkeypatch.setattr(cluster_restore, "LEASE_OVER_S", 0.0)
    again = state_folder.locate(tmp_path / "again")
    made = cluster_restore.restore(again, backup_file.read(to), "third")
    begins = state_folder.read_json(again.genesis, Genesis)
    assert begins.origin is not None and begins.origin.index == LAST
    assert made.cluster != survivor.genesis.cluster and len(begins.schedulers) == 1
    assert {name for name in users.load(again.users) if "-" in name} == set()
    assert begins.schedulers[0] not in survivor.genesis.schedulers
