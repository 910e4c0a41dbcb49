# SPDX-License-Identifier: Apache-2.0
"""A client's connection at a broker that a test plays: greeting, loss, silence, refusals."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from stoker.mesh.connection import client_connection
from stoker.mesh.connection.broker_protocol import PINGS_OPEN_MAX, BrokerProtocol
from stoker.mesh.connection.client_connection import ClientConnection
from stoker.mesh.connection.context import Context
from stoker.mesh.identity import identity
from stoker.native.errors import Denied, Unavailable
from tests.mesh.nats_server import Server


class Wire:
    """The broker's end: what was written, and whether the connection was aborted."""

    def __init__(self, client: ClientConnection) -> None:
        self.client = client
        self.written = b""
        self.writes: list[bytes] = []
        client.connection_made(cast(asyncio.BaseTransport, self))

    def write(self, data: bytes) -> None:
        self.written += data
        self.writes.append(data)

    def abort(self) -> None:
        self.client.connection_lost(None)


@pytest.fixture
async def wire(tmp_path: Path) -> Wire:
    return Wire(ClientConnection(identity.create(tmp_path / "user.nk")))


async def greeted(wire: Wire) -> None:
    begin = asyncio.ensure_future(wire.client.begin())
    wire.client.data_received(b'INFO {"max_payload":512,"nonce":"abc","more":[1]}\r\n')
    await asyncio.sleep(0)
    wire.client.data_received(b"PONG\r\n")
    await begin


async def asked(wire: Wire, timeout_s: float = 30.0) -> asyncio.Task[bytes]:
    request = asyncio.ensure_future(wire.client.request("stoker.v1.job.get", b"{}", timeout_s))
    await asyncio.sleep(0)
    return request


async def test_the_greeting_is_answered_with_the_signed_nonce(wire: Wire) -> None:
    await greeted(wire)
    word, _, said = wire.written.split(b"\r\n")[0].partition(b" ")
    sent: dict[str, Any] = json.loads(said)
    assert word == b"CONNECT" and sent["no_responders"] is True and sent["sig"]
    assert wire.client.max_payload == 512 and wire.client.live
    assert b"SUB _INBOX." in wire.written and wire.written.endswith(b"PING\r\n")


async def test_a_reply_ends_its_request_and_no_other(wire: Wire) -> None:
    await greeted(wire)
    first, second = await asked(wire), await asked(wire)
    inbox = wire.client._inbox.encode()
    wire.client.data_received(b"MSG %s.2 1 2\r\nno\r\nMSG %s.9 1 1\r\nx\r\n" % (inbox, inbox))
    assert await second == b"no" and not first.done()
    status = b"NATS/1.0 503\r\n\r\n"
    wire.client.data_received(b"HMSG %s.1 1 %d %d\r\n%s\r\n" % (inbox, 16, 16, status))
    with pytest.raises(Unavailable, match="scheduler is not answering"):
        await first


async def test_requests_of_one_turn_share_a_write_and_a_lone_one_waits_for_nothing(
    wire: Wire,
) -> None:
    await greeted(wire)
    await asyncio.sleep(0)
    wire.writes.clear()
    requests = [
        asyncio.ensure_future(wire.client.request(f"stoker.v1.job.{each}", b"{}", 30.0))
        for each in ("get", "list", "logs")
    ]
    await asyncio.sleep(0)
    assert [write.count(b"PUB ") for write in wire.writes] == [1]
    await asyncio.sleep(0)
    assert [write.count(b"PUB ") for write in wire.writes] == [1, 2]
    last = await asked(wire)
    assert [write.count(b"PUB ") for write in wire.writes] == [1, 2, 1]
    together = wire.writes[1]
    assert together.index(b"job.list ") < together.index(b"job.logs ")
    wire.client.connection_lost(None)
    for request in (*requests, last):
        with pytest.raises(Unavailable, match="was lost"):
            await request


