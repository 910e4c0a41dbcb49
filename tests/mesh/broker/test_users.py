# SPDX-License-Identifier: Apache-2.0
"""The table of users: the owners of jobs, among whom root is never by accident."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from stoker.mesh.broker import users
from stoker.mesh.broker.users import User
from stoker.mesh.identity import identity
from stoker.native.errors import BadRequest, Corrupt, Denied, NotFound
from stoker.scheduler.nouns import Owner


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("k")
    return [identity.create(folder / str(n)).public for n in range(3)]


def test_the_table_comes_back_private(tmp_path: Path, keys: list[str]) -> None:
    table = {
        "alice": User(public_key=keys[0], uid=1000, gid=1000, groups=(27,)),
        "admin": User(public_key=keys[1], admin=True),
    }
    path = tmp_path / "users.json"
    users.save(path, table)
    assert users.load(path) == table
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_owners(keys: list[str]) -> None:
    explicit = User(public_key=keys[0], uid=1234, gid=99, groups=(5,))
    assert users.owner("alice", explicit) == Owner("alice", 1234, 99, (5,))
    me = pwd.getpwuid(os.getuid())
    looked_up = users.owner("m", User(public_key=keys[0], unix_user=me.pw_name))
    assert (looked_up.uid, looked_up.gid) == (me.pw_uid, me.pw_gid)
    assert me.pw_gid in looked_up.groups


def test_nobody_runs_as_root_without_being_mapped(keys: list[str]) -> None:
    with pytest.raises(Denied, match="no Unix identity"):
        users.owner("admin", User(public_key=keys[0], admin=True))
    with pytest.raises(Denied, match="does not know"):
        users.owner("x", User(public_key=keys[0], unix_user="no-such-user"))


def test_wrong_tables_are_refused(tmp_path: Path, keys: list[str]) -> None:
    wrong: list[dict[str, User]] = [
        {"a": User(public_key="nonsense", uid=1, gid=1)},
        {"a": User(public_key=keys[0]), "b": User(public_key=keys[0])},
        {"a": User(public_key=keys[0], uid=1)},
        {"a": User(public_key=keys[0], uid=-1, gid=1)},
        {"a": User(public_key=keys[0], uid=2**32 - 1, gid=1)},
        {"a": User(public_key=keys[0], uid=1, gid=1, unix_user="root")},
        {"": User(public_key=keys[0])},
    ]
    for table in wrong:
        with pytest.raises(BadRequest):
            users.save(tmp_path / "users.json", table)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", [b"", b"[]", b'{"a":{}}', b'{"a":{"public_key":"x"}}', b"\xff"])
def test_damaged_tables_are_named(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "users.json"
    path.write_bytes(text)
    with pytest.raises(Corrupt, match=r"users\.json"):
        users.load(path)


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        users.load(tmp_path / "users.json")
