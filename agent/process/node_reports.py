# SPDX-License-Identifier: Apache-2.0
"""The node's observations, reports and kernel summaries on their way to subscribers, to health and
to the core.

Nothing here waits for anybody: what cannot be published now is dropped and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from stoker.agent.health.watch import HealthWatch
from stoker.agent.jobs import steps
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.jobs.steps import Event
from stoker.agent.link.agent_connection import AgentConnection
from stoker.agent.link.kernel_summaries import KernelSummaries
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.mesh.wire import subjects
from stoker.native.structured_log import structlog
from stoker.probes.kernels.job_trace import TraceSummary
from stoker.scheduler.nouns import AlertCounts, TaskKey

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
        self.kernels = KernelSummaries(node)
        self.alerts: Callable[[], AlertCounts | None] = lambda: None
        """Returns how many alerts this node has; None without rules."""
        telemetry.summarized = self._publish_kernels

    async def observe(self) -> None:
        """Publish each observation while the broker is connected."""
        async for observation in self._telemetry.observations():
            if self._connection.connected:
                told = msgspec.structs.replace(observation, alerts=self.alerts())
                self._connection.publish(self._subject, _encoder.encode(told))

    def ended(self, record: StartRecord, summary: TraceSummary) -> None:
        """Publish the last summary of a job."""
        self._connection.publish(*self.kernels.ended(record, summary, time.time_ns()))

    def _publish_kernels(self, found: Mapping[TaskKey, tuple[StartRecord, TraceSummary]]) -> None:
        for subject, message in self.kernels.running(found, time.time_ns()):
            self._connection.publish(subject, message)

    async def watch_devices(self) -> None:
        """Post each changed report."""
        async for report in self._telemetry.changes():
            _log.warning("the report changed", devices=[d.unavailable for d in report.devices])
            self._health.reported(report)
            self._post(steps.Reported(report))
