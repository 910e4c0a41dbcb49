# SPDX-License-Identifier: Apache-2.0
"""Brokers of one cluster: a request crosses from one to another, and a stranger is let nowhere."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats.errors
import pytest
from fakes import pinned
from msgspec.structs import replace

from stoker.mesh.broker.broker_routes import BrokerRoutes, log_copies
from stoker.mesh.wire import subjects
from tests.mesh.nats_server import Server, settle
from tests.mesh.several_brokers import joined


@pytest.fixture
async def brokers(stopped_server: Server) -> AsyncIterator[list[Server]]:
    servers = joined(stopped_server, 3)
    try:
        yield servers
    finally:
        for server in servers:
            await server.close_connections()
            server.stop()


def test_each_scheduler_has_a_copy_up_to_what_a_stream_bears() -> None:
    assert [log_copies(count) for count in (1, 2, 3, 5, 7)] == [1, 2, 3, 5, 5]
    places = tuple(f"127.0.0.1:{n}" for n in (1, 2, 3))
    routes = BrokerRoutes("c", "127.0.0.1:1", places, "key", "own", "all")
    assert routes.copies == 3


async def test_a_request_reaches_a_scheduler_at_another_broker(brokers: list[Server]) -> None:
    for server in brokers:
        server.start()
    scheduler = await brokers[0].connect("scheduler")

    async def answer(message: Any) -> None:
        await scheduler.publish(message.reply, message.subject.encode())

    await scheduler.subscribe(subjects.EVERY_USER_REQUEST, cb=answer)
    await settle(scheduler)
    alice = await brokers[2].connect("alice")
    arrived = await eventually(alice, subjects.request("job", "list"))
    assert arrived == subjects.user_request("alice", "job", "list").encode()


async def eventually(connection: Any, subject: str) -> bytes:
    """Return the answer to a request once the brokers have found each other."""
    while True:
        try:
            return bytes((await connection.request(subject, b"{}", timeout=1)).data)
        except nats.errors.Error:
            continue


async def test_a_broker_with_a_key_of_its_own_making_is_not_let_in(
    brokers: list[Server], tmp_path: Path
) -> None:
    """It knows all certificates, and the others know another one of it."""
    first, second, _ = brokers
    assert second.settings.routes is not None
    key, own = pinned.pair(tmp_path)
    stranger = replace(second.settings.routes, key_file=key, certificate_file=own)
    second.settings = replace(second.settings, routes=stranger)
    first.start()
    second.start()
    while "TLS route handshake error" not in first.log() + second.log():
        await first.connect("alice")
        await first.close_connections()
    assert "unknown authority" in first.log() + second.log()


async def test_a_route_speaks_tls_alone(brokers: list[Server]) -> None:
    first = brokers[0]
    first.start()
    assert first.settings.routes is not None
    host, _, port = first.settings.routes.listen.partition(":")
    with socket.create_connection((host, int(port)), 30) as plain:
        plain.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        try:
            heard = plain.recv(65536)
        except ConnectionResetError:
            heard = b""
    assert b"INFO" not in heard and b"PONG" not in heard
