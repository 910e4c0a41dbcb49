# SPDX-License-Identifier: Apache-2.0
"""The scheduler reads its host's table of servers again when that changes."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from stoker.mesh.log.genesis import RosterMember, member_number
from stoker.mesh.server.scheduler_options import ClusterRecord, ServerName
from stoker.mesh.server.server_table import ServerTable

KEYS = {name: f"U{name.upper()}AAAAAAAAA" for name in ("first", "second", "third")}


def write(folder: Path, *names: str) -> ClusterRecord:
    servers = tuple(ServerName(name, KEYS[name]) for name in names)
    record = ClusterRecord("cluster", "first", KEYS["first"], 4222, servers)
    beside = folder / "beside"
    beside.write_bytes(msgspec.json.encode(record))
    beside.rename(folder / "cluster.json")
    return record


def members(*names: str) -> tuple[RosterMember, ...]:
    return tuple(RosterMember(member_number(KEYS[name]), KEYS[name]) for name in names)


def test_a_server_that_joins_is_known_once_the_file_names_it(tmp_path: Path) -> None:
    table = ServerTable(tmp_path, write(tmp_path, "first", "second"))
    assert table.changed() and not table.changed()
    assert table.members == members("first", "second")
    before = (tmp_path / "cluster.json").stat()
    write(tmp_path, "first", "second", "third")
    os.utime(tmp_path / "cluster.json", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert table.changed() and table.members == members("first", "second", "third")
    assert table.record.homes[member_number(KEYS["third"])] == "third"


def test_a_file_that_cannot_be_read_leaves_what_was_known(tmp_path: Path) -> None:
    table = ServerTable(tmp_path, write(tmp_path, "first", "second"))
    (tmp_path / "cluster.json").write_bytes(b"{")
    assert not table.changed() and table.members == members("first", "second")
    (tmp_path / "cluster.json").unlink()
    assert not table.changed() and table.members == members("first", "second")
    write(tmp_path, "first")
    assert table.changed() and table.members == members("first")
