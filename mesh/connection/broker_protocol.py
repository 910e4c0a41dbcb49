# SPDX-License-Identifier: Apache-2.0
"""One connection to a broker, as asyncio calls it: greeting, requests with replies, liveness, loss.

It is never reconnected; who uses it makes another one. It speaks the few words of the NATS protocol
that requests and replies need, since a general client costs a process more memory than all its
connections, and each message several tasks. A loss, or a subject that the broker refused, ends the
requests that it concerns with an error.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections import deque
from collections.abc import Mapping
from typing import ClassVar, NamedTuple, cast

import msgspec

from stoker.mesh.connection import nats_frames
from stoker.mesh.connection.nats_frames import (
    Delivery,
    ErrorFrame,
    Frames,
    InfoFrame,
    PingFrame,
    PongFrame,
)
from stoker.mesh.identity.identity import Identity
from stoker.native.errors import StokerError, Unavailable

PINGS_OPEN_MAX = 2
"""A broker that has left as many of these unanswered counts as lost."""
BULK_BYTES = 32 * 1024
"""The bytes at once after which the loop does its other work before it reads on. By itself it reads
from one connection for up to half a second, while a flood comes there."""
REPLIES = b"1"
"""The number of the subscription to replies."""


class Greeting(msgspec.Struct, frozen=True):
    """The part of the broker's INFO that a client needs."""

    max_payload: int = 1 << 20
    nonce: str = ""


class OpenRequest(NamedTuple):
    """A request that waits for its answer."""

    subject: str
    answer: asyncio.Future[bytes]


