# SPDX-License-Identifier: Apache-2.0
"""A connection that outlives its broker: subscriptions stay, messages are refused, requests end."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import pytest

from stoker.mesh.connection import broker_session
from stoker.mesh.connection.broker_connection import BrokerConnection, ConnectionCallbacks
from stoker.mesh.connection.broker_requests import BrokerRequests
from stoker.mesh.connection.broker_session import NobodyListens, Overdue
from stoker.mesh.connection.heard_subject import BrokerMessage
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.wire import subjects
from stoker.native.errors import Denied, Unavailable
from tests.fakes.ports import free_port
from tests.fakes.squatter import squatter
from tests.mesh import lasting
from tests.mesh.nats_server import CLUSTER, Server

GUARD_S = 60.0
NODE_REQUEST = subjects.hello("node1")


class Held:
    """A connection with what it told of its broker."""

    def __init__(self) -> None:
        self.connection = BrokerConnection()
        self.told: list[Exception] = []
        self.lost, self.back = asyncio.Event(), asyncio.Event()
        self.callbacks = ConnectionCallbacks(self._error, self._lost, self._back)

    async def _error(self, error: Exception) -> None:
        self.told.append(error)

    async def _lost(self) -> None:
        self.lost.set()

    async def _back(self) -> None:
        self.back.set()


@pytest.fixture
async def held(server: Server) -> AsyncIterator[Held]:
    made = Held()
    await lasting.begin(made.connection, server, callbacks=made.callbacks)
    yield made
    made.connection.cut()


async def echo(message: BrokerMessage) -> None:
    await message.respond(b"to " + message.data)


async def test_a_subscription_outlives_the_broker_and_a_message_does_not(
    held: Held, server: Server
) -> None:
    connection = held.connection
    await connection.subscribe(subjects.EVERY_NODE_REQUEST, cb=echo)
    gone = await connection.subscribe(subjects.EVERY_OBSERVATION, cb=echo)
    await gone.unsubscribe()
    await connection.flush()
    async with asyncio.timeout(GUARD_S):
        node = await server.connect("node1")
        assert (await node.request(NODE_REQUEST, b"1", timeout=GUARD_S)).data == b"to 1"
        await node.close()
        server.kill()
        await held.lost.wait()
        assert not connection.is_connected and not connection.is_closed
        with pytest.raises(ConnectionResetError):
            await connection.publish(subjects.command("node1"), b"x")
        with pytest.raises(Unavailable, match="not connected"):
            await connection.request(subjects.query("node1", "ping"), b"", 1)
        flushed = asyncio.ensure_future(connection.flush())
        server.start()
        await flushed
        await held.back.wait()
        node = await server.connect("node1")
        assert (await node.request(NODE_REQUEST, b"2", timeout=GUARD_S)).data == b"to 2"
    assert [type(error) for error in held.told] == [ConnectionResetError]


async def test_a_broker_that_moved_is_found_again(server: Server) -> None:
    made, places = Held(), [f"tls://127.0.0.1:{free_port()}", server.url]
    tries = 0

    def where() -> str:
        nonlocal tries
        tries += 1
        return places[min(tries, 2) - 1]

    async with asyncio.timeout(GUARD_S):
        await lasting.begin(made.connection, server, callbacks=made.callbacks, where=where)
    assert tries == 2 and made.connection.is_connected
    await made.connection.close()
    assert made.connection.is_closed and not made.connection.is_connected


async def test_requests_end_with_their_reason(
    held: Held, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = held.connection
    query = subjects.query("node1", "ping")
    with pytest.raises(NobodyListens):
        await connection.request(query, b"", GUARD_S)
    with pytest.raises(Denied, match="refused the request"):
        await connection.request("not.for.a.scheduler", b"", GUARD_S)
    node = await server.connect("node1")
    silent = await node.subscribe(query)
    await node.flush()
    with pytest.raises(Overdue, match=r"within 0\.01 s"):
        while True:  # the broker keeps for a moment that nobody listens, in some runs of a hundred
            with contextlib.suppress(NobodyListens):
                await connection.request(query, b"", 0.01)
    open_one = asyncio.ensure_future(connection.request(query, b"", GUARD_S))
    for _ in range(2):
        await silent.next_msg(GUARD_S)
    server.kill()
    with pytest.raises(Unavailable, match="lost"):
        await open_one
    requests = BrokerRequests(connection)
    monkeypatch.setattr("stoker.mesh.connection.broker_requests.PENDING_MAX", 0)
    with pytest.raises(Unavailable, match="0 requests are unanswered"):
        await requests.request(query, b"", 1)


async def test_the_log_is_written_and_read_on_it(held: Held) -> None:
    log = JetStreamLog(BrokerRequests(held.connection), CLUSTER, 1 << 20)
    await log.open(may_make=True)
    for tail, entry in enumerate((b"one", b"two")):
        assert await log.append_at(tail, entry, f"name{tail}") == tail + 1
    found = [each async for batch in log.read_from(1) for each in batch]
    assert found == [(1, b"one"), (2, b"two")]


async def test_what_is_too_large_is_refused_and_so_is_what_the_broker_does_not_read(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="at most"):
        await held.connection.publish(subjects.command("node1"), bytes(64 << 20))
    monkeypatch.setattr(broker_session, "UNSENT_BYTES_MAX", -1)
    with pytest.raises(OSError, match="has not read"):
        await held.connection.publish(subjects.command("node1"), b"x")


async def test_what_is_pending_is_written_before_the_end(held: Held, server: Server) -> None:
    node = await server.connect("node1")
    commands = await node.subscribe(subjects.command("node1"))
    await node.flush()
    for number in range(3):
        await held.connection.publish(subjects.command("node1"), b"%d" % number)
    await held.connection.close()
    assert [(await commands.next_msg(GUARD_S)).data for _ in range(3)] == [b"0", b"1", b"2"]
    with pytest.raises(ConnectionResetError):
        await held.connection.flush()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_a_foreign_broker_that_greets_receives_nothing(server: Server) -> None:
    port = free_port()
    with squatter(port) as stranger:
        stranger.wait_bound()
        made = Held()
        key = lasting.options(server)._replace(pinned=None)
        session = broker_session.BrokerSession(key, made.connection)
        with pytest.raises(OSError, match="belongs to uid 4242, not to uid 0"):
            await broker_session.begin(session, f"nats://127.0.0.1:{port}", None, GUARD_S)
        assert not any(stranger.heard())


class Transport(asyncio.Transport):
    """A transport that says whether it is read from, and that nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return False


async def test_after_much_at_once_the_loop_does_its_other_work_before_it_reads_on(
    server: Server,
) -> None:
    session = broker_session.BrokerSession(lasting.options(server), BrokerConnection())
    transport = Transport()
    session.connection_made(transport)
    message = b"MSG a 7 100\r\n" + b"x" * 100 + b"\r\n"
    session.data_received(message)
    assert transport.reading
    session.data_received(message * 1000)
    assert not transport.reading
    await asyncio.sleep(0)
    assert transport.reading
