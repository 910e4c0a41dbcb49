# SPDX-License-Identifier: Apache-2.0
"""A connection for each user: one who sends too much is not served for a while, and no request of
another user is lost or late because of that."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator

import nats.errors
import pytest

from stoker.mesh.broker import users
from stoker.mesh.connection import user_connections
from stoker.mesh.connection.broker_connection import BrokerConnection
from stoker.mesh.connection.broker_session import BrokerSession
from stoker.mesh.connection.heard_subject import BrokerMessage
from stoker.mesh.connection.user_connections import Connect, UserConnection, UserConnections
from tests.mesh import lasting
from tests.mesh.nats_server import Server
from tests.mesh.node import Node

JOBS = "stoker.v1.job.list"


def connecting(server: Server) -> Connect:
    """Return a function that connects a user's connection as the scheduler."""

    async def connect(connection: BrokerConnection, name: str) -> None:
        await lasting.begin(connection, server, name)

    return connect


@pytest.fixture
async def node(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    (server_stopped_with_admin.folder / "config.toml").write_text(
        "[budgets]\nqueued = 4\nrefusals_per_s = 10\n"
    )
    node = Node(server_stopped_with_admin)
    yield await node.start()
    await node.stop()


async def test_a_user_who_sends_too_much_is_not_served_for_a_while(node: Node) -> None:
    nc = await node.server.connect("alice")
    became: Counter[str] = Counter()

    async def one() -> None:
        try:
            message = await nc.request("stoker.v1.job.list", b"{}", timeout=0.2)
            became["busy" if message.data.startswith(b'{"error"') else "answered"] += 1
        except (nats.errors.NoRespondersError, TimeoutError) as error:
            became[type(error).__name__] += 1

    async def flood() -> None:
        while not became["NoRespondersError"]:
            await asyncio.gather(*(one() for _ in range(100)))

    flooding = asyncio.ensure_future(flood())
    for _ in range(20):
        assert (await node.ask("bob", "job", "list")).jobs == ()
    await asyncio.wait_for(flooding, 60)
    assert became["answered"] and became["busy"]
    assert (await node.persist("alice", "job", "list")).jobs == ()
    assert (await node.ask("bob", "job", "submit", argv=("true",))).job == 1


async def test_a_removed_user_is_not_served_any_more(node: Node) -> None:
    assert (await node.ask("alice", "job", "list")).jobs == ()
    left = {name: user for name, user in node.users.items() if name != "alice"}
    users.save(node.folder / "users.json", left)
    nc = await node.server.connect("alice")
    with pytest.raises(nats.errors.NoRespondersError):
        while True:
            with contextlib.suppress(TimeoutError):  # the request was on its way at the close
                await nc.request("stoker.v1.job.list", b"{}", timeout=1)
    assert (await node.ask("bob", "job", "list")).jobs == ()


async def test_who_settles_twice_at_once_hears_each_request_once(server: Server) -> None:
    """A scheduler that begins to lead settles beside the one that looks at the users' table."""
    heard: list[BrokerMessage] = []

    connect = connecting(server)

    async def answer(message: BrokerMessage) -> bool:
        heard.append(message)
        await message.respond(b"served")
        return False

    users = UserConnections(connect, answer, lambda name: None, lambda: True, "s1")
    await asyncio.gather(users.settle(["alice"]), users.settle(["alice"]))
    assert len(users.connections) == 1
    nc = await server.connect("alice")
    for _ in range(3):
        await nc.request("stoker.v1.job.list", b"{}", timeout=60)
    assert len(heard) == 3
    await users.close()


async def test_a_connection_that_does_not_close_is_cut(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_connections, "CLOSE_S", 0.05)

    connect = connecting(server)

    async def answer(message: BrokerMessage) -> bool:
        await message.respond(b"served")
        return False

    served = UserConnection("alice", answer, lambda name: None, lambda: True, "s1")
    await served.open(connect)
    nc = await server.connect("alice")
    assert (await nc.request("stoker.v1.job.list", b"{}", timeout=20)).data == b"served"

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(BrokerSession, "finish", never)
    await served.close()
    with contextlib.suppress(nats.errors.Error):  # the broker may not have heard of the cut yet
        await nc.request("stoker.v1.job.list", b"{}", timeout=60)
    with pytest.raises(nats.errors.NoRespondersError):
        await nc.request("stoker.v1.job.list", b"{}", timeout=60)


async def test_a_connection_that_is_drained_serves_what_came_and_takes_nothing_new(
    server: Server,
) -> None:
    connect = connecting(server)

    came, goes_on = asyncio.Event(), asyncio.Event()

    async def answer(message: BrokerMessage) -> bool:
        came.set()
        await goes_on.wait()
        await message.respond(b"served")
        return False

    users = UserConnections(connect, answer, lambda name: None, lambda: True, "s1")
    await users.settle(["alice"])
    nc = await server.connect("alice")
    sent = [asyncio.ensure_future(nc.request(JOBS, b"{}", timeout=60)) for _ in range(20)]
    await came.wait()
    await nc.flush()
    draining = asyncio.ensure_future(users.drain())
    while True:
        late = asyncio.ensure_future(nc.request(JOBS, b"{}", timeout=60))
        done, _ = await asyncio.wait({late}, timeout=0.5)
        if done:
            break
        sent.append(late)  # the broker had not heard of the end yet
    with pytest.raises(nats.errors.NoRespondersError):
        late.result()
    goes_on.set()
    assert {reply.data for reply in await asyncio.gather(*sent)} == {b"served"}
    await draining
    await users.close()
