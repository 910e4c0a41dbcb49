# SPDX-License-Identifier: Apache-2.0
"""Requests for entries of the log's stream, which are answered into one inbox.

Owns what ends an answer: a full batch or a status; any other status is a failure of reading.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.wire import subjects
from stoker.native.errors import Unavailable

FETCH_BATCH = 256
FETCH_BYTES = 4 << 20
FETCH_S = 5.0
"""An answer has failed if nothing comes for this long."""
COPY = f"$JS.API.DIRECT.GET.{subjects.LOG_STREAM}"
"""Each broker with a copy may answer here, whether the stream has a leader or not."""

_ENDS = (
    "204 EOB",
    "404 No Messages",
    "404 Message Not Found",
    "408 Request Timeout",
    "409 Batch Completed",
    "409 Message Size Exceeds MaxBytes",
)
"""Statuses that end an answer normally."""


class SilentLog(Unavailable):
    """The broker that was to answer says nothing."""


class NobodyReads(Unavailable):
    """No broker has the stream, or none reads it now."""


class StreamInbox:
    """The inbox of one reading; each `fetch` sends one request to `subject`, and has failed if
    nothing comes for `patience_s`."""

    def __init__(self, connection: Connection, subject: str, patience_s: float = FETCH_S) -> None:
        self._nc = connection
        self._subject = subject
        self._patience_s = patience_s
        self._reads_copy = subject == COPY
        self._inbox = connection.new_inbox()
        self._batch: list[tuple[int, bytes]] = []
        self._over = asyncio.Event()
        self._error = ""
        self._subscription: Any = None

    async def fetch(self, request: Mapping[str, object]) -> list[tuple[int, bytes]]:
        """Return at most FETCH_BATCH entries with their sequences; none at the end of the log."""
        if self._subscription is None:
            with _as_unavailable():
                self._subscription = await self._nc.subscribe(self._inbox, cb=self._take)
        self._batch = []
        self._over.clear()
        body = msgspec.json.encode({"batch": FETCH_BATCH, "max_bytes": FETCH_BYTES, **request})
        with _as_unavailable():
            await self._nc.publish(self._subject, body, reply=self._inbox)
        await self._wait()
        if self._error.startswith("503"):
            raise NobodyReads("reading the log: no broker reads it now")
        if self._error:
            raise Unavailable(f"reading the log: {self._error}")
        return self._batch

    async def _wait(self) -> None:
        """Wait for the end of the answer, as long as more of it comes."""
        count = -1
        while not self._over.is_set():
            if len(self._batch) == count:
                raise SilentLog("reading the log: the engine went silent")
            count = len(self._batch)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), self._patience_s)

    async def _take(self, message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get("Status")
        if status is None:
            self._batch.append((self._sequence(message), message.data))
            # A copy is read up to a status, which would end the next answer otherwise.
            if len(self._batch) >= FETCH_BATCH and not self._reads_copy:
                self._over.set()
        elif status != "100":
            description = str(headers.get("Description"))
            if f"{status} {description}" not in _ENDS:
                self._error = f"{status} {description}"
            self._over.set()

    def _sequence(self, message: Msg) -> int:
        if self._reads_copy:
            return int((message.headers or {})["Nats-Sequence"])
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
        return int(message.reply.split(".")[5])

    async def close(self) -> None:
        """End the subscription of the inbox."""
        if self._subscription is not None and self._nc.is_connected:
            with contextlib.suppress(nats.errors.Error):
                await self._subscription.unsubscribe()


@contextlib.contextmanager
def _as_unavailable() -> Iterator[None]:
    try:
        yield
    except (nats.errors.Error, OSError) as error:
        raise Unavailable(f"reading the log: {error!r}") from None
