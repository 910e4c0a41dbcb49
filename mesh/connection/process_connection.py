# SPDX-License-Identifier: Apache-2.0
"""The connections of a scheduler or registrar to its node's broker, which nats-py reconnects.

Owns their settings: no publish is repeated after a reconnect, nothing is sent to a broker of
another user, and a broker that moved to another port is found again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import nats.errors
from nats.aio.client import Client as Connection

from stoker.mesh.connection import context
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.wire import subjects
from stoker.native.errors import NotSupported, StokerError
from stoker.native.structured_log import structlog

RECONNECT_S = 0.1
HANDSHAKE_S = 3
SCHEDULER = "scheduler"

log = structlog.get_logger("scheduler")


class ConnectionCallbacks(NamedTuple):
    """The functions that nats-py calls for errors, a loss and a reconnect."""

    error: Callable[[Exception], Awaitable[None]]
    lost: Callable[[], Awaitable[None]]
    back: Callable[[], Awaitable[None]]


def key_file(state: Path, identity: str = SCHEDULER) -> Path:
    """Return the path of an identity's seed."""
    return state / "keys" / f"{identity}.nk"


async def connect(
    nc: LocalConnection,
    state: Path,
    name: str,
    callbacks: ConnectionCallbacks,
    *,
    identity: str = SCHEDULER,
    again_s: float = RECONNECT_S,
) -> None:
    """Connect as an identity of this node, with retries without limit every `again_s`; nats-py
    reconnects from then on."""
    while True:
        try:
            await nc.connect(
                context.own_broker(state),
                name=name,
                nkeys_seed=str(key_file(state, identity)),
                inbox_prefix=subjects.inbox(identity).encode(),
                error_cb=callbacks.error,
                disconnected_cb=callbacks.lost,
                reconnected_cb=callbacks.back,
                pending_size=-1,
                **context.own_security(state),
                connect_timeout=HANDSHAKE_S,
                ping_interval=2,
                max_outstanding_pings=2,
                max_reconnect_attempts=-1,
                reconnect_time_wait=again_s,  # type: ignore[arg-type]  # passed to sleep
            )
            nc.check_proven()
            return
        except NotSupported:
            raise
        except (nats.errors.Error, StokerError, OSError, TimeoutError) as error:
            log.warning("no broker yet", error=repr(error))
            await asyncio.sleep(again_s)


def follow(connections: Iterable[Connection], state: Path) -> None:
    """Point lost connections at the broker's present port, which may have changed.

    Call this when a connection is lost and once a second.
    """
    lost = [nc for nc in connections if not nc.is_connected]
    with contextlib.suppress(StokerError, nats.errors.Error):  # the next call tries again
        where = context.own_broker(state) if lost else ""
        for nc in lost:
            if any(server.geturl() != where for server in nc.servers):
                nc.set_server_pool([where])
