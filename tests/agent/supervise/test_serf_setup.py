# SPDX-License-Identifier: Apache-2.0
"""The files of a Serf agent before its start."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import serf_setup
from stoker.mesh.gossip.gossip_access import GossipAccess, new_key
from stoker.native.errors import NotFound, Refused

BROKERS = ("tls://127.0.0.3:4222", "tls://127.0.0.4:4222")
CLUSTER = ClusterFile("c", "a", "", brokers=BROKERS, address="127.0.0.2", joined=True)


@pytest.fixture
def where(tmp_path: Path) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    made.keys.mkdir(parents=True)
    return made


def test_each_start_has_the_keys_of_the_host_and_another_rpc_key(where: StateFolder) -> None:
    access = GossipAccess((new_key(), new_key()), 7000)
    gossip_files.store(where, access)
    serf_setup.prepare(where, CLUSTER)
    folder = gossip_files.folder(where)
    assert json.loads((folder / "keyring.json").read_bytes()) == list(access.keys)
    made = json.loads(gossip_files.config_file(where).read_bytes())
    assert (made["node_name"], made["bind"]) == ("a", "127.0.0.2:7946")
    assert made["retry_join"] == ["127.0.0.3:7000", "127.0.0.4:7000"]
    assert made["tags"] == {"keys": access.digests}
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path
    first = gossip_files.rpc(where)
    serf_setup.prepare(where, CLUSTER)
    assert gossip_files.rpc(where).key != first.key


def test_a_host_never_joins_itself(where: StateFolder) -> None:
    own = ClusterFile("c", "a", "", brokers=BROKERS, address="127.0.0.3", joined=True)
    assert serf_setup.seeds(own, GossipAccess((new_key(),))) == ("127.0.0.4:7946",)


def test_what_stands_in_the_way_is_named(where: StateFolder) -> None:
    with pytest.raises(NotFound, match="no gossip key"):
        serf_setup.prepare(where, CLUSTER)
    gossip_files.make(where)
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        (where.root / "config.toml").write_text(f"[gossip]\nport = {port}\n")
        with pytest.raises(Refused, match=f"port {port} is in use"):
            serf_setup.prepare(where, CLUSTER)
