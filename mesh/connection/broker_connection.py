# SPDX-License-Identifier: Apache-2.0
"""A connection of a server's process to its host's broker that is made again after each loss.

It carries what a job's way takes: requests, commands, outcomes and appends. Owns that subscriptions
outlive a loss and messages do not: what is published without a broker is refused, never repeated.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from stoker.mesh.connection import broker_session
from stoker.mesh.connection.broker_session import BrokerSession, SessionOptions
from stoker.mesh.connection.heard_subject import Admission, HeardSubject, MessageHandler, everything
from stoker.mesh.connection.nats_frames import Delivery
from stoker.native.errors import StokerError, Unavailable
from stoker.native.structured_log import structlog

HANDSHAKE_S = 3
FLUSH_S = 10.0
"""The longest wait until a broker has taken everything, also for one that is lost meanwhile."""
RECONNECT_S = 0.1

_log = structlog.get_logger("scheduler")


class ConnectionCallbacks(NamedTuple):
    """The functions that are called for errors, a loss and a return of the broker."""

    error: Callable[[Exception], Awaitable[None]]
    lost: Callable[[], Awaitable[None]]
    back: Callable[[], Awaitable[None]]


class BrokerConnection:
    """The connection; `connect` it once. Subscriptions may be made before and after a loss."""

    def __init__(self) -> None:
        self.is_closed = False
        self._heard: dict[bytes, HeardSubject] = {}
        self._numbers = itertools.count(2)
        self._inbox = ""
        self._session: BrokerSession | None = None
        self._up = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._errors: set[asyncio.Future[None]] = set()
        self._callbacks: ConnectionCallbacks | None = None

    @property
    def is_connected(self) -> bool:
        """True if messages can be sent now."""
        return self._session is not None and self._session.live

    async def connect(
        self,
        where: Callable[[], str],
        options: SessionOptions,
        callbacks: ConnectionCallbacks,
        again_s: float = RECONNECT_S,
    ) -> None:
        """Return once there is a broker, at the address that `where` names at each try; there is
        one try every `again_s`, without limit, now and after each loss."""
        self._callbacks, self._inbox = callbacks, options.inbox
        await self._begin(where, options, again_s)
        self._keeping = asyncio.create_task(self._keep(where, options, again_s))

    async def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a message; OSError if it cannot be sent now, ValueError if it never can."""
        if self._session is None:
            raise ConnectionResetError("the broker is not connected")
        self._session.publish(subject, data, reply, headers)

    async def request(
        self,
        subject: str,
        data: bytes,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the answer; Unavailable if there is none, Denied if the broker refuses it."""
        if self._session is None:
            raise Unavailable("the broker is not connected")
        return await self._session.request(subject, data, timeout_s, headers)

    async def subscribe(
        self, subject: str, queue: str = "", *, cb: MessageHandler, admits: Admission = everything
    ) -> HeardSubject:
        """Hear a subject, as a member of the group `queue` if that is named, and of its messages
        those that are admitted."""
        number = str(next(self._numbers)).encode()
        heard = self._heard[number] = HeardSubject(self, number, subject, queue, cb, admits=admits)
        if self._session is not None:
            self._session.send(heard.frame)
        return heard

    def new_inbox(self) -> str:
        """Return a subject for answers to this process that nobody else knows."""
        return f"{self._inbox}.{os.urandom(12).hex()}"

    async def flush(self) -> None:
        """Return once a broker has taken everything; TimeoutError if none has within FLUSH_S."""
        async with asyncio.timeout(FLUSH_S):
            while not self.is_closed:
                await self._up.wait()
                try:
                    if self._session is not None:
                        return await self._session.flush()
                except ConnectionError:
                    await asyncio.sleep(0)  # `_keep` notes the loss in this turn
        raise ConnectionResetError("the connection is closed")

    async def close(self) -> None:
        """Write what is pending, and end the connection for good."""
        self._end()
        if self._session is not None:
            await self._session.finish()

    def cut(self) -> None:
        """End the connection at once, for good; what is pending is lost."""
        self._end()
        if self._session is not None:
            self._session.cut()

    def _end(self) -> None:
        self.is_closed = True
        self._up.set()
        if self._keeping is not None:
            self._keeping.cancel()
        for heard in self._heard.values():
            heard.end()

    # --- what subscriptions and sessions need -----------------------------------------------------

    def forget(self, heard: HeardSubject) -> None:
        """Have the broker send no more of this subject."""
        if self._heard.pop(heard.number, None) is not None and self._session is not None:
            self._session.send(b"UNSUB %s\r\n" % heard.number)

    def deliver(self, message: Delivery) -> None:
        """Give a message to its subscription."""
        heard = self._heard.get(message.number)
        if heard is not None:
            heard.offer(message)

    def tell(self, error: Exception) -> None:
        """Report an error."""
        if self._callbacks is not None:
            telling = asyncio.ensure_future(self._callbacks.error(error))
            self._errors.add(telling)
            telling.add_done_callback(self._errors.discard)

    # --- the broker's coming and going ------------------------------------------------------------

    async def _begin(
        self, where: Callable[[], str], options: SessionOptions, again_s: float
    ) -> None:
        told = ""
        while True:
            try:
                session = BrokerSession(options, self)
                await broker_session.begin(session, where(), options.pinned, HANDSHAKE_S)
            except (StokerError, OSError, TimeoutError) as error:
                if repr(error) != told:  # each reason is written once, however many tries there are
                    _log.warning("no broker yet", connection=options.name, error=repr(error))
                told = repr(error)
                await asyncio.sleep(again_s)
            else:
                self._session = session
                session.send(b"".join(heard.frame for heard in self._heard.values()))
                self._up.set()
                return

    async def _keep(
        self, where: Callable[[], str], options: SessionOptions, again_s: float
    ) -> None:
        """Connect again after each loss, until the connection is closed."""
        assert self._callbacks is not None
        while self._session is not None:
            await self._session.lost.wait()
            lost, self._session = self._session, None
            self._up.clear()
            self.tell(ConnectionResetError(lost.complaint or "the broker is lost"))
            await self._say(self._callbacks.lost)
            await self._begin(where, options, again_s)
            await self._say(self._callbacks.back)

    async def _say(self, callback: Callable[[], Awaitable[None]]) -> None:
        try:
            await callback()
        except Exception as error:
            self.tell(error)
