# SPDX-License-Identifier: Apache-2.0
"""One connection of a client, made with the user's key; it is never reconnected.

Owns the settings of the connection. It speaks the few words of the NATS protocol that requests and
replies need, since a general client costs every command more time than the request itself. A loss,
or a subject that the server refused, ends the requests that it concerns with an error.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from stoker.mesh.connection import nats_frames
from stoker.mesh.connection.context import LOOPBACK, Context
from stoker.mesh.connection.nats_frames import (
    Delivery,
    ErrorFrame,
    Frames,
    InfoFrame,
    PingFrame,
    PongFrame,
)
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import request_signature
from stoker.native.errors import Busy, Denied, StokerError, Unavailable

CONNECT_S = 2
PING_S = 2.0
"""Seconds between two questions whether the broker is still there."""
PINGS_OPEN_MAX = 2
"""A broker that has left as many of these unanswered counts as lost."""
_NAME: Any = certificate.NAMES[0].encode("ascii")
"""The broker's name in its certificate. `ssl` takes bytes as they are; for a text it would load the
codec of international names, which costs a command up to 9 million instructions of some 540."""
_REPLIES = b"1"
"""The number of the only subscription."""


class Greeting(msgspec.Struct, frozen=True):
    """The part of the broker's INFO that a client needs."""

    max_payload: int = 1 << 20
    nonce: str = ""


