# SPDX-License-Identifier: Apache-2.0
"""Reads kept telemetry by number, and knows whether something before it is gone.

Owns the cursor: number and time of the last message that its reader had. A page begins at that
very message, so a stream that began anew, or discarded it, is noticed and never taken for silence.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.wire.telemetry_streams import STREAM_AGE_S, TelemetryStream
from stoker.native.errors import Unavailable

READ_S = 2.0
"""A reading has failed if nothing more of it comes for this long."""
NS = 1_000_000_000


class Cursor(NamedTuple):
    """The last message that a reader had: its number in the stream and its time there."""

    seq: int
    t_ns: int


class KeptMessage(NamedTuple):
    """One kept message."""

    seq: int
    t_ns: int
    subject: str
    data: bytes


class StreamPage(NamedTuple):
    """The result of one reading. `more` is true if the next one finds more at once."""

    messages: list[KeptMessage]
    more: bool
    gap: bool
    """True if messages between the cursor and these may be gone."""


class StreamReader:
    """Reads on one connection; each reading has an inbox of its own."""

    def __init__(self, connection: Connection) -> None:
        self._nc = connection

    async def after(
        self, stream: TelemetryStream, subject: str, cursor: Cursor, most: int, most_bytes: int
    ) -> StreamPage:
        """Return what came after a cursor, oldest first."""
        start = {"seq": cursor.seq}
        found, more = await self._fetch(stream, subject, start, most + 1, most_bytes)
        if found and (found[0].seq, found[0].t_ns) == cursor:
            return StreamPage(found[1:], more, False)
        if found and found[0].seq > cursor.seq and _has_expired(cursor, found[-1].t_ns):
            return StreamPage(found[:most], more, False)
        found, more = await self.since(stream, subject, cursor.t_ns + 1, most, most_bytes)
        return StreamPage(found, more, bool(found))

    async def since(
        self, stream: TelemetryStream, subject: str, t_ns: int, most: int, most_bytes: int
    ) -> tuple[list[KeptMessage], bool]:
        """Return the messages from a time on, oldest first, and whether there are more."""
        moment = datetime.fromtimestamp(t_ns // NS, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        start = {"start_time": f"{moment}.{t_ns % NS:09}Z"}
        return await self._fetch(stream, subject, start, most, most_bytes)

    async def _fetch(
        self,
        stream: TelemetryStream,
        subject: str,
        start: dict[str, Any],
        most: int,
        most_bytes: int,
    ) -> tuple[list[KeptMessage], bool]:
        inbox = _Inbox()
        request = {"batch": most, "max_bytes": most_bytes, "next_by_subj": subject, **start}
        reply = self._nc.new_inbox()
        try:
            subscription = await self._nc.subscribe(reply, cb=inbox.take)
            try:
                call = f"$JS.API.DIRECT.GET.{stream.name}"
                await self._nc.publish(call, msgspec.json.encode(request), reply=reply)
                await inbox.wait()
            finally:
                with contextlib.suppress(nats.errors.Error, OSError):
                    await subscription.unsubscribe()
        except (nats.errors.Error, OSError) as error:
            raise Unavailable(f"reading {stream.kind}: {error!r}") from None
        if inbox.error:
            raise Unavailable(f"reading {stream.kind}: {inbox.error}")
        return inbox.messages, inbox.more


def _has_expired(cursor: Cursor, newest_ns: int) -> bool:
    """Return True if a message of the cursor's time has been dropped for its age alone."""
    return newest_ns - cursor.t_ns > (STREAM_AGE_S - 1) * NS


class _Inbox:
    """The answer to one request: messages up to a status."""

    def __init__(self) -> None:
        self.messages: list[KeptMessage] = []
        self.more = False
        self.error = ""
        self._over = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the end of the answer, as long as more of it comes."""
        count = -1
        while not self._over.is_set():
            if len(self.messages) == count:
                self.error = "the broker went silent"
                return
            count = len(self.messages)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), READ_S)

    async def take(self, message: Msg) -> None:
        headers = message.headers or {}
        status = headers.get("Status")
        if status is None:
            t_ns = nanoseconds(headers["Nats-Time-Stamp"])
            seq, subject = int(headers["Nats-Sequence"]), headers["Nats-Subject"]
            self.messages.append(KeptMessage(seq, t_ns, subject, message.data))
            return
        if status not in ("204", "404", "413"):
            self.error = f"{status} {headers.get('Description', '')}".strip()
        self.more = int(headers.get("Nats-Num-Pending", "0")) > 0
        self._over.set()


def nanoseconds(stamp: str) -> int:
    """Return a broker's UTC time stamp (RFC 3339, up to nanoseconds) as CLOCK_REALTIME ns."""
    whole, _, part = stamp.rstrip("Z").partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return int(moment.timestamp()) * NS + int(part.ljust(9, "0")[:9] or 0)
