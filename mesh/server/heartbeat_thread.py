# SPDX-License-Identifier: Apache-2.0
"""The thread that sends heartbeats, on a connection and a loop of its own.

Guarantees that leases are renewed however busy the daemon's loop is: this thread needs only the
last `Authority` from it, and `mesh/replica/authority.py` bounds how old that may be.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path

import nats.errors
import structlog

from stoker.mesh.connection import process_connection
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.connection.process_connection import ConnectionCallbacks
from stoker.mesh.identity.identity import Signs
from stoker.mesh.replica.authority import Authority, Heartbeats
from stoker.mesh.wire import subjects

LOOK_S = 0.05
JOIN_S = 2.0

log = structlog.get_logger("scheduler")


class HeartbeatThread:
    """The heartbeats of the scheduler with this state folder."""

    def __init__(self, signer: Signs, state: Path) -> None:
        self.lost = 0
        """The number of heartbeats that could not be sent."""
        self._beats = Heartbeats(signer)
        self._state = state
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)

    def start(self) -> None:
        """Start the thread; it sends nothing before the first `grant`."""
        self._thread.start()

    def grant(self, authority: Authority | None) -> None:
        """Set the authority that heartbeats carry from now on; called by the daemon's loop."""
        self._beats.grant(authority, time.monotonic_ns())

    @property
    def counters(self) -> dict[str, int]:
        """The thread's counters by name, to be added to the daemon's."""
        return {"heartbeat_lost": self.lost, "heartbeat_withheld": self._beats.withheld}

    def stop(self) -> None:
        """End the thread within JOIN_S; no lease is renewed after that."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                asyncio.run(self._serve())
            except Exception:
                log.exception("heartbeats failed and are started again")
                self._stopping.wait(LOOK_S)

    async def _serve(self) -> None:
        connection = LocalConnection()
        callbacks = ConnectionCallbacks(_log_error, _nothing, _nothing)
        connecting = asyncio.ensure_future(
            process_connection.connect(connection, self._state, "scheduler heartbeats", callbacks)
        )
        try:
            while not self._stopping.is_set():
                if connecting.done():
                    connecting.result()
                    process_connection.follow((connection,), self._state)
                    await self._round(connection)
                await asyncio.sleep(LOOK_S)
        finally:
            connecting.cancel()
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                await asyncio.wait_for(connection.close(), 1)

    async def _round(self, connection: LocalConnection) -> None:
        for node, data in self._beats.due(time.time_ns(), time.monotonic_ns()):
            try:
                await connection.publish(subjects.heartbeat(node), data)
            except (nats.errors.Error, OSError):
                self.lost += 1


async def _log_error(error: Exception) -> None:
    log.warning("broker connection", error=repr(error))


async def _nothing() -> None:
    """Do nothing: the next round notices whether the connection works."""
