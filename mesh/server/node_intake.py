# SPDX-License-Identifier: Apache-2.0
"""The intake of nodes' messages: what a scheduler hears of them becomes an event of the replica.

Owns that a message which is not one is refused by name and never ends the process, and that one
node's messages are read up to its rate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from stoker.mesh.connection.broker_connection import BrokerConnection
from stoker.mesh.connection.heard_subject import BrokerMessage, HeardSubject
from stoker.mesh.connection.nats_frames import Delivery
from stoker.mesh.replica import events
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.server.node_door import OBSERVATIONS_PER_S, REQUESTS_PER_S, NodeDoor
from stoker.mesh.server.request_intake import respond
from stoker.mesh.wire import node_messages, subjects
from stoker.mesh.wire.command import NodeReply
from stoker.mesh.wire.telemetry import ChangeRow
from stoker.native.errors import StokerError
from stoker.native.structured_log import structlog

_LEAST: Final = min(REQUESTS_PER_S.values())

log = structlog.get_logger("scheduler")


class NodeCaller:
    """The node whose request waits for an answer."""

    __slots__ = ("message",)

    def __init__(self, message: BrokerMessage) -> None:
        self.message = message


class NodeIntake:
    """All that nodes send to this scheduler, except requests of leases."""

    def __init__(
        self,
        feed: Callable[[events.Event], Awaitable[None]],
        count: Callable[[str], None],
        answers: Callable[[], bool],
    ) -> None:
        self._feed, self._count, self._answers = feed, count, answers
        self._seen = NodeDoor(lambda _: OBSERVATIONS_PER_S, subjects.parse_observation, count)
        self._asked = NodeDoor(_rate, lambda name: subjects.parse_node_request(name).node, count)

    async def hear_requests(self, broker: BrokerConnection) -> HeardSubject:
        """Hear what nodes request."""
        return await broker.subscribe(
            subjects.EVERY_NODE_REQUEST, cb=self._requested, admits=_through(self._asked)
        )

    async def hear_observations(self, broker: BrokerConnection) -> HeardSubject:
        """Hear what nodes observe, which is never answered."""
        return await broker.subscribe(
            subjects.EVERY_OBSERVATION, cb=self._observed, admits=_through(self._seen)
        )

    def due(self, now_ns: int, real_ns: int) -> Iterator[ChangeRow]:
        """Yield the events about nodes that send too much."""
        for door in (self._seen, self._asked):
            yield from door.due(now_ns, real_ns)

    async def _requested(self, message: BrokerMessage) -> None:
        if not self._answers():
            self._count("node_left_to_the_leader")
            return
        try:
            event = _request_event(message)
        except StokerError as error:
            self._count(f"node_{error.code}")
            if self._asked.blame(message.subject, boot_ns()):
                await self._refuse(message, error)
        else:
            await self._feed(event)

    async def _refuse(self, message: BrokerMessage, error: StokerError) -> None:
        log.warning("a node's message is refused", subject=message.subject, error=str(error))
        reply = NodeReply(False, error.code, error.message)
        await respond(message, msgspec.msgpack.encode(reply), self._count)

    async def _observed(self, message: BrokerMessage) -> None:
        try:
            node = subjects.parse_observation(message.subject)
            event = events.Observed(node, node_messages.observation(message.data, node))
        except StokerError as error:
            self._count("observation_refused")
            if self._seen.blame(message.subject, boot_ns()):
                log.warning("an observation is refused", error=str(error))
        else:
            await self._feed(event)


def _rate(subject: str) -> int:
    return REQUESTS_PER_S.get(subject.rpartition(".")[2], _LEAST)


def _through(door: NodeDoor) -> Callable[[Delivery], bool]:
    return lambda delivery: door.admits(delivery.subject, boot_ns())


def _request_event(message: BrokerMessage) -> events.Event:
    node, what = subjects.parse_node_request(message.subject)
    token = NodeCaller(message)
    if what == "hello":
        return events.NodeReported(token, node_messages.report(message.data, node))
    if what == "outcome":
        return events.Outcomes(token, node, node_messages.outcomes(message.data))
    return events.StateRequested(token, node, node_messages.state_request(message.data))
