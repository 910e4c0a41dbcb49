# SPDX-License-Identifier: Apache-2.0
"""One connection of a client, made with the user's key; it is never reconnected.

Owns the settings of the connection. A loss, or a subject that the server refused, which nats-py
reports to callbacks only, ends the requests that it concerns with an error.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl

import nats.errors
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.connection.context import Context
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Signs
from stoker.mesh.wire import request_signature
from stoker.native.errors import Busy, Denied, StokerError, Unavailable

CONNECT_S = 2


class ClientConnection:
    """One connection and its open requests; each request ends with a reply or an error.

    nats-py's own `request` takes twice the time and does not notice a lost connection.
    """

    def __init__(self, key: Signs) -> None:
        self.connection = Connection()
        self._key = key
        self.signs = False
        """True if requests that change something are signed, because the node demands it."""
        self._denied = ""
        self._inbox = f"_INBOX.{secrets.token_hex(12)}"
        self._count = 0
        self._open: dict[str, asyncio.Future[bytes]] = {}
        self._lost = False

    async def listen(self) -> None:
        """Subscribe to replies; call this before the first request."""
        await self.connection.subscribe(f"{self._inbox}.*", cb=self._on_answer)

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
            await self.connection.publish(subject, data, reply=inbox, headers=signed)
            return await answer
        except (nats.errors.Error, OSError) as error:
            raise Unavailable(f"the connection to the node failed: {error}") from None
        finally:
            timer.cancel()
            del self._open[number]

    async def _on_answer(self, message: Msg) -> None:
        answer = self._open.get(message.subject.rpartition(".")[2])
        if answer is None or answer.done():
            return
        if message.headers and message.headers.get("Status") == "503":
            answer.set_exception(Unavailable("the node's scheduler is not answering"))
        else:
            answer.set_result(message.data)

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

    async def on_error(self, error: Exception) -> None:
        """Remember a refused publish, which its sender would only see as a timeout."""
        if "permissions violation" in str(error).lower():
            self._denied = str(error)[:500]

    async def on_end(self) -> None:
        """End the open requests of the lost connection."""
        self._lost = True
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(_lost())


def _lost() -> Unavailable:
    return Unavailable("the connection to the node was lost before it answered")


async def connect(where: Context) -> ClientConnection:
    """Connect to this node as this user; a StokerError says why that failed."""
    secured = certificate.connecting(where.certificate)
    client = ClientConnection(identity.load(where.seed_file))  # nats-py reads the file again
    try:
        # The caller makes a new connection instead, since the node may return at another port.
        await client.connection.connect(
            where.url,
            name="stoker client",
            error_cb=client.on_error,
            closed_cb=client.on_end,
            disconnected_cb=client.on_end,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_S,
            ping_interval=2,
            max_outstanding_pings=2,
            pending_size=-1,
            nkeys_seed=str(where.seed_file),
            **secured,
        )
        await client.listen()
    except ssl.SSLCertVerificationError as error:
        raise Unavailable(
            f"the program at {where.url} is not this node's broker: {error.reason or error}",
            hint=f"another program took its port, or {where.certificate} is an old copy",
        ) from None
    except (TimeoutError, nats.errors.NoServersError, OSError):
        raise Unavailable(
            f"the node at {where.url} does not take connections",
            hint="is it running? `stoker up` starts it",
        ) from None
    except nats.errors.Error as error:
        raise _refused(where, error) from None
    return client


def _refused(where: Context, error: Exception) -> StokerError:
    if "authorization" in str(error).lower():
        return Denied(
            f"the node at {where.url} does not take the key {where.seed_file} of {where.user}:"
            " it was revoked, or is for another node",
            hint="an administrator can give another one: stoker user add",
        )
    if "account active connections" in str(error).lower():
        return Busy(
            f"{where.user} has as many connections to the node as one user may have",
            hint="end some; an administrator can raise budgets.connections",
        )
    return Unavailable(f"the node at {where.url} ended the connection: {error}")
