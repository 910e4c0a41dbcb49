# SPDX-License-Identifier: Apache-2.0
"""The agent's readings for metrics, and the exporter if config.toml names a collector."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from stoker import __version__
from stoker.agent.agent_settings import AgentSettings
from stoker.agent.export import scheduler_metrics
from stoker.agent.export.node_metrics import NodeReading
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.agent.state.otlp_config import resource

if TYPE_CHECKING:
    from stoker.agent.export.otlp_exporter import OtlpExporter


class AgentMetrics:
    """The readings of one agent. `counters` returns those of every part."""

    def __init__(
        self,
        setting: AgentSettings,
        telemetry: NodeTelemetry,
        counters: Callable[[], Sequence[Mapping[str, int]]],
    ) -> None:
        self._setting = setting
        self._telemetry = telemetry
        self._counters = counters

    def exporter(self) -> OtlpExporter | None:
        """Return the exporter; None without a collector, and then its code is never loaded."""
        config = self._setting.config.otlp
        if not config.endpoint:
            return None
        from stoker.agent.export.otlp_exporter import OtlpExporter

        attributes = resource(self._setting.cluster.cluster, self._setting.node)
        return OtlpExporter(config, attributes, self.reading, __version__)

    async def reading(self) -> NodeReading:
        """Return the node's values of this moment."""
        counters: Counter[str] = Counter()
        for each in self._counters():
            counters.update(each)
        return NodeReading(
            self._setting.incarnation,
            self._telemetry.devices.known,
            self._telemetry.samples,
            await self._telemetry.readings(),
            counters,
            scheduler=scheduler_metrics.read(self._setting.state.scheduler, time.time_ns()),
        )