class ClientConnection(asyncio.Protocol):
    """One connection and its open requests; each request ends with a reply or an error."""

    def __init__(self, key: Identity) -> None:
        self._key = key
        self.signs = False
        """True if requests that change something are signed, because the node demands it."""
        self.max_payload = 0
        """The most bytes of a request, by the broker's word."""
        self._denied = ""
        self._inbox = f"_INBOX.{os.urandom(12).hex()}"
        self._count = 0
        self._open: dict[str, asyncio.Future[bytes]] = {}
        self._frames = Frames()
        self._transport: asyncio.WriteTransport | None = None
        self._gathered: list[bytes] | None = None
        """The bytes that wait for the end of this turn of the loop; None if it has written none."""
        self._lost = False
        self._pings = 0
        self._timer: asyncio.TimerHandle | None = None
        loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[Greeting] = loop.create_future()
        self._taken: asyncio.Future[None] = loop.create_future()
        self.complaint = ""
        """The last error that the broker reported."""

    @property
    def live(self) -> bool:
        """True until the connection is lost or closed."""
        return not self._lost

    async def begin(self) -> None:
        """Answer the broker's greeting and subscribe to replies; call this before the first
        request. ConnectionError if the broker wants no such client."""
        greeting = await self._greeted
        self.max_payload = greeting.max_payload
        signature = base64.b64encode(self._key.sign(greeting.nonce.encode())).decode()
        said = {"verbose": False, "pedantic": False, "lang": "python", "version": "1",
                "protocol": 1, "headers": True, "no_responders": True, "name": "stoker client",
                "nkey": self._key.public, "sig": signature}  # fmt: skip
        subscription = b"SUB %s.* %s\r\n" % (self._inbox.encode(), _REPLIES)
        self._write(b"CONNECT %s\r\n%sPING\r\n" % (msgspec.json.encode(said), subscription))
        await self._taken
        self._timer = asyncio.get_running_loop().call_later(PING_S, self._ping)

    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        """Return the reply to one request.

        Raises Unavailable if there is none, Denied if the server refuses the subject.
        """
        loop = asyncio.get_running_loop()
        self._count += 1
        number = str(self._count)
        answer: asyncio.Future[bytes] = loop.create_future()
        self._open[number] = answer
        timer = loop.call_later(timeout_s, self._expire, answer, subject, timeout_s)
        try:
            if self._lost:
                raise _lost()
            signed = request_signature.headers(self._key, subject, data) if self.signs else None
            inbox = f"{self._inbox}.{number}"
            self._write(nats_frames.publication(subject, inbox, data, signed))
            return await answer
        finally:
            timer.cancel()
            del self._open[number]

    async def close(self) -> None:
        """End the connection at once: whoever awaits nothing more has nothing to wait for."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # --- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._take(frame)
        except (ValueError, msgspec.MsgspecError) as error:
            self.complaint = f"it does not speak NATS: {error}"
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _take(self, frame: nats_frames.Frame) -> None:
        match frame:
            case Delivery():
                self._answer(frame)
            case PingFrame():
                self._write(b"PONG\r\n")
            case PongFrame():
                self._pings = 0
                if not self._taken.done():
                    self._taken.set_result(None)
            case InfoFrame():
                if not self._greeted.done():
                    self._greeted.set_result(msgspec.json.decode(frame.data, type=Greeting))
            case ErrorFrame():
                self._complain(frame.words)

    def _answer(self, message: Delivery) -> None:
        answer = self._open.get(message.subject.rpartition(".")[2])
        if answer is None or answer.done():
            return
        if message.status == "503":
            answer.set_exception(Unavailable("the node's scheduler is not answering"))
        else:
            answer.set_result(message.data)

    def _complain(self, words: str) -> None:
        """Remember an error; a refused publish is one that its sender would only see as a
        timeout."""
        self.complaint = words[:500]
        if "permissions violation" in words.lower():
            self._denied = self.complaint

    def _expire(self, answer: asyncio.Future[bytes], subject: str, timeout_s: float) -> None:
        if answer.done():
            return
        if subject in self._denied:
            what = " ".join(subject.split(".")[2:])
            answer.set_exception(
                Denied(f"this key may not do this: {what}", hint="An administrator of the node may")
            )
        else:
            answer.set_exception(Unavailable(f"no answer within {timeout_s:g} s"))

    def _ping(self) -> None:
        """Ask the broker whether it is there; a silent one is given up."""
        assert self._transport is not None
        if self._pings >= PINGS_OPEN_MAX:
            self._transport.abort()
            return
        self._pings += 1
        self._write(b"PING\r\n")
        self._timer = asyncio.get_running_loop().call_later(PING_S, self._ping)

    def _write(self, data: bytes) -> None:
        """Write at once, or together with all that follows in one turn of the loop: each write is a
        TLS record, which costs the broker more than the request in it."""
        if self._transport is None or self._lost:
            return
        if self._gathered is None:
            self._gathered = []
            asyncio.get_running_loop().call_soon(self._write_gathered)
            self._transport.write(data)
        else:
            self._gathered.append(data)

    def _write_gathered(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered and self._transport is not None and not self._lost:
            self._transport.write(b"".join(gathered))

    def _end(self) -> None:
        """End everything that waits for the lost connection."""
        self._lost = True
        if self._timer is not None:
            self._timer.cancel()
        for waiting in (self._greeted, self._taken):
            if not waiting.done():
                waiting.set_exception(ConnectionResetError(self.complaint))
                waiting.exception()  # whoever waits gets it; else nobody has to
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(_lost())


def _lost() -> Unavailable:
    return Unavailable("the connection to the node was lost before it answered")


async def connect(where: Context) -> ClientConnection:
    """Connect to this node as this user; a StokerError says why that failed."""
    client = ClientConnection(identity.load(where.seed_file))
    place = urlsplit(where.url)
    try:
        async with asyncio.timeout(CONNECT_S):
            await asyncio.get_running_loop().create_connection(
                lambda: client,
                place.hostname or LOOPBACK,
                place.port or 0,
                ssl=certificate.pinned(where.certificate),
                server_hostname=_NAME,
            )
        async with asyncio.timeout(CONNECT_S):
            await client.begin()
    except ssl.SSLCertVerificationError as error:
        raise Unavailable(
            f"the program at {where.url} is not this node's broker: {error.reason or error}",
            hint=f"another program took its port, or {where.certificate} is an old copy",
        ) from None
    except (TimeoutError, OSError):
        await client.close()
        if client.complaint:
            raise _refused(where, client.complaint) from None
        raise Unavailable(
            f"the node at {where.url} does not take connections",
            hint="is it running? `stoker up` starts it",
        ) from None
    return client


def _refused(where: Context, complaint: str) -> StokerError:
    if "authorization" in complaint.lower():
        return Denied(
            f"the node at {where.url} does not take the key {where.seed_file} of {where.user}:"
            " it was revoked, or is for another node",
            hint="an administrator can give another one: stoker user add",
        )
    if "account active connections" in complaint.lower():
        return Busy(
            f"{where.user} has as many connections to the node as one user may have",
            hint="end some; an administrator can raise budgets.connections",
        )
    return Unavailable(f"the node at {where.url} ended the connection: {complaint}")
