# SPDX-License-Identifier: Apache-2.0
"""A verb of an owner means the node that the user's other commands reach."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from stoker.agent.state import state_folder
from stoker.agent.supervise import other_nodes, target_node
from stoker.agent.supervise.other_nodes import OtherNode
from stoker.agent.supervise.target_node import ForeignNode
from stoker.mesh.connection.context import SavedContext
from stoker.native.errors import Corrupt, Denied, NotFound, Refused

URL = "tls://127.0.0.1:20007"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's home without a context."""
    monkeypatch.delenv("STOKER_STATE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config/stoker").mkdir(parents=True)
    return tmp_path


def save(home: Path, root: str) -> None:
    state_folder.write_json(
        home / "config/stoker/context.json", SavedContext(URL, "seed", "me", root)
    )


def foreign_folder(home: Path) -> Path:
    """Return a folder of another user; `/proc/1` belongs to root."""
    if os.geteuid() != 0:
        return Path("/proc/1")
    folder = home / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, 61001, 61001)
    return folder


def test_without_a_context_it_is_the_default(home: Path) -> None:
    assert target_node.node(None) == state_folder.locate(None)
    assert target_node.node(str(home / "x")) == state_folder.locate(home / "x")


def test_a_context_of_an_own_node_names_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "mine").mkdir()
    save(home, str(home / "mine"))
    mine = state_folder.locate(home / "mine")
    assert (
        target_node.node(None)
        == target_node.own(None, "down")
        == target_node.to_start(None, beside=False)
        == mine
    )
    assert target_node.call(mine, "down") == "stoker down"
    monkeypatch.setenv("STOKER_STATE", str(home / "named"))
    assert target_node.own(None, "down") == state_folder.locate(home / "named")
    assert target_node.call(mine, "down") == f"stoker down --state {mine.root}"


def test_a_context_of_somebody_elses_node_is_named_as_theirs(home: Path) -> None:
    root = foreign_folder(home)
    save(home, str(root))
    found = target_node.node(None)
    assert isinstance(found, ForeignNode)
    assert (
        found.text == f"the node of {state_folder.user_name(root.stat().st_uid)} in {root} ({URL})"
    )
    for verb in ("down", "power", "user"):
        with pytest.raises(Denied, match=rf"`stoker {verb}` is for a node's owner.*{root}"):
            target_node.own(None, verb)
    with pytest.raises(Refused, match=r"there is nothing to start.*stoker up --beside"):
        target_node.to_start(None, beside=False)
    own = target_node.to_start(None, beside=True)
    assert own == state_folder.locate(None)
    assert not target_node.is_usual(own), "a plain command goes on reaching the other one"
    assert target_node.call(own, "down") == f"stoker down --state {own.root}"


@pytest.mark.parametrize("root", ["", "/nowhere/at/all"])
def test_a_context_without_a_folder_here_is_still_the_one_meant(home: Path, root: str) -> None:
    save(home, root)
    with pytest.raises(Denied, match=rf"the node of somebody else.*{URL}"):
        target_node.own(None, "down")


def test_a_user_without_a_node_is_shown_the_one_that_runs_here(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = state_folder.locate(home / "none")
    monkeypatch.setattr(other_nodes, "running", lambda but: [])
    with pytest.raises(NotFound, match=rf"there is no node in {mine.root}\. stoker up"):
        target_node.require(mine)
    other = OtherNode(0, URL, "/srv/a")
    monkeypatch.setattr(other_nodes, "running", lambda but: [other])
    with pytest.raises(
        NotFound, match=rf"Here runs {re.escape(other.text)}: {re.escape(other.way)}"
    ) as caught:
        target_node.require(mine)
    assert "stoker up" not in str(caught.value)


def test_a_context_that_cannot_be_read_is_refused_by_name(home: Path) -> None:
    (home / "config/stoker/context.json").write_bytes(b"{")
    with pytest.raises(Corrupt, match=r"context\.json"):
        target_node.node(None)
    assert not target_node.is_usual(state_folder.locate(home / "x")), (
        "a node that was named is up all the same"
    )