async def test_what_was_gathered_is_not_written_after_the_end(wire: Wire) -> None:
    await greeted(wire)
    await asyncio.sleep(0)
    requests = [
        asyncio.ensure_future(wire.client.request("stoker.v1.job.get", b"{}", 30.0))
        for _ in range(2)
    ]
    await asyncio.sleep(0)
    wire.writes.clear()
    wire.client.connection_lost(None)
    for request in requests:
        with pytest.raises(Unavailable, match="was lost"):
            await request
    assert not wire.writes


async def test_a_lost_connection_ends_what_is_open_and_what_comes(wire: Wire) -> None:
    await greeted(wire)
    request = await asked(wire)
    wire.client.connection_lost(ConnectionResetError())
    with pytest.raises(Unavailable, match="was lost"):
        await request
    with pytest.raises(Unavailable, match="was lost"):
        await (await asked(wire))
    assert not wire.client.live


async def test_a_broker_that_says_nothing_is_given_up(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BrokerProtocol, "ping_s", 0.0)
    await greeted(wire)
    with pytest.raises(Unavailable, match="was lost"):
        await (await asked(wire))
    assert wire.written.count(b"PING\r\n") == 1 + PINGS_OPEN_MAX


async def test_a_broker_that_answers_is_kept(wire: Wire) -> None:
    await greeted(wire)
    for _ in range(3 * PINGS_OPEN_MAX):
        wire.client._heard_s -= wire.client.ping_s
        wire.client._look()
        wire.client.data_received(b"PONG\r\nPING\r\n")
        await asyncio.sleep(0)
    assert wire.client.live and wire.written.endswith(b"PONG\r\n")
    assert wire.written.count(b"PING\r\n") > 3 * PINGS_OPEN_MAX
    await wire.client.close()


async def test_a_broker_that_was_just_heard_is_asked_nothing(wire: Wire) -> None:
    await greeted(wire)
    wire.client._look()
    assert wire.written.count(b"PING\r\n") == 1
    assert wire.client._timer is not None
    assert wire.client._timer.when() == wire.client._heard_s + wire.client.ping_s
    await wire.client.close()


async def test_a_refused_subject_is_told_at_its_timeout(wire: Wire) -> None:
    await greeted(wire)
    wire.client.data_received(
        b"-ERR 'Permissions Violation for Publish to \"stoker.v1.job.get\"'\r\n"
    )
    with pytest.raises(Denied, match="job get"):
        await (await asked(wire, 0.0))


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"-ERR 'Authorization Violation'\r\n", "Authorization Violation"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak NATS"),
        (b"INFO [1]\r\n", "does not speak NATS"),
    ],
)
async def test_who_greets_otherwise_is_left(wire: Wire, said: bytes, complaint: str) -> None:
    begin = asyncio.ensure_future(wire.client.begin())
    wire.client.data_received(said)
    wire.abort()
    with pytest.raises(ConnectionResetError):
        await begin
    assert complaint in wire.client.complaint


def alice(server: Server, seed: str = "alice.nk") -> Context:
    pinned = Path(server.settings.certificate_file)
    return Context(server.url, server.folder / seed, "alice", pinned)


async def test_a_key_that_a_broker_refused_for_a_moment_is_shown_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that reads its users anew does so."""
    begin, tries = client_connection._connect, 0

    async def refused_at_first(where: Context) -> ClientConnection:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Denied("the node does not take the key")
        return await begin(where)

    monkeypatch.setattr(client_connection, "_connect", refused_at_first)
    client = await client_connection.connect(alice(server))
    assert client.live and tries == 3
    await client.close()


async def test_a_key_that_a_broker_does_not_know_is_refused_by_name(server: Server) -> None:
    identity.create(server.folder / "eve.nk")
    with pytest.raises(Denied, match=r"does not take the key .*eve\.nk"):
        await client_connection.connect(alice(server, "eve.nk"))
