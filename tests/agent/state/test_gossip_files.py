# SPDX-License-Identifier: Apache-2.0
"""The mesh's files on a host: why it takes no part, and what of damage is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.gossip_files import GossipConfig
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.gossip import gossip_access
from stoker.mesh.gossip.gossip_access import GossipAccess
from stoker.native.errors import BadRequest, Corrupt, NotFound

CLUSTER = ClusterFile("c", "a", "", address="10.0.0.1")


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    made.keys.mkdir(parents=True)
    return made


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path, *, serf: bool) -> None:
    folder.mkdir(exist_ok=True)
    if serf:
        (folder / "serf").write_text("#!/bin/sh\n")
        (folder / "serf").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_each_absence_has_its_reason(
    where: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def why(cluster: ClusterFile = CLUSTER) -> str:
        return gossip_files.absence(where, cluster)

    assert "no address" in why(ClusterFile("c", "a", ""))
    waiting = ClusterFile("c", "a", "", address="10.0.0.1", wanted=3)
    assert "waits for its servers" in why(waiting)
    on_path(monkeypatch, tmp_path / "without", serf=False)
    assert "not installed" in why() and why() == gossip_files.lack(where)
    on_path(monkeypatch, tmp_path / "with", serf=True)
    assert "no gossip key" in why()
    gossip_files.make(where)
    assert why() == ""
    (where.root / "config.toml").write_text("[gossip]\nenabled = false\n")
    assert "turned off" in why() and gossip_files.lack(where) == ""


def test_a_key_is_made_once_and_is_private(where: StateFolder) -> None:
    (where.root / "config.toml").write_text("[gossip]\nport = 7000\n")
    with pytest.raises(NotFound, match="no gossip key"):
        gossip_files.load(where)
    gossip_files.make(where)
    made = gossip_files.load(where)
    assert (len(made.keys), made.port) == (1, 7000)
    gossip_files.make(where)
    assert gossip_files.load(where) == made
    assert gossip_files.file(where).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text", ["[gossip]\nport = 0\n", "[gossip]\nprot = 1\n", "[gossip\n", "gossip = 1\n"]
)
def test_a_wrong_table_is_refused_with_its_file(where: StateFolder, text: str) -> None:
    (where.root / "config.toml").write_text(text)
    with pytest.raises(BadRequest, match=r"config\.toml"):
        gossip_files.read_config(where)


def test_without_a_table_the_mesh_has_its_defaults(where: StateFolder) -> None:
    assert gossip_files.read_config(where) == GossipConfig(True, gossip_access.PORT)


def test_damage_is_refused_by_name(where: StateFolder) -> None:
    gossip_files.store(where, GossipAccess(("short",)))
    with pytest.raises(Corrupt, match=r"gossip\.json"):
        gossip_files.load(where)
    with pytest.raises(NotFound, match="has not been started"):
        gossip_files.rpc(where)
    gossip_files.folder(where).mkdir()
    gossip_files.config_file(where).write_text("{}")
    with pytest.raises(Corrupt, match=r"serf\.json"):
        gossip_files.rpc(where)
