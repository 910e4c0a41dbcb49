# SPDX-License-Identifier: Apache-2.0
"""Brokers of one cluster: a request crosses from one to another, and a stranger is let nowhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import nats.errors
import pytest

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
    routes = BrokerRoutes("c", "s", "127.0.0.1:1", tuple(f"127.0.0.1:{n}" for n in (1, 2, 3)))
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


async def test_a_broker_without_the_secret_is_not_let_in(brokers: list[Server]) -> None:
    first, second, _ = brokers
    assert second.settings.routes is not None
    stranger = replace(second.settings.routes, secret="wrong")
    second.settings = replace(second.settings, routes=stranger)
    first.start()
    second.start()
    while "Authorization Violation" not in first.log() + second.log():
        await first.connect("alice")
        await first.close_connections()
