# SPDX-License-Identifier: Apache-2.0
"""A direct ping of another node's host, at the scheduler's request.

Owns its meaning: a reply shows a living agent, a refusal by the host's kernel a living host, and
only TRIES pings without either show silence.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import Literal

MAGIC = b"stoker-ping-1\0\0\0"
PING_BYTES = len(MAGIC) + 16
TRIES = 2
WAIT_S = 0.5
ADDRESS_CHARS_MAX = 80

PingResult = Literal["answered", "silent", "unable"]


def address_text(host: str, port: int) -> str:
    """Return the address as a node reports it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> tuple[str, int] | None:
    """Return host and port; None if the text is no numeric address."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)
    except OSError:
        return None
    good = len(text) <= ADDRESS_CHARS_MAX and port.isdecimal() and 0 < int(port) < 1 << 16
    return (host, int(port)) if good else None


async def ping(address: str) -> PingResult:
    """Ping a host TRIES times, WAIT_S apart; `unable` if this node cannot send to it."""
    where = parse_address(address)
    if where is None:
        return "unable"
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        try:
            sender.connect(where)
        except OSError:
            return "unable"
        for _ in range(TRIES):
            if (found := await _once(sender)) is not None:
                return found
    return "silent"


async def _once(sender: socket.socket) -> PingResult | None:
    """Send one ping; return None if nothing came in time."""
    loop, data = asyncio.get_running_loop(), MAGIC + secrets.token_bytes(16)
    try:
        await loop.sock_sendall(sender, data)
        async with asyncio.timeout(WAIT_S):
            while await loop.sock_recv(sender, PING_BYTES + 1) != data:
                pass  # an answer to an earlier ping
    except TimeoutError:
        return None
    except ConnectionRefusedError:
        return "answered"
    except OSError:
        return "unable"
    return "answered"
