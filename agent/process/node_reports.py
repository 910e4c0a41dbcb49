# SPDX-License-Identifier: Apache-2.0
"""The node's observations and reports on their way to subscribers, to health and to the core."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from stoker.agent.health.watch import HealthWatch
from stoker.agent.jobs import steps
from stoker.agent.jobs.steps import Event
from stoker.agent.link.agent_connection import AgentConnection
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.mesh.wire import subjects

_log = structlog.get_logger("agent")
_encoder = msgspec.msgpack.Encoder()


class NodeReports:
    """Passes on one node's telemetry; `observe` and `watch_devices` run for ever."""

    def __init__(
        self,
        node: str,
        telemetry: NodeTelemetry,
        connection: AgentConnection,
        health: HealthWatch,
        post: Callable[[Event], None],
    ) -> None:
        self._subject = subjects.observation(node)
        self._telemetry = telemetry
        self._connection = connection
        self._health = health
        self._post = post

    async def observe(self) -> None:
        """Publish each observation while the broker is connected."""
        async for observation in self._telemetry.observations():
            if self._connection.connected:
                self._connection.publish(self._subject, _encoder.encode(observation))

    async def watch_devices(self) -> None:
        """Post each changed report."""
        async for report in self._telemetry.changes():
            _log.warning("the report changed", devices=[d.unavailable for d in report.devices])
            self._health.reported(report)
            self._post(steps.Reported(report))
