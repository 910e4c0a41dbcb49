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

from stoker.mesh.connection.broker_connection import BrokerConnection
from stoker.mesh.connection.heard_subject import BrokerMessage, HeardSubject
from stoker.mesh.wire import subjects
from stoker.native.structured_log import structlog

OPENING_MAX = 16
"""The most connections that are made at the same time."""
CLOSE_S = 1.0
"""Seconds that a connection has to write what is pending and to close."""
SHUT_S = 1.0
"""A user who sends more than can be refused is not served for this long."""

_log = structlog.get_logger("scheduler")

Connect = Callable[[BrokerConnection, str], Awaitable[None]]
"""Connects under a name, with retries without limit."""
Receive = Callable[[Any], Awaitable[bool]]
"""Takes a request; returns True if its user sends more than can be refused."""


class UserConnection:
    """One user's connection.

    After too many requests it is unsubscribed for SHUT_S. The broker then answers that nobody is
    there, so a flood costs the scheduler neither time nor memory.
    """

    def __init__(
        self,
        user: str,
        receive: Receive,
        count: Callable[[str], None],
        listens: Callable[[], bool],
        at: str,
    ) -> None:
        self.user = user
        self._listens = listens
        self._at = at
        self._open = False
        self._settling = asyncio.Lock()
        self.connection = BrokerConnection()
        self._receive = receive
        self._count = count
        self._subscription: HeardSubject | None = None
        self._reads: list[HeardSubject] = []
        self._shutting: asyncio.Task[None] | None = None

    async def open(self, connect: Connect) -> None:
        """Connect; take reads at this scheduler, and all requests if it listens."""
        await connect(self.connection, f"scheduler for {self.user}")
        self._open = True
        await self.settle()

    async def settle(self) -> None:
        """Begin or end to take requests, as `listens` says now; reads are taken in any case."""
        async with self._settling:
            is_open = self._open and self._shutting is None
            if is_open and not self._reads:
                await self._listen_to_reads()
            elif not is_open and self._reads:
                await self._end_reads()
            wanted = is_open and self._listens()
            if wanted and self._subscription is None:
                await self._listen()
            elif not wanted and self._subscription is not None:
                await self._end()

    async def _listen(self) -> None:
        subject = subjects.requests_of_user(self.user)
        self._subscription = await self.connection.subscribe(subject, cb=self._request)
        await self.connection.flush()

    async def _listen_to_reads(self) -> None:
        """Hear the reads for this scheduler, and a share of those for any."""
        for at, group in ((self._at, ""), (subjects.ANY, subjects.READERS)):
            subject = subjects.reads_of_user(self.user, at)
            heard = await self.connection.subscribe(subject, group, cb=self._request)
            self._reads.append(heard)
        await self.connection.flush()

    async def _end_reads(self) -> None:
        reads, self._reads = self._reads, []
        for each in reads:
            await each.unsubscribe()

    async def _end(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.unsubscribe()

    async def drain(self) -> None:
        """Take no more requests; return once those that came are received."""
        async with self._settling:
            self._open = False
            ended = [*self._reads, *([self._subscription] if self._subscription else [])]
            self._reads, self._subscription = [], None
            for each in ended:
                with contextlib.suppress(OSError):  # a lost one gets nothing
                    await each.drain()

    async def _request(self, message: BrokerMessage) -> None:
        if await self._receive(message) and self._shutting is None:
            self._count("users_shut")
            self._shutting = asyncio.create_task(self._shut())

    async def _shut(self) -> None:
        """Unsubscribe for SHUT_S; runs in its own task, since this ends the reading task."""
        try:
            await self.settle()
            await asyncio.sleep(SHUT_S)
            self._shutting = None
            await self.settle()
        except OSError as error:
            _log.warning("a user's requests are not received", user=self.user, error=repr(error))
            await self.connection.close()  # `settle` opens it again
        finally:
            self._shutting = None

    async def close(self) -> None:
        """Close the connection; clients repeat the requests that were open on it. One that does
        not close in time is cut, for while it is there the broker sends it requests."""
        if self._shutting is not None:
            self._shutting.cancel()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self.connection.close(), CLOSE_S)
        self.connection.cut()


class UserConnections:
    """The connections of all users."""

    def __init__(
        self,
        connect: Connect,
        receive: Receive,
        count: Callable[[str], None],
        listens: Callable[[], bool],
        at: str,
    ) -> None:
        """`listens` is true while this scheduler takes requests; see `listen`. `at` names it to
        users who read here."""
        self._listens = listens
        self._at = at
        self._connect = connect
        self._receive = receive
        self._count = count
        self._of_user: dict[str, UserConnection] = {}
        self._settling = asyncio.Lock()
        """Two that settle at once would each connect a user, whose requests then came twice."""

    @property
    def connections(self) -> list[BrokerConnection]:
        """The connections, open or lost."""
        return [each.connection for each in self._of_user.values()]

    async def settle(self, users: Iterable[str]) -> None:
        """Open the connections of new users and close those of users who are gone."""
        wanted = set(users)
        async with self._settling:
            closed = {user for user, each in self._of_user.items() if each.connection.is_closed}
            for user in (self._of_user.keys() - wanted) | closed:
                await self._of_user.pop(user).close()
            gate = asyncio.Semaphore(OPENING_MAX)
            new = sorted(wanted - self._of_user.keys())
            await asyncio.gather(*(self._open(user, gate) for user in new))

    async def listen(self) -> None:
        """Begin or end to take requests of all users, as `listens` says now."""
        for each in list(self._of_user.values()):
            with contextlib.suppress(OSError):  # `settle` opens it again
                await each.settle()

    async def drain(self) -> None:
        """Take no more requests of anybody; return once those that came are received."""
        await asyncio.gather(*(each.drain() for each in self._of_user.values()))

    async def _open(self, user: str, gate: asyncio.Semaphore) -> None:
        connection = self._of_user[user] = UserConnection(
            user, self._receive, self._count, self._listens, self._at
        )
        async with gate:
            await connection.open(self._connect)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self._of_user.values()))
