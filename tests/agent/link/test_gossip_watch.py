# SPDX-License-Identifier: Apache-2.0
"""The agent's view of the mesh: what it says of members, and how it comes by other keys."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes.fake_serf import FakeSerf, body, fake_serf, header

from stoker.agent.link import gossip_watch, member_list
from stoker.agent.link.gossip_watch import GossipWatch
from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.gossip import gossip_access, serf_config
from stoker.mesh.gossip.gossip_access import GossipAccess
from stoker.mesh.gossip.serf_config import SerfSettings
from stoker.mesh.identity import identity
from stoker.mesh.server import notify
from stoker.mesh.wire import join_messages, subjects
from stoker.mesh.wire.join_messages import JoinReply
from stoker.native.errors import Unavailable

GUARD_S = 60.0
CLUSTER = ClusterFile("c", "a", "", address="127.0.0.2", joined=True)


class Link:
    """The agent's connection, at whose other end a registrar gives these keys."""

    def __init__(self) -> None:
        self.access: GossipAccess | None = None
        self.asked: list[str] = []

    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        self.asked.append(subject)
        if self.access is None:
            raise Unavailable("the registrar is away")
        request = join_messages.open_request(data)
        sealed = gossip_access.seal(self.access, request.agent)
        reply = JoinReply(join_messages.FORMAT, request.nonce, "a", gossip=sealed)
        return join_messages.encode(reply)


class Host:
    """One host with a fake Serf agent, and the watch of its agent."""

    def __init__(self, where: StateFolder, serf: FakeSerf) -> None:
        self.where, self.serf, self.link = where, serf, Link()
        self.own = GossipAccess((gossip_access.new_key(),))
        gossip_files.store(where, self.own)
        identity.load_or_create(where.key("agent"))
        gossip_files.folder(where).mkdir()
        settings = SerfSettings("a", "127.0.0.2", 7946, serf.port, "k", "/k", "/s", "d")
        gossip_files.config_file(where).write_bytes(serf_config.render(settings))
        self.mesh()
        self.watch = self.agent()

    def agent(self) -> GossipWatch:
        """Return the watch of another agent of this host."""
        setting = SimpleNamespace(state=self.where, cluster=CLUSTER, node="a")
        return GossipWatch(cast(Any, setting), cast(Any, self.link))

    def mesh(self, other: str = "alive", keys: str = "") -> None:
        """Have these members: this host, and `b`."""
        digests = self.own.digests
        own = {"Name": "a", "Tags": {"keys": digests}}
        self.serf.members(own, {"Name": "b", "Status": other, "Tags": {"keys": keys or digests}})


@pytest.fixture
async def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    where = state_folder.locate(tmp_path / "state")
    where.keys.mkdir(parents=True)
    monkeypatch.setattr(gossip_files, "program", lambda: "/usr/bin/serf")
    monkeypatch.setattr(gossip_watch, "LOOK_S", 0.01)
    monkeypatch.setattr(gossip_watch, "AGAIN_S", 0.01)
    async with fake_serf() as serf, asyncio.timeout(GUARD_S):
        made = Host(where, serf)
        running = asyncio.ensure_future(made.watch.run())
        await until(lambda: not made.watch.members.absent)
        yield made
        running.cancel()


def written(host: Host) -> dict[str, str]:
    """Return the states that the agent wrote down."""
    return {name: each.state for name, each in member_list.read_seen(host.where).items()}


async def until(true: Callable[[], bool]) -> None:
    while True:
        if true():
            return
        await asyncio.sleep(0.005)


async def test_a_state_is_what_the_serf_agent_says_at_that_moment(host: Host) -> None:
    assert await host.watch.state("b") == "alive"
    host.mesh("failed")  # no event told of it
    assert await host.watch.state("b") == "failed"
    for nobody in ("c", "", "b.*", "(a+)+"):
        assert await host.watch.state(nobody) == ""


async def test_a_serf_agent_that_is_stopped_or_gone_says_nothing(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.mesh("failed")
    monkeypatch.setattr(gossip_watch, "STATE_S", 0.01)
    answers, host.serf.answers = host.serf.answers, {"members-filtered": lambda seq, asked: b""}
    assert await host.watch.state("b") == ""
    assert host.watch.counters["gossip_silent"] == 1
    host.serf.answers = {"auth": lambda seq, asked: header(seq, "no")}
    host.serf.cut()
    await until(lambda: bool(host.watch.members.absent))
    assert await host.watch.state("b") == ""
    host.serf.answers = answers
    await until(lambda: not host.watch.members.absent)
    assert await host.watch.state("b") == "failed"


async def test_events_change_the_table_and_are_written_down(host: Host) -> None:
    failed = {"Name": "b", "Addr": None, "Port": 1, "Status": "failed"}
    event = {"Event": "member-failed", "Members": [failed]}
    stream = 3  # after the handshake and the key
    assert [command for command, _ in host.serf.calls][stream - 1] == "stream"
    host.serf.send(header(stream) + body(event))
    await until(lambda: host.watch.members.state("b") == "failed")
    assert host.watch.counters["gossip_failed"] == 1
    await until(lambda: written(host).get("b") == "failed")
    assert written(host)["a"] == "alive"
    since_s = host.watch.members.rows["b"].since_s
    host.mesh("failed")
    again = host.agent()
    running = asyncio.ensure_future(again.run())
    await until(lambda: not again.members.absent)
    assert again.members.rows["b"].since_s == since_s, "the time outlives the agent"
    running.cancel()


async def test_keys_of_others_are_fetched_and_the_serf_agent_is_started_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(notify, "status", said.append)
    monkeypatch.setattr(gossip_watch, "READ_AGAIN_S", 0.0)
    monkeypatch.setattr(gossip_watch, "FETCH_AGAIN_S", 0.0)
    newer = GossipAccess((host.own.keys[0], gossip_access.new_key()))
    host.mesh(keys=newer.digests)
    await until(lambda: len(host.link.asked) > 1)
    assert set(host.link.asked) == {subjects.rotation("a")}
    assert gossip_files.load(host.where) == host.own, "the registrar is away"
    host.link.access = newer
    await until(lambda: gossip_files.load(host.where) == newer)
    await until(lambda: bool(said))
    assert said[0].startswith("serf-restart: ") and newer.keys[0] not in said[0]
    assert host.watch.counters["gossip_keys_taken"] == 1


async def test_equal_keys_are_not_fetched(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = asyncio.Event()
    monkeypatch.setattr(gossip_files, "load", lambda where: looked.set() or host.own)
    os.utime(gossip_files.file(host.where))  # it is read again only when it is another
    await looked.wait()
    assert host.link.asked == []
