# SPDX-License-Identifier: Apache-2.0
"""One connection of a client: made with the user's key, lost at most once, never mended in place.

Relied on by `mesh/client.py`, which makes the next one. Owns the settings of a connection and
the translation of what nats-py hides in callbacks: a loss, and a subject the server refused.
"""

from __future__ import annotations

import asyncio

import nats.errors
from nats.aio.client import Client as Connection

from stoker.mesh import identity
from stoker.mesh.context import Context
from stoker.native.errors import Denied, StokerError, Unavailable

CONNECT_S = 2


class Link:
    """One connection, the event of its loss, and what the server refused on it."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.lost = asyncio.Event()
        self.denied = ""

    async def on_error(self, error: Exception) -> None:
        """Keep a refused publish: to its sender nats-py shows it as a timeout only."""
        if "permissions violation" in str(error).lower():
            self.denied = str(error)[:500]

    async def on_end(self) -> None:
        """Wake everyone who waits for an answer on this connection."""
        self.lost.set()

    def raise_if_denied(self, subject: str) -> None:
        """Denied, if the server refused this subject."""
        if subject in self.denied:
            raise Denied(f"this key may not ask {subject}")


async def connect(where: Context) -> Link:
    """A connection to this node as this user, or the reason there is none."""
    identity.load(where.seed_file)  # for its checks and its messages; nats-py reads the file itself
    link = Link()
    try:
        # Reconnecting is done here, request by request: the node may come back at another port.
        await link.connection.connect(
            where.url,
            name="stoker client",
            error_cb=link.on_error,
            closed_cb=link.on_end,
            disconnected_cb=link.on_end,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=CONNECT_S,
            ping_interval=2,
            max_outstanding_pings=2,
            pending_size=-1,
            nkeys_seed=str(where.seed_file),
        )
    except (TimeoutError, nats.errors.NoServersError, OSError):
        raise Unavailable(
            f"the node at {where.url} does not take connections",
            hint="is it running? `stoker up` starts it",
        ) from None
    except nats.errors.Error as error:
        raise _refused(where, error) from None
    return link


def _refused(where: Context, error: Exception) -> StokerError:
    if "authorization" in str(error).lower():
        return Denied(f"the node at {where.url} does not know the key {where.seed_file}")
    return Unavailable(f"the node at {where.url} ended the connection: {error}")
