# SPDX-License-Identifier: Apache-2.0
"""The connections of a scheduler or registrar to its node's broker, which outlive its restarts.

Owns their settings: no publish is repeated after a reconnect, nothing is sent to a broker of
another user, and a broker that moved to another port is found again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from pathlib import Path

import nats.errors
from nats.aio.client import Client as Connection

from stoker.mesh.connection import context
from stoker.mesh.connection.broker_connection import (
    HANDSHAKE_S,
    RECONNECT_S,
    BrokerConnection,
    ConnectionCallbacks,
)
from stoker.mesh.connection.broker_session import SessionOptions
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.identity import identity as identities
from stoker.mesh.wire import subjects
from stoker.native.errors import NotSupported, StokerError
from stoker.native.structured_log import structlog

SCHEDULER = "scheduler"

log = structlog.get_logger("scheduler")


def key_file(state: Path, identity: str = SCHEDULER) -> Path:
    """Return the path of an identity's seed."""
    return state / "keys" / f"{identity}.nk"


async def begin(
    connection: BrokerConnection, state: Path, name: str, callbacks: ConnectionCallbacks
) -> None:
    """Connect as this node's scheduler, with retries without limit, now and after each loss."""
    options = SessionOptions(
        identities.load(key_file(state)),
        name,
        subjects.inbox(SCHEDULER),
        context.own_certificate(state),
    )
    await connection.connect(lambda: context.own_broker(state), options, callbacks)


async def connect(
    nc: LocalConnection,
    state: Path,
    name: str,
    callbacks: ConnectionCallbacks,
    *,
    identity: str = SCHEDULER,
    again_s: float = RECONNECT_S,
) -> None:
    """Connect a client of nats-py as an identity of this node, with retries without limit every
    `again_s`; it reconnects from then on."""
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
