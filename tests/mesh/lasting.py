# SPDX-License-Identifier: Apache-2.0
"""A scheduler's connection to a broker that a test starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stoker.mesh.connection.broker_connection import BrokerConnection, ConnectionCallbacks
from stoker.mesh.connection.broker_session import SessionOptions
from stoker.mesh.identity import identity
from stoker.mesh.wire import subjects
from tests.mesh.nats_server import Server


async def nothing(*_: object) -> None:
    """Do nothing."""


NO_CALLBACKS = ConnectionCallbacks(nothing, nothing, nothing)


def options(server: Server, name: str = "test") -> SessionOptions:
    """Return the words by which the scheduler introduces itself to this broker."""
    key = identity.load(server.folder / "scheduler.nk")
    pinned = Path(server.settings.certificate_file)
    return SessionOptions(key, name, subjects.inbox("scheduler"), pinned)


async def begin(
    connection: BrokerConnection,
    server: Server,
    name: str = "test",
    callbacks: ConnectionCallbacks = NO_CALLBACKS,
    where: Callable[[], str] | None = None,
) -> None:
    """Connect as the scheduler, by TLS."""
    place = where or (lambda: server.url)
    await connection.connect(place, options(server, name), callbacks, 0.01)
