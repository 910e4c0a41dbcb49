# SPDX-License-Identifier: Apache-2.0
"""The agent's connection finds a broker that answers among those it knows."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

from stoker.agent.link.agent_connection import AgentConnection
from stoker.mesh.wire import subjects
from tests.mesh.conftest import keyring, stopped_server  # noqa: F401  # fixtures
from tests.mesh.nats_server import Server
from tests.mesh.several_brokers import joined

NODE = "node1"


@contextlib.asynccontextmanager
async def running(*servers: Server) -> AsyncIterator[tuple[AgentConnection, asyncio.Event]]:
    """A connection that knows these brokers, while it runs."""
    urls = [server.url for server in servers]
    seed, inbox = servers[0].folder / f"{NODE}.nk", subjects.inbox(f"agent.{NODE}")
    connection = AgentConnection(NODE, lambda: urls, seed, inbox, {})
    up = asyncio.Event()
    connection.on_up, connection.on_down = up.set, up.clear
    task = asyncio.create_task(connection.run())
    try:
        yield connection, up
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_it_goes_on_to_the_next_broker(stopped_server: Server) -> None:  # noqa: F811
    first, second = joined(stopped_server, 2)
    second.start()
    try:
        async with running(first, second) as (connection, up):
            await up.wait()
            assert connection.address == second.url
            first.start()
            second.kill()
            while connection.address != first.url or not connection.connected:
                await up.wait()
                await asyncio.sleep(0)
            assert connection.counters["connect_failed"] >= 1
    finally:
        second.stop()


async def test_a_broker_that_says_nothing_costs_one_try(stopped_server: Server) -> None:  # noqa: F811
    first, second = joined(stopped_server, 2)
    first.start()
    second.start()
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    try:
        async with running(first, second) as (connection, up):
            await up.wait()
            assert connection.address == second.url
    finally:
        first.process.send_signal(signal.SIGCONT)
        second.stop()


async def test_a_client_that_is_closed_without_a_word_is_replaced(
    stopped_server: Server,  # noqa: F811
) -> None:
    stopped_server.start()
    async with running(stopped_server) as (connection, up):
        await up.wait()
        closed = connection._client
        assert closed is not None
        again = asyncio.Event()
        connection.on_up = again.set
        await closed.close()
        async with asyncio.timeout(60):
            await again.wait()
        assert connection.connected and connection._client is not closed
