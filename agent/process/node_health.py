# SPDX-License-Identifier: Apache-2.0
"""The health watch between devices, tracer and core: its verdicts change the node's report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from stoker.agent.agent_settings import AgentSettings
from stoker.agent.health import sources
from stoker.agent.health.sources import Source
from stoker.agent.health.watch import HealthInputs, HealthWatch
from stoker.agent.jobs import steps
from stoker.agent.jobs.start_records import StartRecords
from stoker.agent.jobs.steps import Event
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.scheduler.nouns import NodeReport


class NodeHealth:
    """The health of one node. The verdicts of an earlier agent hold from the first report on.

    `from_thread` runs a call in the agent's loop.
    """

    def __init__(
        self,
        setting: AgentSettings,
        telemetry: NodeTelemetry,
        tracer: TraceThread,
        starts: StartRecords,
        *,
        post: Callable[[Event], None],
        from_thread: Callable[..., None],
    ) -> None:
        self._telemetry = telemetry
        self._tracer = tracer
        self._post = post
        devices = telemetry.devices
        inputs = HealthInputs(
            setting.agent,
            setting.boot_id,
            devices.samplers,
            devices.addresses,
            starts.on,
            self._judged,
            lambda keys, reason: post(steps.Faulted(keys, reason, time.time_ns())),
            troubled=telemetry.troubled,
        )
        self.watch = HealthWatch(inputs)
        tracer.xid = lambda notice: from_thread(self.watch.notice, notice)
        telemetry.xids = lambda: self.watch.sources(self._tracepoint())
        if sources.kernel_log(inputs.kernel_log).why:
            tracer.wait_for_xids()
        verdict = self.watch.verdict
        telemetry.judge(verdict.holds(), verdict.warnings(), verdict.drain())

    def _tracepoint(self) -> Source:
        """Return the driver's tracepoint as a source of Xids, by the probe attached to it."""
        probe = next((p for p in self._tracer.probes if p.id == sources.PROBE), None)
        if probe is None:
            return Source(sources.TRACEPOINT, "no host probes")
        return Source(sources.TRACEPOINT, "" if probe.state == "attached" else probe.reason)

    def _judged(
        self, holds: Mapping[str, str], warnings: Mapping[str, str], drain: str
    ) -> NodeReport | None:
        """Post the report that a verdict changes, and return it."""
        report = self._telemetry.judge(holds, warnings, drain)
        if report is not None:
            self._post(steps.Reported(report))
        return report
