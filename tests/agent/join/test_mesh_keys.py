# SPDX-License-Identifier: Apache-2.0
"""A change of the gossip keys: step by step, for those who belong to the cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stoker.agent.join import key_list, key_revocation, mesh_keys
from stoker.agent.join.key_revocation import Holder
from stoker.agent.join.mesh_keys import KeyChange, KeyProgress
from stoker.agent.link import member_list
from stoker.agent.link.member_list import MeshMember
from stoker.agent.state import gossip_files, joins, state_folder
from stoker.agent.state.joins import JoinedNode
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address, lock
from stoker.mesh.gossip import gossip_access
from stoker.mesh.gossip.gossip_access import KEYS_MAX
from stoker.mesh.identity import identity
from stoker.native.errors import Refused

OLD, NEW = gossip_access.new_key(), gossip_access.new_key()
CHANGE = KeyChange((OLD,), NEW, "on request")
CLUSTER = {"a", "b"}


def member(name: str, *keys: str, state: str = "alive") -> MeshMember:
    return MeshMember(name, "", state, None, None, tuple(map(gossip_access.digest, keys)))


def at(step: mesh_keys.KeyStep) -> KeyChange:
    return msgspec.structs.replace(CHANGE, step=step)


def test_each_step_waits_until_all_who_live_have_its_keys() -> None:
    for step, keys, after in (
        ("install", (OLD, NEW), "use"),
        ("use", (NEW, OLD), "remove"),
        ("remove", (NEW,), "forget"),
    ):
        change = at(step)  # type: ignore[arg-type]
        assert change.keys == keys
        late = [member("a", *keys), member("b", OLD)]
        assert mesh_keys.judge(change, late, CLUSTER) == KeyProgress(change, ("b",))
        done = [member("a", *keys), member("b", *keys)]
        found = mesh_keys.judge(change, done, CLUSTER)
        assert (found.change, found.lacking) == (at(after), ())  # type: ignore[arg-type]


def test_who_is_failed_or_no_part_of_the_cluster_is_not_waited_for() -> None:
    change = at("remove")
    others = [member("b", OLD, state="failed"), member("stolen", OLD)]
    assert mesh_keys.judge(change, [member("a", NEW), *others], CLUSTER).lacking == ()


def test_it_ends_once_no_stranger_is_left() -> None:
    change, here = at("forget"), member("a", NEW)
    alive = mesh_keys.judge(change, [here, member("stolen", OLD)], CLUSTER)
    assert alive == KeyProgress(change)
    failed = mesh_keys.judge(change, [here, member("stolen", OLD, state="failed")], CLUSTER)
    assert failed == KeyProgress(change, (), ("stolen",))
    left = mesh_keys.judge(change, [here, member("stolen", OLD, state="left")], CLUSTER)
    assert left == KeyProgress(None)
    own = mesh_keys.judge(change, [here, member("b", NEW, state="failed")], CLUSTER)
    assert own == KeyProgress(None), "a failed host of the cluster is not forgotten"


def test_no_text_shows_a_key() -> None:
    assert OLD not in repr(CHANGE) and NEW not in repr(CHANGE)


# --- on the first host ----------------------------------------------------------------------------


@pytest.fixture
def where(tmp_path: Path) -> Iterator[StateFolder]:
    made = state_folder.locate(tmp_path / "state")
    broker_address.init(made, "127.0.0.2", None, "first")
    gossip_files.make(made)
    row = JoinedNode(identity.of_raw(b"b" * 32).public, identity.of_raw(b"t" * 32).public, 1)
    joins.save(made.joins, joins.with_node(joins.load(made.joins), "second", row))
    yield made


def mesh(monkeypatch: pytest.MonkeyPatch, *rows: MeshMember) -> list[str]:
    """Have the Serf agent list these; return whom it is told to forget."""
    forgotten: list[str] = []

    async def listed(where: StateFolder) -> list[MeshMember]:
        return list(rows)

    async def forget(where: StateFolder, name: str) -> None:
        forgotten.append(name)

    monkeypatch.setattr(member_list, "listed", listed)
    monkeypatch.setattr(member_list, "forget", forget)
    return forgotten


async def test_a_change_goes_through_its_steps_on_disk(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await mesh_keys.advance(where) == KeyProgress(None)
    (old,) = gossip_files.load(where).keys
    mesh_keys.begin(where, "on request")
    change = mesh_keys.pending(where)
    assert change is not None and change.former == (old,)
    assert mesh_keys.file(where).stat().st_mode & 0o077 == 0
    forgotten = mesh(monkeypatch)
    for keys in ((old, change.new), (change.new, old), (change.new,)):
        await mesh_keys.advance(where)  # the host's own keys come first
        assert gossip_files.load(where).keys == keys
        mesh(monkeypatch, member("first", *keys), member("second", old))
        assert (await mesh_keys.advance(where)).lacking == ("second",)
        mesh(monkeypatch, member("first", *keys), member("second", *keys))
        assert (await mesh_keys.advance(where)).lacking == ()
    forgotten = mesh(monkeypatch, member("gone", state="failed"))
    await mesh_keys.advance(where)
    assert forgotten == ["gone"]
    mesh(monkeypatch, member("gone", state="left"))
    assert await mesh_keys.advance(where) == KeyProgress(None)
    assert mesh_keys.pending(where) is None
    assert gossip_files.load(where).keys == (change.new,)


def test_a_host_whose_key_is_revoked_gets_no_new_one(where: StateFolder) -> None:
    cluster = state_folder.load(where)
    assert mesh_keys.hosts(where, cluster) == {"first", "second"}
    public = joins.load(where.joins).nodes["second"].public_key
    key_revocation.revoke(where, Holder("node", "second", public), "stolen", 1)
    assert mesh_keys.hosts(where, cluster) == {"first"}
    change = mesh_keys.pending(where)
    assert change is not None and change.why == "second was revoked"


def test_who_is_taken_out_meanwhile_does_not_have_the_last_key(where: StateFolder) -> None:
    """Changes that follow each other have different keys, and never more than members may have."""
    new = set()
    for number in range(KEYS_MAX + 2):
        mesh_keys.begin(where, str(number))
        change = mesh_keys.pending(where)
        assert change is not None and len(change.keys) <= KEYS_MAX
        gossip_files.store(where, gossip_access.GossipAccess(change.keys))
        new.add(change.new)
    assert len(new) == KEYS_MAX + 2


def test_without_a_mesh_nothing_begins(where: StateFolder) -> None:
    gossip_files.file(where).unlink()
    mesh_keys.begin(where, "on request")
    assert mesh_keys.pending(where) is None


def test_failed_members_are_named_unless_told_otherwise(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [member("first"), member("second", state="failed"), member("else", state="failed")]
    with pytest.raises(Refused, match="no node runs here"):
        mesh_keys.request(where, rows, despite_failed=True)
    monkeypatch.setattr(lock, "holder", lambda where: os.getpid())
    with pytest.raises(Refused, match=r"lack the new key: second\."):
        mesh_keys.request(where, rows, despite_failed=False)
    assert mesh_keys.pending(where) is None
    mesh_keys.request(where, rows, despite_failed=True)
    assert mesh_keys.pending(where) is not None


def test_the_list_of_keys_has_the_digest_of_the_mesh_and_no_secret(where: StateFolder) -> None:
    (key,) = gossip_files.load(where).keys
    rows = [row for row in key_list.listed(where, {}) if row.kind == "gossip"]
    assert [(row.name, row.key) for row in rows] == [("mesh", gossip_access.digest(key))]
