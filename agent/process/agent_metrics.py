# SPDX-License-Identifier: Apache-2.0
"""The agent's readings for metrics, and who gets them: exporter, page and alerts, as config.toml
says."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stoker import __version__
from stoker.agent.agent_settings import AgentSettings
from stoker.agent.export import scheduler_metrics
from stoker.agent.export.node_metrics import ExemplarRule, NodeReading
from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.agent.state import metrics_config
from stoker.agent.state.metrics_config import ALL, Serving
from stoker.agent.state.otlp_config import resource
from stoker.mesh.wire import subjects
from stoker.native.structured_log import structlog
from stoker.probes.otlp.otlp_encoder import Number

if TYPE_CHECKING:
    from stoker.agent.alerts.watch import AlertWatch
    from stoker.agent.export.otlp_exporter import OtlpExporter
    from stoker.agent.export.page_server import PageServer
    from stoker.agent.process.event_exporter import EventExporter
    from stoker.agent.process.leader_places import LeaderPlaces
    from stoker.agent.process.span_exporter import SpanExporter

STAT = Path("/proc/self/stat")

_log = structlog.get_logger("metrics")


class MetricSources(msgspec.Struct, frozen=True):
    """The parts of the agent that metrics tell of, each as it is when it is called."""

    counters: Callable[[], Sequence[Mapping[str, int]]]
    starts: Callable[[], tuple[StartRecord, ...]]
    checks: Callable[[], Mapping[str, str]]
    """Returns each part that jobs need -> why it does not work; empty for one that does."""
    xids: Callable[[], Mapping[str, tuple[int, int]]]
    """Returns device -> its last Xid, and how many there were."""


class AgentMetrics:
    """The readings of one agent."""

    def __init__(
        self, setting: AgentSettings, telemetry: NodeTelemetry, sources: MetricSources
    ) -> None:
        self._setting = setting
        self._telemetry = telemetry
        self._sources = sources

    def exporter(self) -> OtlpExporter | None:
        """Return the exporter; None without a collector, and then its code is never loaded."""
        config = self._setting.config.otlp
        if not config.endpoint:
            return None
        from stoker.agent.export.otlp_exporter import OtlpExporter

        return OtlpExporter(config, self._resource(), self.reading, __version__)

    def events(self) -> EventExporter | None:
        """Return the exporter of events; None without a destination, as with that of spans."""
        setting = self._setting
        if setting.event_logs is None or setting.cluster.joined:
            return None
        from stoker.agent.export.event_logs import EventLogSource
        from stoker.agent.process.event_exporter import EventExporter

        ratio = setting.spans.ratio if setting.spans is not None else 0.0
        source = EventLogSource(setting.cluster.cluster, ratio)
        return EventExporter(self._places(), setting.event_logs, self._resource(), source)

    def spans(self) -> SpanExporter | None:
        """Return the exporter of spans; None without a destination, and then neither its code nor
        OpenTelemetry's is loaded. A node that joined has no user to read as."""
        setting = self._setting
        if setting.spans is None or setting.cluster.joined:
            return None
        from stoker.agent.process.span_exporter import SpanExporter

        return SpanExporter(
            self._places(), setting.spans, self._resource(), setting.cluster.cluster
        )

    def page(self) -> PageServer | None:
        """Return the server of the metrics page; None if it is off: its code is never loaded."""
        if self._setting.metrics is None:
            metrics_config.tell(self._setting.state, Serving(why="off"))
            return None
        from stoker.agent.export.metrics_page import PageSource
        from stoker.agent.export.page_server import PageServer

        config = self._setting.config.metrics
        return PageServer(
            self._setting.metrics,
            PageSource(self._setting.node, self._resource()),
            read=self.reading,
            checks=self._sources.checks,
            readers=None if ALL in config.readers else metrics_config.reader_ids(config),
            tell=self._told,
        )

    def alerts(self, publish: Callable[[str, bytes], bool]) -> AlertWatch | None:
        """Return what judges the rules of alerts; None without a rule: its code is never loaded.
        `publish` sends a message on the bus."""
        config = self._setting.config
        if not config.alert:
            return None
        from stoker.agent.alerts import action, sinks
        from stoker.agent.alerts.sink_queue import SinkQueue
        from stoker.agent.alerts.watch import AlertPlaces, AlertWatch

        queues = []
        if config.alerts.webhook:
            queues.append(SinkQueue("webhook", sinks.webhook(config.alerts)))
        if config.alerts.otel_logs and config.otlp.endpoint:
            send = sinks.otel_logs(config.otlp, self._resource(), __version__)
            queues.append(SinkQueue("otel", send))
        elif config.alerts.otel_logs:
            _log.warning("alerts.otel_logs tells nobody: no collector is named", table="otlp")
        state, subject = self._setting.state, subjects.alerts(self._setting.node)
        if any(rule.action for rule in config.alert):
            acts = action.wanted(config.alert)
            queues.append(SinkQueue("cancel", action.cancel(state.root), acts))
        return AlertWatch(
            AlertPlaces(self._setting.node, state.agent, state.run),
            config.alert,
            config.alerts,
            read=self.reading,
            publish=lambda data: publish(subject, data),
            queues=queues,
        )

    def _places(self) -> LeaderPlaces:
        from stoker.agent.process.leader_places import LeaderPlaces

        setting = self._setting
        return LeaderPlaces(setting.state.root, setting.state.scheduler, setting.agent)

    def _told(self, told: Serving) -> None:
        """Write where the page is, for other processes; a full disk costs only that."""
        with contextlib.suppress(OSError):
            metrics_config.tell(self._setting.state, told)

    def _resource(self) -> dict[str, str]:
        return resource(
            self._setting.cluster.cluster, self._setting.node, self._setting.config.otlp.resource
        )

    def _exemplars(self) -> ExemplarRule | None:
        """Return the rule of exemplars; they are told where a collector is named alone."""
        otlp = self._setting.config.otlp
        target = self._setting.spans
        ratio = target.ratio if target is not None else 0.0
        wanted = otlp.endpoint and otlp.exemplars and ratio
        return ExemplarRule(self._setting.cluster.cluster, ratio) if wanted else None

    async def reading(self) -> NodeReading:
        """Return the node's values of this moment."""
        counters: Counter[str] = Counter()
        for each in self._sources.counters():
            counters.update(each)
        began_ns = self._setting.incarnation
        return NodeReading(
            began_ns,
            self._telemetry.devices.known,
            self._telemetry.samples,
            await self._telemetry.readings(),
            counters,
            failed=counters["otlp_points_lost"],
            scheduler=scheduler_metrics.read(self._setting.state.scheduler, time.time_ns()),
            cards=tuple(self._telemetry.devices.readings().values()),
            starts=self._sources.starts(),
            xids=dict(self._sources.xids()),
            checks={name: not why for name, why in self._sources.checks().items()},
            process=tuple(process_points(began_ns, time.time_ns())),
            exemplars=self._exemplars(),
            idle=self._telemetry.idle,
        )


def process_points(began_ns: int, now_ns: int) -> Iterator[tuple[str, Number]]:
    """Yield what the kernel says of this process, proc_pid_stat(5); nothing if it does not."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = STAT.read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        yield "process.cpu.time", Number((), ticks / os.sysconf("SC_CLK_TCK"), began_ns)
        yield "stoker.agent.threads", Number((), int(fields[17]), began_ns)
        resident = int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
        yield "process.memory.usage", Number((), resident, began_ns)
    yield "process.uptime", Number((), (now_ns - began_ns) / 1e9)
