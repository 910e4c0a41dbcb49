# SPDX-License-Identifier: Apache-2.0
"""A subject that is heard on a connection, and the messages of it that wait for their handler.

Owns their order: one message is handled at a time, and one that comes meanwhile waits, in a bounded
queue. A burst is handled in one turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from stoker.mesh.connection import nats_frames
from stoker.mesh.connection.nats_frames import Delivery

WAITING_MAX = 1 << 19
WAITING_BYTES_MAX = 128 << 20
"""The most messages and bytes of a subject that wait; one beyond them is dropped, and told."""


class SlowHandler(OSError):
    """A handler has left as much waiting as may wait, and a message was dropped."""


class HearingConnection(Protocol):
    """The connection as its subjects use it."""

    async def publish(self, subject: str, data: bytes) -> None:
        """Send a message."""

    async def flush(self) -> None:
        """Return once the broker has taken everything."""

    def forget(self, heard: HeardSubject) -> None:
        """Have the broker send no more of this subject."""

    def tell(self, error: Exception) -> None:
        """Report an error."""


class BrokerMessage:
    """A message, and how to answer it."""

    __slots__ = ("_connection", "_head", "data", "reply", "subject")

    def __init__(self, delivery: Delivery, connection: HearingConnection) -> None:
        self.subject = delivery.subject
        self.data = delivery.data
        self.reply = delivery.reply
        self._head = delivery.head
        self._connection = connection

    @property
    def headers(self) -> dict[str, str] | None:
        """The headers by name."""
        return nats_frames.headers(self._head)

    async def respond(self, data: bytes) -> None:
        """Answer; OSError without a connection, ValueError for an answer that cannot be sent."""
        if not self.reply:
            raise ValueError("nobody waits for an answer to this message")
        await self._connection.publish(self.reply, data)


MessageHandler = Callable[[Any], Awaitable[object]]
"""Handles one message."""
Admission = Callable[[Delivery], bool]
"""Returns False for a message that is dropped before it waits; whoever gives it counts that."""


def everything(delivery: Delivery) -> bool:
    """Admit each message."""
    return True


class HeardSubject:
    """One subscription, until it is unsubscribed or drained; `number` is its own."""

    def __init__(
        self,
        connection: HearingConnection,
        number: bytes,
        subject: str,
        group: str,
        handle: MessageHandler,
        *,
        admits: Admission = everything,
    ) -> None:
        self._admits = admits
        self.number = number
        words = (b"SUB", subject.encode(), *([group.encode()] if group else []), number)
        self.frame = b" ".join(words) + b"\r\n"
        """The line by which the broker sends what is published there."""
        self._subject = subject
        self._connection = connection
        self._handle = handle
        self._waiting: deque[BrokerMessage] = deque()
        self._bytes = 0
        self._ended = False
        self._came = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._task = asyncio.create_task(self._run())

    def offer(self, delivery: Delivery) -> None:
        """Take a message, which is handled after those that came before."""
        if not self._admits(delivery):
            return
        size = len(delivery.data)
        if len(self._waiting) >= WAITING_MAX or self._bytes + size > WAITING_BYTES_MAX:
            self._connection.tell(SlowHandler(f"a message of {self._subject} is dropped"))
            return
        self._bytes += size
        self._waiting.append(BrokerMessage(delivery, self._connection))
        self._idle.clear()
        self._came.set()

    async def unsubscribe(self) -> None:
        """Hear no more; what waits is not handled, but a message that is being handled is."""
        self._connection.forget(self)
        self.end()

    async def drain(self) -> None:
        """Hear no more; return once everything that came is handled. OSError without the broker."""
        self._connection.forget(self)
        try:
            await self._connection.flush()
            await self._idle.wait()
        finally:
            self.end()

    def end(self) -> None:
        """Handle nothing more after the present message."""
        self._ended = True
        self._waiting.clear()
        self._came.set()

    async def _run(self) -> None:
        while not self._ended:
            await self._came.wait()
            self._came.clear()
            while self._waiting:
                message = self._waiting.popleft()
                self._bytes -= len(message.data)
                try:
                    await self._handle(message)
                except Exception as error:
                    self._connection.tell(error)
            self._idle.set()
