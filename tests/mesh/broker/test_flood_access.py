# SPDX-License-Identifier: Apache-2.0
"""Schedulers may count and end their broker's connections and hear of new ones; nobody else may."""

from __future__ import annotations

import asyncio
import json

import pytest
from nats.aio.msg import Msg

from stoker.mesh.broker import flood_access
from tests.mesh.nats_server import Server, settle

GUARD_S = 60.0
SERVICES = (flood_access.FIGURES, flood_access.CONNECTIONS, flood_access.CUT, flood_access.RELOAD)


async def test_a_scheduler_finds_its_broker_and_ends_a_connection(server: Server) -> None:
    scheduler = await server.connect("scheduler")
    heard: asyncio.Queue[Msg] = asyncio.Queue()
    await scheduler.subscribe(flood_access.CONNECTED, cb=heard.put)
    await settle(scheduler)
    ended = asyncio.Event()

    async def end() -> None:
        ended.set()

    await server.connect("node1", closed_cb=end, allow_reconnect=False)
    async with asyncio.timeout(GUARD_S):
        client = json.loads((await heard.get()).data)["client"]
        assert client["user"] == server.keys.agents["node1"]
        named = {"server_name": server.settings.server_name, "exact_match": True}
        subject = flood_access.service(flood_access.FIGURES, flood_access.ALL)
        found = await scheduler.request(subject, json.dumps(named).encode(), timeout=GUARD_S)
        broker = json.loads(found.data)["server"]["id"]
        subject = flood_access.service(flood_access.CUT, broker)
        await scheduler.request(subject, b'{"cid": %d}' % client["id"], timeout=GUARD_S)
        await ended.wait()


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("who", ["node1", "alice"])
async def test_nobody_else_may_ask_for_it(server: Server, who: str, name: str) -> None:
    nc = await server.connect(who)
    await nc.publish(flood_access.service(name, flood_access.ALL), b"{}", reply="_INBOX.x")
    async with asyncio.timeout(GUARD_S):
        while not any("publish" in said.lower() for said in server.errors):
            await nc.flush()
            await asyncio.sleep(0.01)
    assert name.lower() in server.errors[-1].lower()


async def test_nobody_else_hears_of_connections(server: Server) -> None:
    nc = await server.connect("node1")
    await nc.subscribe(flood_access.CONNECTED)
    async with asyncio.timeout(GUARD_S):
        while not any("subscription" in said.lower() for said in server.errors):
            await nc.flush()
            await asyncio.sleep(0.01)
