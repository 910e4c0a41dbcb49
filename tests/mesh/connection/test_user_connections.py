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
from tests.mesh.nats_server import Server
from tests.mesh.node import Node


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
    await asyncio.wait_for(flooding, 20)
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
