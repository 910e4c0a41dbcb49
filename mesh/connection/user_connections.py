# SPDX-License-Identifier: Apache-2.0
"""The scheduler's connections to the broker for users' requests: one for each user.

The daemon opens them for the table of users and keeps them in step with it. Owns that requests of
one user never stand before those of another on their way here: what comes faster than it is taken
waits at the broker behind that user's connection alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import nats.errors
import structlog
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.wire import subjects

OPENING_MAX = 16
"""Connections that are made at the same time."""
CLOSE_S = 1.0
SHUT_S = 1.0
"""How long nothing is heard of a user who sends more than can even be refused."""

_log = structlog.get_logger("scheduler")

Connect = Callable[[LocalConnection, str], Awaitable[None]]
"""Connects for good, under a name."""
Hear = Callable[[Any], Awaitable[bool]]
"""Takes a request; True where its user sends more than is even refused."""


class UserConnection:
    """One user's connection. Where too much comes on it, it is deaf for SHUT_S: the broker then
    answers at once that nobody is there, and a flood costs the scheduler and its memory nothing."""

    def __init__(self, user: str, hear: Hear, count: Callable[[str], None]) -> None:
        self.user = user
        self.connection = LocalConnection()
        self._hear = hear
        self._count = count
        self._subscription: Subscription | None = None
        self._shutting: asyncio.Task[None] | None = None

    async def open(self, connect: Connect) -> None:
        """Connect and take requests."""
        await connect(self.connection, f"scheduler for {self.user}")
        await self._listen()

    async def _listen(self) -> None:
        subject = subjects.requests_of_user(self.user)
        self._subscription = await self.connection.subscribe(subject, cb=self._request)
        await self.connection.flush()

    async def _request(self, message: Msg) -> None:
        if await self._hear(message) and self._shutting is None:
            self._count("users_shut")
            self._shutting = asyncio.create_task(self._shut())

    async def _shut(self) -> None:
        """A task of its own: ending a subscription ends the task that reads it."""
        try:
            if self._subscription is not None:
                await self._subscription.unsubscribe()
            await asyncio.sleep(SHUT_S)
            await self._listen()
        except (nats.errors.Error, OSError) as error:
            _log.warning("a user's requests are not heard", user=self.user, error=repr(error))
            await self.connection.close()  # and opened anew with the next look at the table
        finally:
            self._shutting = None

    async def close(self) -> None:
        """Let go of it; whoever asked on it asks again."""
        if self._shutting is not None:
            self._shutting.cancel()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.connection.close(), CLOSE_S)


class UserConnections:
    """All users' connections."""

    def __init__(self, connect: Connect, hear: Hear, count: Callable[[str], None]) -> None:
        self._connect = connect
        self._hear = hear
        self._count = count
        self._lines: dict[str, UserConnection] = {}

    @property
    def connections(self) -> list[Connection]:
        """Those that are open or were."""
        return [line.connection for line in self._lines.values()]

    async def settle(self, users: Iterable[str]) -> None:
        """Open those of new users and close those of users who are gone."""
        wanted = set(users)
        closed = {user for user, line in self._lines.items() if line.connection.is_closed}
        for user in (self._lines.keys() - wanted) | closed:
            await self._lines.pop(user).close()
        gate = asyncio.Semaphore(OPENING_MAX)
        new = sorted(wanted - self._lines.keys())
        await asyncio.gather(*(self._open(user, gate) for user in new))

    async def _open(self, user: str, gate: asyncio.Semaphore) -> None:
        line = self._lines[user] = UserConnection(user, self._hear, self._count)
        async with gate:
            await line.open(self._connect)

    async def close(self) -> None:
        """All of them."""
        await asyncio.gather(*(line.close() for line in self._lines.values()))
