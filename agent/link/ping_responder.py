# SPDX-License-Identifier: Apache-2.0
"""The UDP socket at which a node answers pings, so that silence on NATS alone gives nobody up.

Owns the bound of an answer: it repeats a ping of exactly PING_BYTES to its sender, so that it is
never larger than what was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter

from stoker.agent.link.ping import MAGIC, PING_BYTES, address_text

ANSWERS_AT_ONCE = 16
"""The most pings that one wake-up answers, so that a flood does not occupy the loop."""


class PingResponder:
    """The socket of one agent, bound to a free port of `host`."""

    def __init__(self, host: str) -> None:
        self.counters: Counter[str] = Counter()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._socket.bind((host, 0))
        self.address = address_text(host, self._socket.getsockname()[1])
        """The address "host:port" that the node reports."""

    def serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer pings in this loop until it ends."""
        loop.add_reader(self._socket.fileno(), self.answer)

    def answer(self) -> None:
        """Answer the pings that have come."""
        for _ in range(ANSWERS_AT_ONCE):
            try:
                data, sender = self._socket.recvfrom(PING_BYTES + 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # an earlier answer was refused by its receiver
                continue
            if len(data) != PING_BYTES or not data.startswith(MAGIC):
                self.counters["ping_refused"] += 1
                continue
            with contextlib.suppress(OSError):
                self._socket.sendto(data, sender)
                self.counters["ping_answered"] += 1

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
