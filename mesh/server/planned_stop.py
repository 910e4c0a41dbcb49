# SPDX-License-Identifier: Apache-2.0
"""The last second of a scheduler that is stopped in order, while others go on, for its daemon.

Owns the order: what came is decided or sent on, then another scheduler hears that it may lead, and
only when that one hears users does this one end to. So no request is lost, and nobody waits for an
answer that will not come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from stoker.mesh.connection.broker_connection import BrokerConnection
from stoker.mesh.connection.heard_subject import HeardSubject
from stoker.mesh.connection.user_connections import UserConnections
from stoker.mesh.replica import events
from stoker.mesh.server.request_intake import RequestIntake
from stoker.native.structured_log import structlog

HAND_OVER_S = 1.0
"""The longest time until the last request is heard."""
FLUSH_S = 0.2
"""The longest time until the brokers have the last answers, after that."""
LINGER_S = 0.3
"""Users' requests are heard for this long after the replica has resigned. A request that another
broker sends here, while it does not know the next leader yet, would reach nobody otherwise."""

log = structlog.get_logger("scheduler")


class PlannedStop:
    """The stop of one scheduler. `feed` gives its replica an event."""

    def __init__(
        self,
        feed: Callable[[events.Event], Awaitable[None]],
        users: UserConnections,
        intake: RequestIntake,
    ) -> None:
        self.begun = False
        """True once no more requests are to be taken."""
        self._feed = feed
        self._users = users
        self._intake = intake
        self._left = asyncio.Event()

    async def note_left(self, effect: events.Left) -> None:
        """Note that the replica has resigned."""
        self._left.set()

    async def end(self, subscription: HeardSubject) -> None:
        """End a subscription; during a planned stop, hear first what came on it."""
        if self.begun:
            await subscription.drain()
        else:
            await subscription.unsubscribe()

    async def hand_over(
        self, nodes_end: Callable[[], Awaitable[None]], connections: list[BrokerConnection]
    ) -> None:
        """Return once another scheduler may lead and all answers are sent, or after HAND_OVER_S.

        What was kept by then is sent back even so. `nodes_end` ends the subscription to the
        requests of nodes; `connections` are flushed.
        """
        self.begun = True
        try:
            async with asyncio.timeout(HAND_OVER_S):
                await nodes_end()
                self._intake.keep_late()
                await self._feed(events.Leave())
                await self._left.wait()
                await asyncio.sleep(LINGER_S)
                await self._users.drain()
                await self._intake.settle()
        except OSError as error:
            log.warning("the handover did not end in time", error=repr(error))
        await self._send_back(connections)

    async def _send_back(self, connections: list[BrokerConnection]) -> None:
        """Have clients send again what was kept, and wait until the brokers have each answer."""
        try:
            async with asyncio.timeout(FLUSH_S):
                await self._intake.refuse_late()
                live = (each for each in connections if each.is_connected)
                await asyncio.gather(*(each.flush() for each in live))
        except OSError as error:
            log.warning("the last answers may not have been sent", error=repr(error))
