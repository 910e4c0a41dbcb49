# SPDX-License-Identifier: Apache-2.0
"""Pings over real sockets: a reply, a refusal, silence, and what is no ping."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from stoker.agent.link.ping import MAGIC, PING_BYTES, parse_address, ping
from stoker.agent.link.ping_responder import PingResponder


@pytest.fixture
def responder() -> Iterator[PingResponder]:
    made = PingResponder("127.0.0.1")
    yield made
    made.close()


async def test_an_agent_that_lives_replies(responder: PingResponder) -> None:
    responder.serve(asyncio.get_running_loop())
    assert await ping(responder.address) == "answered"
    assert responder.counters["ping_answered"] == 1


async def test_a_host_without_an_agent_refuses_and_so_lives() -> None:
    gone = PingResponder("127.0.0.1")
    address = gone.address
    gone.close()
    assert await ping(address) == "answered"


async def test_an_agent_that_is_stopped_is_silent(responder: PingResponder) -> None:
    assert await ping(responder.address) == "silent"


@pytest.mark.parametrize(
    "address", ["", "host:1", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x", "[::1]"]
)
async def test_what_is_no_address_is_not_pinged(address: str) -> None:
    assert await ping(address) == "unable"


def test_addresses_of_both_kinds_are_read() -> None:
    assert parse_address("10.0.0.7:4222") == ("10.0.0.7", 4222)
    assert parse_address("[fe80::1]:9") == ("fe80::1", 9)


async def test_nothing_but_a_whole_ping_is_answered(responder: PingResponder) -> None:
    responder.serve(asyncio.get_running_loop())
    host, port = responder.address.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.connect((host, int(port)))
        good = MAGIC.ljust(PING_BYTES, b"n")
        for data in (b"", b"x" * PING_BYTES, good + b"x", good[:-1], good):
            sender.send(data)
        async with asyncio.timeout(60):
            assert await asyncio.get_running_loop().sock_recv(sender, 100) == good
    assert dict(responder.counters) == {"ping_refused": 4, "ping_answered": 1}
