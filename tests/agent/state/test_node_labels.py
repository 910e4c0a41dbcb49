# SPDX-License-Identifier: Apache-2.0
"""The labels of a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.agent.state import node_labels
from stoker.agent.state.state_folder import StateFolder
from stoker.native.errors import BadRequest, Corrupt


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    (tmp_path / "agent").mkdir()
    return StateFolder(tmp_path, tmp_path / "run")


def test_those_of_the_settings_and_those_of_up_once_each(where: StateFolder) -> None:
    assert node_labels.of_node(("a=b",), where) == ("a=b",)
    node_labels.keep(("c=d", "a=b"), where)
    assert node_labels.of_node(("a=b", "e=f"), where) == ("a=b", "e=f", "c=d")
    node_labels.keep(("",), where)
    assert node_labels.of_node((), where) == ()


def test_what_is_no_label_is_refused_and_nothing_is_changed(where: StateFolder) -> None:
    node_labels.keep(("a=b",), where)
    with pytest.raises(BadRequest, match="KEY=VALUE"):
        node_labels.keep(("nonsense",), where)
    with pytest.raises(BadRequest, match="9 labels"):
        node_labels.keep([f"k{n}=v" for n in range(9)], where)
    assert node_labels.of_node((), where) == ("a=b",)


def test_a_damaged_file_is_named(where: StateFolder) -> None:
    node_labels.file(where).write_text("{")
    with pytest.raises(Corrupt, match=r"labels\.json"):
        node_labels.of_node((), where)
