# SPDX-License-Identifier: Apache-2.0
"""The agent's connection at a broker that a test plays: handlers, publishes, refusals, loss."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from stoker.agent.link import agent_client
from stoker.agent.link.agent_client import AgentClient
from stoker.mesh.connection import broker_session
from stoker.mesh.connection.nats_frames import Delivery
from stoker.mesh.identity import identity
from stoker.native.errors import Denied, Unavailable
from tests.fakes import squatter as squatting
from tests.fakes.ports import free_port


class Wire:
    """The broker's end: what was written, and how much of it waits."""

    def __init__(self, folder: Path) -> None:
        self.heard: list[Delivery] = []
        self.counters: Counter[str] = Counter()
        handlers = {"cmd.node1": self.heard.append, "query.node1.logs": self._fail}
        key = identity.create(folder / "node1.nk")
        self.client = AgentClient(key, "node1", "_INBOX.a", handlers, self.counters, pinned=True)
        self.written, self.waiting = b"", 0
        self.client.connection_made(cast(asyncio.BaseTransport, self))

    def write(self, data: bytes) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.client.connection_lost(None)

    def _fail(self, message: Delivery) -> None:
        raise RuntimeError(message.subject)

    def say(self, data: bytes) -> None:
        self.client.data_received(data)


@pytest.fixture
async def wire(tmp_path: Path) -> Wire:
    wire = Wire(tmp_path)
    begin = asyncio.ensure_future(wire.client.begin())
    wire.say(b'INFO {"max_payload":8,"nonce":"abc"}\r\n')
    await asyncio.sleep(0)
    wire.say(b"PONG\r\n")
    await begin
    await asyncio.sleep(0)
    return wire


async def test_each_message_is_given_to_the_handler_of_its_subject(wire: Wire) -> None:
    assert b"SUB cmd.node1 2\r\nSUB query.node1.logs 3\r\nPING\r\n" in wire.written
    wire.say(b"MSG cmd.node1 2 back 2\r\nhe\r\nMSG query.node1.logs 3 0\r\n\r\n")
    wire.say(b"MSG cmd.node2 2 0\r\n\r\nMSG cmd.node1 2 1\r\nx\r\n")
    assert [(each.data, each.reply) for each in wire.heard] == [(b"he", "back"), (b"x", "")]
    assert wire.counters == {"message_failed": 1, "message_unknown": 1}


async def test_what_cannot_be_sent_is_counted(wire: Wire) -> None:
    assert wire.client.publish("out", b"12345678")
    assert wire.written.endswith(b"PUB out  8\r\n12345678\r\n")
    assert not wire.client.publish("out", b"123456789")
    wire.waiting = agent_client.PENDING_BYTES_MAX + 1
    assert not wire.client.publish("out", b"1")
    wire.abort()
    assert not wire.client.publish("out", b"1")
    assert wire.counters == {"publish_failed": 2, "publish_dropped": 1}
    assert wire.client.lost.done()


async def test_a_request_that_cannot_be_answered_says_why(wire: Wire) -> None:
    with pytest.raises(Unavailable, match="9 bytes, of which a broker takes 8"):
        await wire.client.request("out", b"123456789", 30.0)
    wire.say(b"-ERR 'Permissions Violation for Publish to \"out\"'\r\n")
    with pytest.raises(Denied, match="does not let this node publish out"):
        await wire.client.request("out", b"", 0.0)
    with pytest.raises(Unavailable, match="no answer within 0 s"):
        await wire.client.request("elsewhere", b"", 0.0)
    assert wire.counters["link_errors"] == 1
    request = asyncio.ensure_future(wire.client.request("out", b"", 30.0))
    await asyncio.sleep(0)
    wire.say(b"HMSG %s.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" % wire.client._inbox.encode())
    with pytest.raises(Unavailable, match="no scheduler listens"):
        await request


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
async def test_a_foreign_broker_that_greets_receives_nothing(tmp_path: Path) -> None:
    port, nothing = free_port(), cast(Any, {})
    key = identity.create(tmp_path / "node1.nk")
    client = AgentClient(key, "node1", "_INBOX.a", nothing, Counter(), pinned=False)
    with squatting.squatter(port) as stranger:
        stranger.wait_bound()
        with pytest.raises(PermissionError, match="belongs to uid 4242, not to uid 0"):
            await broker_session.begin(client, f"nats://127.0.0.1:{port}", None, 3)
        async with asyncio.timeout(60):
            while not (heard := stranger.heard()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert set(heard) == {b""}
    assert client.lost.done()
