# SPDX-License-Identifier: Apache-2.0
"""The scheduler's connections to the broker for the requests of users, one for each user.

The daemon opens and closes them with the table of users. Guarantees that requests of one user never
delay those of another on their way here: a user's excess waits at the broker behind that user's
connection.
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
"""The most connections that are made at the same time."""
CLOSE_S = 1.0
SHUT_S = 1.0
"""A user who sends more than can be refused is not served for this long."""

_log = structlog.get_logger("scheduler")

Connect = Callable[[LocalConnection, str], Awaitable[None]]
"""Connects under a name, with retries without limit."""
Receive = Callable[[Any], Awaitable[bool]]
"""Takes a request; returns True if its user sends more than can be refused."""


class UserConnection:
    """One user's connection.

    After too many requests it is unsubscribed for SHUT_S. The broker then answers that nobody is
    there, so a flood costs the scheduler neither time nor memory.
    """

    def __init__(self, user: str, receive: Receive, count: Callable[[str], None]) -> None:
        self.user = user
        self.connection = LocalConnection()
        self._receive = receive
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
        if await self._receive(message) and self._shutting is None:
            self._count("users_shut")
            self._shutting = asyncio.create_task(self._shut())

    async def _shut(self) -> None:
        """Unsubscribe for SHUT_S; runs in its own task, since this ends the reading task."""
        try:
            if self._subscription is not None:
                await self._subscription.unsubscribe()
            await asyncio.sleep(SHUT_S)
            await self._listen()
        except (nats.errors.Error, OSError) as error:
            _log.warning("a user's requests are not received", user=self.user, error=repr(error))
            await self.connection.close()  # `settle` opens it again
        finally:
            self._shutting = None

    async def close(self) -> None:
        """Close the connection; clients repeat the requests that were open on it."""
        if self._shutting is not None:
            self._shutting.cancel()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.connection.close(), CLOSE_S)


class UserConnections:
    """The connections of all users."""

    def __init__(self, connect: Connect, receive: Receive, count: Callable[[str], None]) -> None:
        self._connect = connect
        self._receive = receive
        self._count = count
        self._of_user: dict[str, UserConnection] = {}

    @property
    def connections(self) -> list[Connection]:
        """The connections, open or lost."""
        return [each.connection for each in self._of_user.values()]

    async def settle(self, users: Iterable[str]) -> None:
        """Open the connections of new users and close those of users who are gone."""
        wanted = set(users)
        closed = {user for user, each in self._of_user.items() if each.connection.is_closed}
        for user in (self._of_user.keys() - wanted) | closed:
            await self._of_user.pop(user).close()
        gate = asyncio.Semaphore(OPENING_MAX)
        new = sorted(wanted - self._of_user.keys())
        await asyncio.gather(*(self._open(user, gate) for user in new))

    async def _open(self, user: str, gate: asyncio.Semaphore) -> None:
        connection = self._of_user[user] = UserConnection(user, self._receive, self._count)
        async with gate:
            await connection.open(self._connect)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self._of_user.values()))
