# SPDX-License-Identifier: Apache-2.0
"""Requests on one connection that end at once when the connection is lost.

Owns one inbox. Guarantees that every request ends exactly once.
"""

from __future__ import annotations

import asyncio
from typing import Any

import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.connection.local_connection import send_now
from stoker.native.errors import Denied, Unavailable

PENDING_MAX = 256


class Requests:
    """The open requests of a connection.

    `on_error` and `on_lost` must be the connection's error_cb and disconnected_cb.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._inbox = ""
        self._number = 0
        self._pending: dict[str, asyncio.Future[Msg]] = {}

    async def on_error(self, error: Exception) -> None:
        """End the open requests if a publish was refused, which is reported nowhere else."""
        text = str(error)
        if "permissions violation" in text.lower():
            self._fail(Denied(f"the broker refused the request: {text[:300]}"))

    async def on_lost(self) -> None:
        """End the open requests: their replies cannot arrive any more."""
        self._fail(Unavailable("the connection to the broker was lost"))

    async def request(
        self, subject: str, data: bytes, timeout_s: float, headers: dict[str, str] | None = None
    ) -> bytes:
        """Return the reply; Unavailable if there is none, Denied if the broker refused."""
        if not self._inbox:
            self._inbox = self.connection.new_inbox()
            await self.connection.subscribe(f"{self._inbox}.*", cb=self._answered)
        if len(self._pending) >= PENDING_MAX:
            raise Unavailable(f"{PENDING_MAX} requests are unanswered")
        loop = asyncio.get_running_loop()
        self._number += 1
        name = f"{self._inbox}.{self._number}"
        future: asyncio.Future[Msg] = loop.create_future()
        self._pending[name] = future
        timer = loop.call_later(timeout_s, _time_out, future, subject, timeout_s)
        try:
            await self.connection.publish(subject, data, reply=name, headers=headers)
            send_now(self.connection)
            message = await future
        except (nats.errors.Error, OSError) as error:
            raise Unavailable(f"{subject}: {error!r}") from None
        finally:
            timer.cancel()
            del self._pending[name]
            if future.done() and not future.cancelled():
                future.exception()  # retrieved, also if publishing failed first
        if message.headers is not None and message.headers.get("Status") == "503":
            raise Unavailable(f"no process serves {subject}")
        return message.data

    async def _answered(self, message: Msg) -> None:
        future = self._pending.get(message.subject)
        if future is not None and not future.done():
            future.set_result(message)

    def _fail(self, error: Exception) -> None:
        for future in self._pending.values():
            if not future.done():
                future.set_exception(error)


def _time_out(future: asyncio.Future[Any], subject: str, timeout_s: float) -> None:
    if not future.done():
        future.set_exception(Unavailable(f"no answer to {subject} within {timeout_s:g} s"))
