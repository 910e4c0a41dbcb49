# SPDX-License-Identifier: Apache-2.0
"""The verbs about the gossip mesh tell rows, steps, and who lacks a key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stoker.agent.commands import gossip_commands
from stoker.agent.commands.cluster_commands import cluster_rotate_command
from stoker.agent.commands.gossip_commands import cluster_members_command
from stoker.agent.join import mesh_keys
from stoker.agent.join.mesh_keys import KeyChange
from stoker.agent.link import member_list
from stoker.agent.link.member_list import MeshMember
from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.gossip import gossip_access
from stoker.mesh.gossip.gossip_access import GossipAccess
from stoker.native.errors import Unavailable

ROW = MeshMember("a", "10.0.0.1", "alive", 0.001, None, ("k1",))


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    made.keys.mkdir(parents=True)
    gossip_files.store(made, GossipAccess((gossip_access.new_key(),)))
    listing(monkeypatch, ROW)
    monkeypatch.setattr(mesh_keys, "request", lambda *_, **__: None)
    monkeypatch.setattr(mesh_keys, "hosts", lambda *_: {"a"})
    monkeypatch.setattr(state_folder, "load", lambda where: ClusterFile("c", "a", ""))
    return made


def listing(monkeypatch: pytest.MonkeyPatch, *rows: MeshMember) -> None:
    async def listed(where: StateFolder) -> list[MeshMember]:
        return list(rows)

    monkeypatch.setattr(member_list, "listed", listed)


def test_members_are_rows_in_each_form(where: StateFolder) -> None:
    def said(form: str) -> str:
        done = CliRunner().invoke(cluster_members_command, ["--state", str(where.root), "-o", form])
        assert done.exit_code == 0, done.output
        return done.stdout

    (row,) = json.loads(said("json"))["members"]
    assert row == {
        "name": "a",
        "address": "10.0.0.1",
        "state": "alive",
        "rtt_s": 0.001,
        "since_ns": None,
        "keys": ["k1"],
    }
    assert said("name") == "a\n"
    assert "KEYS" in said("wide") and "KEYS" not in said("table")


def test_each_step_is_told_once(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ["install", "install", "use", "remove", "remove"]
    changes = [KeyChange(("o",), "n", "", step) for step in steps]  # type: ignore[arg-type]
    monkeypatch.setattr(mesh_keys, "pending", lambda where: changes.pop(0) if changes else None)
    monkeypatch.setattr(gossip_commands, "LOOK_S", 0.0)
    gossip_commands.replace_keys(where, despite_failed=False)
    assert capsys.readouterr().out.splitlines() == list(gossip_commands._DONE.values())


def test_who_lacks_the_key_is_named_when_it_takes_too_long(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mesh_keys, "pending", lambda where: KeyChange(("o",), "n", ""))
    monkeypatch.setattr(gossip_commands, "FOLLOW_S", 0.0)
    with pytest.raises(Unavailable, match="these lack the keys: a"):
        gossip_commands.replace_keys(where, despite_failed=False)


def test_an_option_of_the_mesh_alone_is_refused() -> None:
    done = CliRunner().invoke(cluster_rotate_command, ["--despite-failed"])
    assert done.exit_code == 2 and "goes with --gossip" in done.output
