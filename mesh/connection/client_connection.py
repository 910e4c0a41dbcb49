# SPDX-License-Identifier: Apache-2.0
"""One connection of a client, made with the user's key; it is never reconnected.

Owns the settings of the connection, and what a user is told of a request that has no answer.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from stoker.mesh.connection.broker_protocol import BrokerProtocol
from stoker.mesh.connection.context import LOOPBACK, Context
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import request_signature
from stoker.native.errors import Busy, Denied, StokerError, Unavailable

CONNECT_S = 2
AGAIN_S = (0.05, 0.2)
"""The pauses before a refused key is shown again: a broker that reads its users anew refuses good
ones for a moment."""
_NAME: Any = certificate.NAMES[0].encode("ascii")
"""The broker's name in its certificate. `ssl` takes bytes as they are; for a text it would load the
codec of international names, which costs a command up to 9 million instructions of some 540."""


class ClientConnection(BrokerProtocol):
    """The connection of a user's client."""

    def __init__(self, key: Identity) -> None:
        super().__init__(key, "stoker client", "_INBOX")
        self.signs = False
        """True if requests that change something are signed, because the node demands it."""

    def _headers(self, subject: str, data: bytes) -> Mapping[str, str] | None:
        return request_signature.headers(self._key, subject, data) if self.signs else None

    def _no_responder(self) -> StokerError:
        return Unavailable("the node's scheduler is not answering")

    def _overdue(self, subject: str, timeout_s: float) -> StokerError:
        if subject not in self.denied:
            return super()._overdue(subject, timeout_s)
        what = " ".join(subject.split(".")[2:])
        return Denied(f"this key may not do this: {what}", hint="An administrator of the node may")


async def connect(where: Context) -> ClientConnection:
    """Connect to this node as this user; a StokerError says why that failed."""
    for pause_s in AGAIN_S:
        try:
            return await _connect(where)
        except Denied:
            await asyncio.sleep(pause_s)
    return await _connect(where)


async def _connect(where: Context) -> ClientConnection:
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
