# SPDX-License-Identifier: Apache-2.0
"""A broker's configuration keeps nodes' keys out by notes, and lets in only what it had before."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.mesh.broker import kept_out_keys
from tests.mesh.nats_server import NODES, Server


@pytest.fixture
def state(stopped_server: Server, tmp_path: Path) -> Path:
    """A state folder with the broker's configuration."""
    stopped_server.write()
    (tmp_path / "state").mkdir()
    (tmp_path / "state/nats").symlink_to(tmp_path)
    return tmp_path / "state"


def test_a_configuration_names_the_node_of_each_key(stopped_server: Server, state: Path) -> None:
    named = {stopped_server.keys.agents[node]: node for node in NODES}
    text = kept_out_keys.read(state)
    assert kept_out_keys.nodes_of_keys(text) == named
    out = kept_out_keys.noted(text, named.keys())
    assert kept_out_keys.nodes_of_keys(out) == named, "also of those that are kept out"


def test_keys_are_kept_out_and_let_in_again(stopped_server: Server, state: Path) -> None:
    before = kept_out_keys.read(state)
    one, two = (stopped_server.keys.agents[node] for node in NODES[:2])
    assert kept_out_keys.write(state, {one}) and not kept_out_keys.write(state, {one})
    (changed,) = set(kept_out_keys.read(state).splitlines()) - set(before.splitlines())
    assert changed.strip().startswith(f"# kept out: {{ nkey: {one}, ")
    assert kept_out_keys.write(state, {two}) and one in _rows(state) and two not in _rows(state)
    assert kept_out_keys.write(state, set()) and kept_out_keys.read(state) == before


def test_a_key_that_was_taken_back_meanwhile_stays_out(stopped_server: Server, state: Path) -> None:
    """Whoever revokes a key writes the configuration without it, and no note brings it back."""
    key = stopped_server.keys.agents["node1"]
    kept_out_keys.write(state, {key})
    del stopped_server.keys.agents["node1"]
    stopped_server.write()
    assert not kept_out_keys.write(state, set()) and key not in kept_out_keys.read(state)


def test_no_key_but_a_nodes_is_ever_kept_out(stopped_server: Server, state: Path) -> None:
    keys = stopped_server.keys
    assert not kept_out_keys.write(state, {keys.scheduler, *keys.users.values()})


def _rows(state: Path) -> str:
    lines = kept_out_keys.read(state).splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith("#"))
