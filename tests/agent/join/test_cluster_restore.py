# SPDX-License-Identifier: Apache-2.0
"""A folder is made of a backup as a new cluster, or nothing is made."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.agent.join import cluster_restore, foundation
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address, own_folder
from stoker.mesh.broker import revoked_keys, users
from stoker.mesh.broker.revoked_keys import RevokedKey
from stoker.mesh.broker.users import User
from stoker.mesh.identity import certificate, identity, sealed_json
from stoker.mesh.log import genesis, log_record
from stoker.mesh.log.feature_level import FORMATS
from stoker.mesh.log.genesis import Genesis
from stoker.mesh.replica import backup_file, origin, snapshots
from stoker.mesh.replica.backup_file import Backup, FormerBroker
from stoker.mesh.replica.first_state import first_state
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.native.errors import BadRequest, Refused
from tests.mesh.bench import LIMITS, Bench


@pytest.fixture(autouse=True)
def no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no nodes here whose leases must run out."""
    monkeypatch.setattr(cluster_restore, "LEASE_OVER_S", 0.0)


def public(folder: Path, name: str) -> str:
    return identity.create(folder / f"{name}.nk").public


@pytest.fixture
def backup(tmp_path: Path) -> Backup:
    """A backup of a cluster with the users admin, alice, eve, whose key was revoked, and the owner
    of another server."""
    keys = tmp_path / "former"
    keys.mkdir()
    bench = Bench(identity.create(keys / "s.nk")).lead().hello()
    bench.submit("a", gpu_milli=1000)
    names = ("admin", "alice", "eve", "admin-second")
    table = {name: User(public_key=public(keys, name), uid=7, gid=8) for name in names}
    table["admin"] = msgspec.structs.replace(table["admin"], admin=True)
    revoked = {table["eve"].public_key: RevokedKey("user", "eve", 1, "stolen")}
    files = {
        "users.json": sealed_json.encode(table),
        "config.toml": b"[power]\n",
        revoked_keys.FILE: sealed_json.encode(revoked),
    }
    lost = FormerBroker("127.0.0.1", 1, bytes(32))
    return backup_file.of("first", 7, (lost,), bench.replica.state.snapshot(), files)


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    return state_folder.locate(tmp_path / "state")


def test_the_folder_is_a_complete_one_of_another_cluster(
    backup: Backup, where: StateFolder
) -> None:
    made = cluster_restore.restore(where, backup, "again")
    assert made == own_folder.load_or_create(where) and made.node == "again"
    state = backup.state
    assert made.cluster != state.cluster and made.is_first and not made.several
    begins = state_folder.read_json(where.genesis, Genesis)
    assert begins.origin == origin.of(state, backup.made_ns) and begins.limits == LIMITS
    found = SnapshotFolder(where.scheduler).newest(made.cluster).snapshot
    assert found == msgspec.structs.replace(state, cluster=made.cluster)
    record = log_record.read(where.scheduler)
    assert record is not None and record.is_new, "its log is made by the first start"
    assert (where.root / "config.toml").read_bytes() == b"[power]\n"


def test_users_keep_their_keys_and_the_owner_gets_new_ones(
    backup: Backup, where: StateFolder, tmp_path: Path
) -> None:
    cluster_restore.restore(where, backup)
    table = users.load(where.users)
    former = sealed_json.decode(backup.files["users.json"], dict[str, User])
    assert table["alice"] == former["alice"]
    assert table["admin"].public_key == identity.load(where.key("admin")).public
    assert (table["admin"].uid, table["admin"].admin) == (7, True)
    assert "eve" not in table and "admin-second" not in table
    assert former["eve"].public_key in revoked_keys.load(where.revoked)
    accounts = state_folder.read_json(where.genesis, Genesis).accounts
    assert set(accounts) == set(table), "the log begins with these users"


