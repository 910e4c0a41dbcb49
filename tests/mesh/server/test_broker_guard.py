# SPDX-License-Identifier: Apache-2.0
"""A flood with a node's key is ended at a real broker, counted and told, and nobody else is."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

from stoker.mesh.broker import kept_out_keys
from stoker.mesh.server import broker_complaints, flood_judge
from stoker.mesh.server.broker_guard import BrokerGuard
from stoker.mesh.server.flood_judge import NS
from stoker.mesh.server.node_door import TELL_NS
from stoker.mesh.wire import subjects
from tests.mesh import lasting
from tests.mesh.nats_server import Server

GUARD_S = 60.0


class Guarded:
    """A broker with its guard, and what that counted."""

    def __init__(self, server: Server, state: Path) -> None:
        self.server, self.counted = server, Counter[str]()
        self.guard = BrokerGuard(state, server.settings.server_name, self._count)

    def _count(self, name: str) -> None:
        self.counted[name] += 1

    async def connect(self, who: str) -> Client:
        return await self.server.connect(who, allow_reconnect=False)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(GUARD_S):
            while not is_so():  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.01)

    async def flood(self, who: str, subject: str) -> None:
        """Publish until the connection is ended."""
        nc = await self.connect(who)
        async with asyncio.timeout(GUARD_S):
            while not nc.is_closed:
                try:
                    for _ in range(500):
                        await nc.publish(subject, b"x" * 100)
                    await nc.flush(1)
                except (nats.errors.Error, OSError, TimeoutError):
                    await asyncio.sleep(0.01)

    async def ask_for(self, who: str, subject: str) -> None:
        """Subscribe to what the key may not hear, until the connection is ended."""
        nc = await self.connect(who)
        async with asyncio.timeout(GUARD_S):
            while not nc.is_closed:
                try:
                    for _ in range(500):
                        await nc.subscribe(subject)
                    await nc.flush(1)
                except (nats.errors.Error, OSError, TimeoutError):
                    await asyncio.sleep(0.01)

    async def is_refused(self, who: str) -> bool:
        """True if the broker takes no connection with this key at all."""
        try:
            nc = await self.connect(who)
        except (nats.errors.Error, OSError):
            return True
        await nc.close()
        return False


@pytest.fixture
async def guarded(server: Server, tmp_path: Path) -> AsyncIterator[Guarded]:
    (tmp_path / "state/log").mkdir(parents=True)
    (tmp_path / "state/log/nats-server.log").symlink_to(tmp_path / "server.log")
    (tmp_path / "state/nats").symlink_to(tmp_path)
    made = Guarded(server, tmp_path / "state")
    connection = made.guard.connection
    await lasting.begin(connection, server, callbacks=made.guard.callbacks)
    guarding = asyncio.ensure_future(made.guard.guard())
    yield made
    guarding.cancel()
    connection.cut()


@pytest.mark.parametrize(
    "subject", [subjects.observation("node1"), subjects.alerts("node1"), "$JS.API.STREAM.NAMES"]
)
async def test_a_flood_on_any_subject_is_cut_and_told(guarded: Guarded, subject: str) -> None:
    other = await guarded.connect("node2")
    await guarded.flood("node1", subject)
    assert guarded.counted["node_connection_cut"] == 1
    assert not other.is_closed
    (told,) = guarded.guard.due(0, 7)
    assert (told.what, told.node, told.t_ns) == ("node.flooded", "node1", 7)
    assert "a connection was cut, and its key is kept out for 3 s" in told.reason
    assert list(guarded.guard.due(TELL_NS, 8)) == []


async def test_who_fills_the_brokers_log_with_refusals_is_cut(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_complaints, "GROWTH_BYTES", 1)
    monkeypatch.setattr(broker_complaints, "READ_BYTES", 1024)
    other = await guarded.connect("node2")
    await guarded.ask_for("node1", subjects.EVERY_OBSERVATION)
    assert guarded.counted["node_connection_cut"] == 1 and not other.is_closed
    (told,) = guarded.guard.due(0, 7)
    assert told.node == "node1" and "of what it may not do in the broker's log" in told.reason


async def test_the_agent_of_a_stolen_key_stays_and_new_connections_are_ended(
    guarded: Guarded,
) -> None:
    agent = await guarded.connect("node1")
    await guarded.flood("node1", subjects.hello("node1"))
    assert not agent.is_closed
    thief = await guarded.connect("node1")
    await guarded.until(lambda: thief.is_closed)
    assert guarded.counted["node_connection_kept_out"] == 1 and not agent.is_closed


async def test_a_key_that_comes_again_and_again_is_shut_out_and_comes_back_by_itself(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flood_judge, "KNOCKS_MAX", 2)
    monkeypatch.setattr(flood_judge, "SHUT_NS", (2 * NS, 2 * NS))
    other, key = await guarded.connect("node2"), guarded.server.keys.agents["node1"]
    await guarded.flood("node1", subjects.hello("node1"))
    async with asyncio.timeout(GUARD_S):
        while not await guarded.is_refused("node1"):
            pass
        assert f"# kept out: {{ nkey: {key}" in guarded.server.config.read_text()
        while await guarded.is_refused("node1"):
            pass
    back = await guarded.connect("node1")
    await back.flush()
    assert not back.is_closed and not other.is_closed
    assert guarded.counted["node_keys_shut_out"] == guarded.counted["node_keys_let_in"] == 1
    assert "# kept out" not in guarded.server.config.read_text()


async def test_a_guard_that_begins_lets_in_what_an_earlier_one_shut_out(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/nats").symlink_to(tmp_path)
    kept_out_keys.write(tmp_path / "state", {server.keys.agents["node1"]})
    server.hangup()
    made = Guarded(server, tmp_path / "state")
    async with asyncio.timeout(GUARD_S):
        while not await made.is_refused("node1"):
            pass
        await lasting.begin(made.guard.connection, server, callbacks=made.guard.callbacks)
        guarding = asyncio.ensure_future(made.guard.guard())
        while await made.is_refused("node1"):
            pass
    guarding.cancel()
    made.guard.connection.cut()
