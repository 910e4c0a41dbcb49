# SPDX-License-Identifier: Apache-2.0
"""The thread that answers lease requests, on a connection and a loop of its own.

Guarantees that leases are renewed however busy the daemon's loop is: this thread needs only the
last `Authority` from it, and `mesh/replica/authority.py` bounds how old that may be.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from pathlib import Path

from stoker.mesh.connection import loop_runner, process_connection
from stoker.mesh.connection.broker_connection import BrokerConnection, ConnectionCallbacks
from stoker.mesh.connection.heard_subject import BrokerMessage
from stoker.mesh.identity.identity import Signs
from stoker.mesh.replica.authority import Authority
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.replica.nodes.lease_answers import LeaseAnswers
from stoker.mesh.server.node_door import LEASES_PER_S, NodeDoor
from stoker.mesh.wire import subjects
from stoker.native.errors import BadRequest
from stoker.native.structured_log import structlog

LOOK_S = 0.05
JOIN_S = 2.0

log = structlog.get_logger("scheduler")


class LeaseAnswerThread:
    """The lease answers of the scheduler with this state folder."""

    def __init__(self, signer: Signs, state: Path) -> None:
        self.answers = LeaseAnswers(signer)
        self._counters: Counter[str] = Counter()
        self._state = state
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)

    def start(self) -> None:
        """Start the thread; it answers nothing before the first `grant`."""
        self._thread.start()

    def grant(self, authority: Authority | None) -> None:
        """Set the authority of answers from now on; called by the daemon's loop."""
        self.answers.grant(authority, boot_ns())

    @property
    def counters(self) -> dict[str, int]:
        """The thread's counters by name, to be added to the daemon's."""
        return {**self.answers.counters, **self._counters}

    def stop(self) -> None:
        """End the thread within JOIN_S; no lease is renewed after that."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                loop_runner.run(self._serve())
            except Exception:
                log.exception("lease answers failed and are started again")
                self._stopping.wait(LOOK_S)

    async def _serve(self) -> None:
        connection = BrokerConnection()
        callbacks = ConnectionCallbacks(_log_error, _nothing, _nothing)
        connecting = asyncio.ensure_future(self._connect(connection, callbacks))
        try:
            while not self._stopping.is_set():
                if connecting.done():
                    connecting.result()
                    await self._answer(connection)
                await asyncio.sleep(LOOK_S)
        finally:
            connecting.cancel()
            with contextlib.suppress(OSError):
                await asyncio.wait_for(connection.close(), 1)

    async def _connect(self, connection: BrokerConnection, callbacks: ConnectionCallbacks) -> None:
        await process_connection.begin(connection, self._state, "scheduler leases", callbacks)

        async def hear(message: BrokerMessage) -> None:
            try:
                node = subjects.parse_lease_request(message.subject)
            except BadRequest:
                self._counters["lease_request_refused"] += 1
                return
            self.answers.receive(message.data, node, boot_ns())
            await self._answer(connection)

        door = NodeDoor(lambda _: LEASES_PER_S, subjects.parse_lease_request, self._unread)
        await connection.subscribe(
            subjects.EVERY_LEASE_REQUEST,
            cb=hear,
            admits=lambda delivery: door.admits(delivery.subject, boot_ns()),
        )

    def _unread(self, name: str) -> None:
        self._counters["lease_request_unread"] += 1

    async def _answer(self, connection: BrokerConnection) -> None:
        for answer in self.answers.due(boot_ns()):
            for node in answer.nodes:
                try:
                    await connection.publish(subjects.lease_answer(node), answer.data)
                except (OSError, ValueError):
                    self._counters["lease_answer_lost"] += 1


async def _log_error(error: Exception) -> None:
    log.warning("broker connection", error=repr(error))


async def _nothing() -> None:
    """Do nothing: the next round notices whether the connection works."""