def test_no_two_restores_have_anything_in_common(backup: Backup, tmp_path: Path) -> None:
    first, second = (state_folder.locate(tmp_path / name) for name in ("one", "two"))
    made = [cluster_restore.restore(each, backup) for each in (first, second)]
    assert made[0].cluster != made[1].cluster
    assert made[0].scheduler_public_key != made[1].scheduler_public_key
    digests = {genesis.digest(state_folder.read_json(each.genesis, Genesis)) for each in
               (first, second)}  # fmt: skip
    assert len(digests) == 2


def test_a_folder_with_a_node_or_with_anything_in_it_is_refused(
    backup: Backup, where: StateFolder, tmp_path: Path
) -> None:
    cluster_restore.restore(where, backup, "again")
    before = where.cluster.read_bytes()
    with pytest.raises(Refused, match="is that of node again already"):
        cluster_restore.restore(where, backup)
    assert where.cluster.read_bytes() == before
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (other / "mine").write_text("x")
    with pytest.raises(Refused, match=r"mine|not empty"):
        cluster_restore.restore(state_folder.locate(other), backup)
    assert [path.name for path in other.iterdir()] == ["mine"]


def test_while_a_broker_of_the_former_cluster_answers_nothing_is_made(
    backup: Backup, where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(host: str, port: int, wanted: bytes, timeout_s: float) -> tuple[bytes, str]:
        return b"", ""

    monkeypatch.setattr(certificate, "fetch", fetch)
    with pytest.raises(Refused, match=r"answers at 127\.0\.0\.1:1: it is not lost"):
        cluster_restore.restore(where, backup)
    assert not where.root.exists() and not list(where.root.parent.glob(".new-*"))


def test_the_founding_of_several_servers_keeps_the_origin(
    backup: Backup, where: StateFolder
) -> None:
    cluster_restore.restore(where, backup)
    begins = state_folder.read_json(where.genesis, Genesis).origin
    assert begins is not None
    first = broker_address.init(where, "127.0.0.2", None, "", 3)
    made = msgspec.structs.replace(first, wanted=1)  # as if the others had joined
    foundation.found(where, made)
    founded = state_folder.read_json(where.genesis, Genesis)
    assert (
        founded.origin == begins and founded.schedulers[0].public_key == first.servers[0].scheduler
    )


def test_a_restored_cluster_of_one_server_takes_others(backup: Backup, where: StateFolder) -> None:
    cluster_restore.restore(where, backup)
    before = state_folder.read_json(where.genesis, Genesis)
    broker_address.init(where, "127.0.0.2", None, "")
    founds = state_folder.read_json(where.genesis, Genesis)
    assert founds == msgspec.structs.replace(before, replicated=True)


@pytest.mark.parametrize("level", FORMATS)
def test_a_restored_cluster_has_the_feature_level_of_its_backup(
    backup: Backup, where: StateFolder, level: int
) -> None:
    formats = FORMATS[level]
    config = msgspec.structs.replace(backup.state.config, level=level, formats=formats)
    state = msgspec.structs.replace(backup.state, config=config, format=formats.snapshot)
    of_level = msgspec.structs.replace(backup, snapshot=snapshots.encode(state).data)
    made = cluster_restore.restore(where, of_level)
    begins = state_folder.read_json(where.genesis, Genesis)
    assert (begins.level, begins.formats) == (level, formats)
    found = SnapshotFolder(where.scheduler).newest(made.cluster).snapshot
    assert first_state(begins, found).level == level


def test_a_name_that_no_node_could_join_with_makes_nothing(
    backup: Backup, where: StateFolder
) -> None:
    with pytest.raises(BadRequest, match=r"'a\.b' cannot be a node's name"):
        cluster_restore.restore(where, backup, "a.b")
    assert not where.root.exists()


def test_a_restore_that_fails_leaves_nothing(backup: Backup, where: StateFolder) -> None:
    broken = msgspec.structs.replace(backup, files={**backup.files, "users.json": b"{"})
    with pytest.raises(Exception, match="the table of users in this backup"):
        cluster_restore.restore(where, broken)
    assert not where.root.exists() and not list(where.root.parent.glob(".new-*"))
