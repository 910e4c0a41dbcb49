# SPDX-License-Identifier: Apache-2.0
"""A server's export is private and whole; a host is made of it only if nobody can vote twice."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stoker.agent.join import foundation, host_replacement, server_export
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_address
from stoker.mesh.identity import sealed_file
from stoker.mesh.log import log_record
from stoker.native.errors import BadRequest, Corrupt, Refused
from tests.agent.join.test_foundation import HERE, Founders

ALL = {"first", "second", "third"}


@pytest.fixture
def founders(tmp_path: Path) -> Founders:
    """The folders of a cluster of three servers that is founded."""
    made = Founders(tmp_path)
    for number, name in enumerate(("second", "third"), 4):
        made.join(name, number)
    assert made.registrar.found_if_due()
    for host in made.joined:
        foundation.take(host.where, state_folder.load(host.where), made.tables())
    return made


def answering(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    async def found(made: StateFolder, cluster: ClusterFile) -> set[str]:
        return set(names)

    monkeypatch.setattr(host_replacement, "_answering", found)


def test_another_folder_becomes_the_server_and_has_forgotten_the_log(
    founders: Founders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = founders.joined[1].where
    (third.scheduler / "held").write_bytes(b"what it has acknowledged")
    server_export.write(third, tmp_path / "file")
    answering(monkeypatch, "first", "second")
    there = state_folder.locate(tmp_path / "there")
    made = host_replacement.replace(there, server_export.read(tmp_path / "file"))
    assert made == state_folder.load(there) == state_folder.load(third)
    for path in third.keys.iterdir():
        assert (there.keys / path.name).read_bytes() == path.read_bytes()
        assert (there.keys / path.name).stat().st_mode & 0o777 == 0o600
    assert list(there.scheduler.iterdir()) == [] and log_record.read(there.scheduler) is None
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (ALL, "server third answers: its host is not lost"),
        ({"first"}, "first of the 2 other servers answers, and 2 must"),
        (set(), "none of the 2 other servers answers"),
    ],
)
def test_a_host_that_could_vote_twice_or_learn_too_little_is_not_made(
    founders: Founders,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: set[str],
    says: str,
) -> None:
    server_export.write(founders.joined[1].where, tmp_path / "file")
    answering(monkeypatch, *names)
    there = state_folder.locate(tmp_path / "there")
    with pytest.raises(Refused, match=says):
        host_replacement.replace(there, server_export.read(tmp_path / "file"))
    assert not there.root.exists()
    assert not list(tmp_path.glob(".new-*")), "a refusal leaves nothing"


def test_one_of_four_learns_from_all_three_others(founders: Founders) -> None:
    """A majority of four has three, so two that were told something may be two who are away."""
    cluster = state_folder.load(founders.where)
    third = msgspec.structs.replace(cluster.servers[2], node="fourth")
    four = msgspec.structs.replace(cluster, servers=(*cluster.servers, third))
    with pytest.raises(Refused, match="second and third of the 3 other servers answer, and 3"):
        host_replacement.check_others(four, {"second", "third"})
    host_replacement.check_others(four, {"second", "third", "fourth"})


def test_servers_that_nobody_runs_do_not_answer(founders: Founders, tmp_path: Path) -> None:
    server_export.write(founders.joined[1].where, tmp_path / "file")
    with pytest.raises(Refused, match="none of the 2 other servers answers") as refused:
        host_replacement.replace(
            state_folder.locate(tmp_path / "there"), server_export.read(tmp_path / "file")
        )
    assert "backup --survivor` on one that is left" in refused.value.hint


def test_a_file_that_is_there_is_kept(founders: Founders, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(Refused, match="exists already"):
        server_export.write(founders.where, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_node_without_servers_beside_it_has_nothing_to_export(tmp_path: Path) -> None:
    where = state_folder.locate(tmp_path / "alone")
    broker_address.init(where, HERE, None, "alone")
    with pytest.raises(Refused, match="is no server beside others"):
        server_export.write(where, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_cluster_that_is_not_founded_has_no_servers_yet(tmp_path: Path) -> None:
    where = state_folder.locate(tmp_path / "first")
    broker_address.init(where, HERE, None, "first", 3)
    with pytest.raises(Refused, match="is not founded"):
        server_export.write(where, tmp_path / "file")


def test_a_damaged_or_foreign_file_makes_nothing(founders: Founders, tmp_path: Path) -> None:
    path = tmp_path / "file"
    made = server_export.write(founders.where, path)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(Corrupt, match="is damaged"):
        server_export.read(path)
    path.write_bytes(b"something else")
    with pytest.raises(BadRequest, match="was not made by"):
        server_export.read(path)
    for name in ("../evil", "keys/../../evil", "/etc/evil", "keys/", "keys/.x", "nats/x"):
        foreign = server_export.ServerExport(made.node, made.made_s, {name: b""})
        path.write_bytes(sealed_file.encode(server_export.KIND, foreign))
        with pytest.raises(BadRequest, match="which no server has"):
            server_export.read(path)