class BrokerProtocol(asyncio.Protocol):
    """One connection and its open requests; each request ends with a reply or an error."""

    ping_s: ClassVar[float] = 2.0
    """Seconds of silence after which the broker is asked whether it is still there, and between
    two such questions."""

    def __init__(self, key: Identity, name: str, inbox: str) -> None:
        """`inbox` is the subject under which replies are taken."""
        self._key = key
        self._name = name
        self.max_payload = 0
        """The most bytes of a message, by the broker's word."""
        self.denied = ""
        """The broker's last word that this key may not use a subject."""
        self._inbox = f"{inbox}.{os.urandom(12).hex()}"
        self._count = 0
        self._open: dict[str, OpenRequest] = {}
        self._frames = Frames()
        self._transport: asyncio.Transport | None = None
        self._gathered: list[bytes] | None = None
        """The bytes that wait for the end of this turn of the loop; None if it has written none."""
        self._lost = False
        self._pings = 0
        self._flushes: deque[asyncio.Future[None] | None] = deque()
        """A future for each ping that is unanswered, or None if it only asks for a sign of life."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._loop.time()
        """The time at which bytes of the broker arrived last."""
        self._greeted: asyncio.Future[Greeting] = self._loop.create_future()
        self._taken: asyncio.Future[None] = self._loop.create_future()
        self.complaint = ""
        """The last error that the broker reported."""

    @property
    def live(self) -> bool:
        """True until the connection is lost or closed."""
        return not self._lost

    async def begin(self) -> None:
        """Answer the broker's greeting and subscribe; call this before the first request.
        ConnectionError if the broker wants no such client."""
        greeting = await self._greeted
        self._check_broker()
        self.max_payload = greeting.max_payload
        signature = base64.b64encode(self._key.sign(greeting.nonce.encode())).decode()
        said = {"verbose": False, "pedantic": False, "lang": "python", "version": "1",
                "protocol": 1, "headers": True, "no_responders": True, "name": self._name,
                "nkey": self._key.public, "sig": signature}  # fmt: skip
        subscriptions = b"SUB %s.* %s\r\n%s" % (self._inbox.encode(), REPLIES, self._subscribe())
        self._write(b"CONNECT %s\r\n%sPING\r\n" % (msgspec.json.encode(said), subscriptions))
        await self._taken
        self._timer = self._loop.call_later(self.ping_s, self._look)

    async def request(
        self,
        subject: str,
        data: bytes,
        timeout_s: float,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the reply to one request.

        Raises Unavailable if there is none, Denied if the broker refuses the subject.
        """
        self._count += 1
        number = str(self._count)
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._open[number] = OpenRequest(subject, answer)
        timer = self._loop.call_later(timeout_s, self._expire, answer, subject, timeout_s)
        try:
            if self._lost:
                raise _lost()
            inbox = f"{self._inbox}.{number}"
            headers = headers or self._headers(subject, data)
            self._write(nats_frames.publication(subject, inbox, data, headers))
            return await answer
        finally:
            timer.cancel()
            del self._open[number]

    async def flush(self) -> None:
        """Return once the broker has taken all that was written before; OSError if it is lost."""
        if self._lost:
            raise ConnectionResetError(self.complaint)
        taken: asyncio.Future[None] = self._loop.create_future()
        self._flushes.append(taken)
        self._write(b"PING\r\n")
        await taken

    async def close(self) -> None:
        """End the connection at once: whoever awaits nothing more has nothing to wait for."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    # --- what each kind of client says of itself --------------------------------------------------

    def _check_broker(self) -> None:
        """Raise OSError unless the broker that greeted is the one that is meant."""

    def _subscribe(self) -> bytes:
        """Return the frames of further subscriptions."""
        return b""

    def _headers(self, subject: str, data: bytes) -> Mapping[str, str] | None:
        """Return the headers of a request."""
        return None

    def _deliver(self, message: Delivery) -> None:
        """Take a message that is no reply to an open request."""

    def _no_responder(self) -> StokerError:
        """Return the error of a request that nobody listens to."""
        return Unavailable("nobody answers")

    def _overdue(self, subject: str, timeout_s: float) -> StokerError:
        """Return the error of a request without a reply."""
        return Unavailable(f"no answer within {timeout_s:g} s")

    # --- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard_s, self._pings = self._loop.time(), 0
        if len(data) >= BULK_BYTES:
            self._let_others_work()
        try:
            for frame in self._frames.feed(data):
                self._take(frame)
        except (ValueError, msgspec.MsgspecError) as error:
            self.complaint = f"it does not speak NATS: {error}"
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def _let_others_work(self) -> None:
        assert self._transport is not None
        if self._transport.is_reading():
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._lost and not self._transport.is_closing():
            self._transport.resume_reading()

    def _take(self, frame: nats_frames.Frame) -> None:
        match frame:
            case Delivery():
                self._answer(frame)
            case PingFrame():
                self._write(b"PONG\r\n")
            case PongFrame():
                self._ponged()
            case InfoFrame():
                if not self._greeted.done():
                    self._greeted.set_result(msgspec.json.decode(frame.data, type=Greeting))
            case ErrorFrame():
                self._complain(frame.words)

    def _ponged(self) -> None:
        """The broker answers pings in their order; the first one is that of the greeting."""
        waiting: asyncio.Future[None] | None = self._taken
        if self._taken.done():
            waiting = self._flushes.popleft() if self._flushes else None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def _answer(self, message: Delivery) -> None:
        inbox, _, number = message.subject.rpartition(".")
        if inbox != self._inbox:
            self._deliver(message)
            return
        asked = self._open.get(number)
        if asked is None or asked.answer.done():
            return
        answer = asked.answer
        if message.status == "503":
            answer.set_exception(self._no_responder())
        else:
            answer.set_result(message.data)

    def _complain(self, words: str) -> None:
        """Remember an error; a refused publish is one that its sender would only see as a
        timeout."""
        self.complaint = words[:500]
        if "permissions violation" in words.lower():
            self.denied = self.complaint

    def _expire(self, answer: asyncio.Future[bytes], subject: str, timeout_s: float) -> None:
        if not answer.done():
            answer.set_exception(self._overdue(subject, timeout_s))

    def _look(self) -> None:
        """Ask a silent broker whether it is there, and give up one that stays silent. One that has
        just been heard is asked nothing."""
        assert self._transport is not None
        if self._pings >= PINGS_OPEN_MAX:
            self._transport.abort()
            return
        due_s = self._heard_s + self.ping_s
        if self._pings or self._loop.time() >= due_s:
            self._pings += 1
            self._flushes.append(None)
            self._write(b"PING\r\n")
            due_s = self._loop.time() + self.ping_s
        self._timer = self._loop.call_at(due_s, self._look)

    def _write(self, data: bytes) -> None:
        """Write at once, or together with all that follows in one turn of the loop: each write is a
        TLS record, which costs the broker more than the message in it."""
        if self._transport is None or self._lost:
            return
        if self._gathered is None:
            self._gathered = []
            self._loop.call_soon(self._write_gathered)
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
        for waiting in (self._greeted, self._taken, *self._flushes):
            if waiting is not None and not waiting.done():
                waiting.set_exception(ConnectionResetError(self.complaint))
                waiting.exception()  # whoever waits gets it; else nobody has to
        for asked in self._open.values():
            if not asked.answer.done():
                asked.answer.set_exception(_lost())


def _lost() -> Unavailable:
    return Unavailable("the connection to the node was lost before it answered")
