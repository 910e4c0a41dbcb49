# SPDX-License-Identifier: Apache-2.0
"""The members for people: what is known, and a dash for what is not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fakes.fake_serf import body, fake_serf, header

from stoker.agent.link import member_list
from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.gossip import serf_config
from stoker.mesh.gossip.gossip_access import GossipAccess, new_key
from stoker.mesh.gossip.membership import KnownMember
from stoker.mesh.gossip.serf_config import SerfSettings
from stoker.native.errors import Unavailable

CLUSTER = ClusterFile("c", "a", "", address="127.0.0.2", joined=True)


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StateFolder:
    made = state_folder.locate(tmp_path / "state")
    made.keys.mkdir(parents=True)
    gossip_files.folder(made).mkdir()
    gossip_files.store(made, GossipAccess((new_key(),)))
    monkeypatch.setattr(gossip_files, "program", lambda: "/usr/bin/serf")
    monkeypatch.setattr(state_folder, "load", lambda where: CLUSTER)
    return made


def rpc_at(where: StateFolder, port: int) -> None:
    settings = SerfSettings("a", "127.0.0.2", 7946, port, "k", "/k", "/s", "d")
    gossip_files.config_file(where).write_bytes(serf_config.render(settings))


async def test_failed_ones_come_first_with_distance_and_time(where: StateFolder) -> None:
    def coordinate(seq: int, asked: dict[str, str]) -> bytes:
        error = {"a": 0.1, "b": 0.2, "c": 1.5}[asked["Node"]]
        vec = {"a": [0.0], "b": [0.003], "c": [1.0]}[asked["Node"]]
        coord = {"Vec": vec, "Error": error, "Adjustment": 0.0, "Height": 0.001}
        return header(seq) + body({"Coord": coord, "Ok": True})

    member_list.write_seen(
        where,
        {
            "b": KnownMember("b", "", "alive", 2.0),
            "c": KnownMember("c", "", "alive", 3.0),
        },
    )
    async with fake_serf() as serf, asyncio.timeout(60):
        rpc_at(where, serf.port)
        serf.members({"Name": "a", "Tags": {"keys": "k1,k2"}}, {"Name": "b"},
                     {"Name": "c", "Status": "failed"})  # fmt: skip
        serf.answers["get-coordinate"] = coordinate
        rows = await member_list.listed(where)
    assert [(row.name, row.state) for row in rows] == [
        ("c", "failed"),
        ("a", "alive"),
        ("b", "alive"),
    ]
    assert [row.rtt_s for row in rows] == [None, 0.0, 0.005]
    assert [row.since_ns for row in rows] == [None, None, 2_000_000_000]
    assert [row.keys for row in rows] == [(), ("k1", "k2"), ()]
    heads, failed, *_, last = member_list.lines(rows, wide=True)
    assert heads.split() == ["NAME", "ADDRESS", "STATE", "RTT", "SINCE", "KEYS"]
    assert failed.split()[:5] == ["c", "127.0.0.1", "failed", "-", "-"]
    assert "5.00 ms" in last
    assert all("k1" not in line for line in member_list.lines(rows, wide=False))


async def test_without_a_serf_agent_there_is_a_reason(
    where: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_serf() as serf:
        rpc_at(where, serf.port)
    with pytest.raises(Unavailable, match=r"there is no gossip here: .* cannot be reached") as why:
        await member_list.listed(where)
    assert "serf.log" in why.value.hint
    monkeypatch.setattr(gossip_files, "program", lambda: None)
    with pytest.raises(Unavailable, match="serf is not installed"):
        await member_list.listed(where)


def test_what_was_written_down_and_damaged_counts_for_nothing(where: StateFolder) -> None:
    assert member_list.read_seen(where) == {}
    (gossip_files.folder(where) / member_list.SEEN).write_bytes(b"{")
    assert member_list.read_seen(where) == {}
