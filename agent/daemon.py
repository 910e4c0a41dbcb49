# SPDX-License-Identifier: Apache-2.0
"""The node agent: `python -m stoker.agent.daemon --state FOLDER`.

It composes, starts and ends the agent's parts; `agent/jobs/node_core.py` decides and
`agent/process` carries out. The agent never forks for a job, no message can end it, and SIGTERM
ends it within two seconds while jobs go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stoker.agent import lean_imports  # noqa: F401  # first: it makes the others smaller
from stoker.agent.agent_settings import AgentSettings, load
from stoker.agent.bus.device_points import DevicePoints
from stoker.agent.bus.local_bus import LocalBus
from stoker.agent.job_executor import JobExecutor
from stoker.agent.jobs import steps
from stoker.agent.jobs.attempt_folders import FENCED
from stoker.agent.jobs.attempt_states import attempt_lookup
from stoker.agent.jobs.cpu_quota import QuotaGroups, v1_groups
from stoker.agent.jobs.job_folders import JobFolders
from stoker.agent.jobs.job_output import JobOutput, Watches
from stoker.agent.jobs.job_waiters import JobWaiters
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.output_spooler import OutputFiles, OutputSpooler
from stoker.agent.jobs.retention import cap
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.spooled_attempt import SpoolRecords
from stoker.agent.jobs.start_records import StartRecords
from stoker.agent.jobs.steps import Event
from stoker.agent.link.broker_connections import BrokerConnections
from stoker.agent.link.gossip_watch import GossipWatch
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.agent.link.ping_responder import PingResponder
from stoker.agent.link.query_answers import QueryAnswers
from stoker.agent.link.scheduler_requests import SchedulerRequests
from stoker.agent.link.status_reporter import StatusReporter
from stoker.agent.power.power_loop import PowerLoop
from stoker.agent.process.agent_metrics import AgentMetrics, MetricSources
from stoker.agent.process.background_tasks import BackgroundTasks
from stoker.agent.process.core_loop import CoreLoop
from stoker.agent.process.effect_runner import EffectRunner
from stoker.agent.process.gang_verdicts import GangVerdicts
from stoker.agent.process.node_health import NodeHealth
from stoker.agent.process.node_power import start_power
from stoker.agent.process.node_ranks import NodeRanks, RankRule
from stoker.agent.process.node_reports import NodeReports
from stoker.agent.process.node_shortage import NodeShortage
from stoker.agent.process.ring_recorder import RingRecorder
from stoker.agent.process.spawner_events import SpawnerEvents
from stoker.agent.state import returned_attempts
from stoker.agent.state.command_position import PositionFile
from stoker.agent.state.job_freezer import JobFreezer
from stoker.agent.state.lease import Lease
from stoker.agent.tracing import job_energy
from stoker.agent.tracing.throttle_sources import ThrottleSources
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.mesh.connection import loop_runner
from stoker.mesh.connection.nats_frames import Delivery
from stoker.mesh.server import notify
from stoker.mesh.server.log_output import configure_logging
from stoker.mesh.wire.command import CommandChain
from stoker.mesh.wire.queries import AlertsQuery, AlertsReply
from stoker.native.errors import StokerError, Unavailable
from stoker.native.structured_log import structlog
from stoker.scheduler.nouns import TaskKey

WEIGH_EVERY_S = 5.0
"""Seconds between two measurements of the output of running jobs."""
LEAVE_S = 1.0
"""Seconds in which the log hears that this agent ends, and has what it gives back."""
STOP_S = 0.6
GC_THRESHOLD = 20_000
"""Objects made before a garbage collection; the default of 700 collects every few starts."""

_log = structlog.get_logger("agent")


class AgentDaemon:
    """One agent process; `run` ends after `stop`."""

    def __init__(self, setting: AgentSettings) -> None:
        loop = asyncio.get_running_loop()
        self._setting = setting
        self._loop = loop
        self._stopping = asyncio.Event()
        self._waiters = JobWaiters(loop)
        self._status = StatusReporter()
        self.counters: Counter[str] = Counter()
        self._tasks = BackgroundTasks(self.counters)
        self.failed = False
        """True if the agent ended because of an error after which it must not go on."""
        self._position = PositionFile.open(setting.agent / "position")
        self._starts = StartRecords.open(setting.agent / "starts")
        self._lease = Lease.open(setting.state.run / "lease")
        chain = CommandChain(
            setting.cluster.cluster,
            setting.node,
            setting.members,
            self._position.position,
            nonce=setting.incarnation,
        )
        self._core = NodeCore(chain)
        connections = BrokerConnections(setting)
        self._lease_thread = connections.lease_thread(
            chain, self._lease, lambda renewed: self._tasks.from_thread(self.post, renewed)
        )
        self._bus = LocalBus(setting.state.run)
        self._tracer = TraceThread(
            setting.jobs,
            setting.state.shm,
            self._tasks.from_thread,
            node=setting.node,
            bus=self._bus,
        )
        self._telemetry = NodeTelemetry(setting, self._tracer)
        self._shortage = self._node_shortage()
        self._bus.points = DevicePoints(setting.node, self._telemetry.cards)
        self._responder = self._lease_thread.responder = _responder(setting)
        self._telemetry.ping = self._responder.address if self._responder is not None else ""
        sources = MetricSources(self._counters, self._starts.all, self._checks, self._xids)
        metrics = AgentMetrics(setting, self._telemetry, sources)
        self._exporter = metrics.exporter()
        self._page = metrics.page()
        self._spans = metrics.spans()
        self._events = metrics.events()
        if self._exporter is not None:
            self._tracer.ended = self._exporter.ended
        self._folders = JobFolders(setting.jobs, setting.config.retention)
        self._link = connections.daemon(
            lambda message: self.post(steps.CommandReceived(message.data)), self._handle_query
        )
        self._link.on_up = lambda: self.post(steps.MeshUp())
        self._link.on_down = lambda: self.post(steps.MeshDown())
        self._tracer.publish = self._link.publish
        self._alerts = metrics.alerts(self._link.publish)
        requests = SchedulerRequests(setting.node, self._link, self._answered, self._tasks.spawn)
        self._effects, self._spooler = self._effect_runner(requests), self._output_spooler()
        self._core_loop = CoreLoop(self._core, self._status, self._effects.carry_out, self._give_up)
        self._recorder, self._gossip = RingRecorder(setting), GossipWatch(setting, self._link)
        self._spawner: Spawner | None = None
        self._executor: JobExecutor | None = None
        self._queries: QueryAnswers | None = None
        self._power: PowerLoop | None = None
        self._health: NodeHealth | None = None
        self._ranks: NodeRanks | None = None
        self._verdicts: GangVerdicts | None = None
        self._reports: NodeReports | None = None

    def _node_shortage(self) -> NodeShortage:
        setting = self._setting
        places = (setting.jobs, setting.state.run, setting.state.shm)
        return NodeShortage(places, setting.config.disk, self._telemetry, self.post)

    def _output_spooler(self) -> OutputSpooler:
        def dropped(key: TaskKey) -> int:
            end = self._executor.exited(key) if self._executor is not None else None
            return self._folders.dropped(key, end)

        setting = self._setting
        files = OutputFiles(setting.jobs, lambda key: self._starts.living(key) is not None, dropped)
        records = SpoolRecords(setting.agent / "spool")
        return OutputSpooler(setting.node, files, records, self._link.request)

    def _effect_runner(self, requests: SchedulerRequests) -> EffectRunner:
        return EffectRunner(
            self._position,
            self._lease,
            self._folders,
            requests,
            self._status,
            keep_schedulers=self._setting.keep_schedulers,
            keep_returned=partial(returned_attempts.store, self._returned_file),
        )

    @property
    def _returned_file(self) -> Path:
        return self._setting.agent / returned_attempts.FILE

    def stop(self) -> None:
        """End soon; jobs go on."""
        self._stopping.set()

    def rescan(self) -> None:
        """Search for devices again soon."""
        self._telemetry.rescan()

    def post(self, event: Event) -> None:
        """Give an event to the core."""
        self._core_loop.post(event)

    async def run(self) -> None:
        """Find the devices, meet the spawner, then serve until `stop`."""
        self._tasks.keep_running(self._status.beat)
        if self._page is not None:
            self._page.start()
        begin = self._tasks.spawn(self._begin())
        stopping = self._loop.create_task(self._stopping.wait())
        await asyncio.wait((begin, stopping), return_when=asyncio.FIRST_COMPLETED)
        if begin.done():
            begin.result()  # a state folder that cannot be used ends the agent with its name
            await stopping
        notify.stopping()
        await self._leave()
        await self._end()

    # --- start ------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Start the parts, the spawner first: its list of attempts settles what may be started."""
        setting = self._setting
        spawner = self._spawner = await self._meet_spawner()
        self._telemetry.features = spawner.features
        self._bus.start()
        await self._start_tracing()
        executor = self._executor = self._effects.executor = self._make_executor(spawner)
        self._queries = self._make_queries(spawner, executor)
        health = self._health = NodeHealth(
            setting,
            self._telemetry,
            self._tracer,
            self._starts,
            post=self.post,
            from_thread=self._tasks.from_thread,
        )
        self._ranks = NodeRanks(
            self._tracer,
            RankRule(self._setting.config.node.rank_cordon),
            lives=lambda key: key in self._starts.owners(),
            accuse=health.watch.accuse,
            post=self.post,
        )
        self._verdicts = GangVerdicts(self._starts.living, self._ranks.notice)
        self._shortage.begin()
        report = await self._telemetry.report()
        self._power = start_power(
            setting,
            self._telemetry,
            self._tracer,
            self._starts,
            self._lease,
            connected=lambda: self._link.connected,
        )
        has = await executor.known(frozenset())
        keys = [each.key for each in has.has]
        self._starts.keep(keys)
        self._folders.begin(setting.state.shm, set(keys))
        returned = returned_attempts.load(self._returned_file)
        self.post(steps.Returned(returned, time.time_ns()))
        self.post(steps.Reported(report))
        self.post(has)
        self._lease_thread.busy = lambda: len(self._starts) > 0
        self._lease_thread.start()
        self._start_parts(spawner, executor, health)

    def _start_parts(self, spawner: Spawner, executor: JobExecutor, health: NodeHealth) -> None:
        events = SpawnerEvents(
            spawner, executor, self._core, post=self.post, counters=self.counters
        )
        reports = NodeReports(
            self._setting.node, self._telemetry, self._link, health.watch, self.post
        )
        if self._alerts is not None:
            reports.alerts = self._alerts.counts
        self._tracer.summarized = reports.ended
        self._reports = reports
        for work in (
            events.listen,
            self._link.run,
            events.compare,
            self._weigh,
            reports.observe,
            reports.watch_devices,
            health.watch.run,
            self._shortage.run,
            self._gossip.run,
            self._spooler.run,
            self._count,
        ):
            self._tasks.keep_running(work)
        if self._exporter is not None:
            self._tasks.keep_running(self._exporter.run)
        if self._alerts is not None:
            self._tasks.keep_running(self._alerts.run)
        self._recorder.start()
        for exporter in (self._spans, self._events):
            if exporter is not None:
                exporter.start()

    async def _meet_spawner(self) -> Spawner:
        while True:
            try:
                return await Spawner.connect(self._setting.state.run / "spawner.sock")
            except Unavailable as error:
                notify.status(f"waiting: {error.message}")
                _log.warning("no spawner", error=error.message)

    async def _start_tracing(self) -> None:
        """Start the tracer; the spawner has made the jobs' cgroup by now, if it can."""
        cgroup = self._setting.jobs_cgroup()
        self._telemetry.cgroups = cgroup is not None
        fenced = cgroup / FENCED if cgroup is not None else None
        freezer = self._lease_thread.freezer = JobFreezer(fenced, self._lease)
        self._telemetry.unfenced = lambda: freezer.why_not(
            time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        )
        quotas = QuotaGroups(cgroup, v1_groups(self._setting.state.instance))
        telemetry = self._telemetry
        self._tracer.throttling = ThrottleSources(telemetry.kind, telemetry.card_readings, quotas)
        self._tracer.energy = job_energy.source_of(telemetry.card_readings)
        attached: asyncio.Future[Any] = self._loop.create_future()
        self._tracer.start(cgroup, attached.set_result)
        await attached

    def _make_executor(self, spawner: Spawner) -> JobExecutor:
        executor = JobExecutor(
            spawner,
            starts=self._starts,
            place=self._setting.place,
            tracer=self._tracer,
            devices=lambda: self._telemetry.devices.known,
            post=self.post,
        )
        executor.changed = self._waiters.changed
        executor.failed_launch = self._shortage.failed
        executor.acknowledged = self._folders.keep
        executor.renew = self._folders.renew
        executor.occupied = self._telemetry.occupied
        executor.begins = self._spooler.begin
        executor.output_cap = partial(cap, self._setting.config.retention)
        return executor

    def _make_queries(self, spawner: Spawner, executor: JobExecutor) -> QueryAnswers:
        states = attempt_lookup(self._core, self._folders, executor.exited, self._waiters.change)
        return QueryAnswers(
            self._setting.node,
            self._setting.jobs,
            respond=self._link.publish,
            node=self._core,
            logs=JobOutput(self._setting.jobs, Watches(self._loop), states),
            spawner=spawner,
            tracer=self._tracer,
            changed=self._waiters.change,
            devices=self._telemetry.devices,
            ranks=lambda query: self._verdicts is not None and self._verdicts.told(query),
            alerts=self._answer_alerts,
            gossip=self._gossip.state,
        )

    # --- end --------------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """End with an error, so that the supervisor starts a new agent."""
        self.failed = True
        self.stop()

    async def _leave(self) -> None:
        """Have no job placed here any more, and none wait for this agent that has not begun."""
        if self.failed or not self._core.may_leave:
            return
        self.post(steps.EndRequested())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._core_loop.until(lambda: self._core.has_left)

    async def _end(self) -> None:
        if self._power is not None:
            self._power.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                watch = self._health.watch if self._health is not None else None
                for part in (self._queries, self._executor, watch):
                    if part is not None:
                        part.close()
                await self._tasks.cancel()
                if self._spawner is not None:
                    await self._spawner.close()
        if self._power is not None:
            self._power.stop()
        self._recorder.stop()
        for exporter in (self._spans, self._events):
            if exporter is not None:
                exporter.stop()
        self._tracer.close()
        self._bus.stop()
        self._telemetry.close()
        if self._exporter is not None:
            self._exporter.close()
        if self._page is not None:
            self._page.close()
        if self._alerts is not None:
            self._alerts.close()
        self._folders.close()
        self._lease_thread.stop()
        if self._responder is not None:
            self._responder.close()
        self._lease.close()
        self._starts.close()
        self._position.close()

    # --- messages and periodic work ---------------------------------------------------------------

    def _answered(self, event: Event) -> None:
        """Post the scheduler's answer; a report that it took is in the cluster's log."""
        if isinstance(event, steps.Greeted) and self._health is not None:
            self._health.watch.committed(event.report)
        self.post(event)

    def _handle_query(self, message: Delivery) -> None:
        assert self._queries is not None
        self._queries.handle(message)

    def _answer_alerts(self, query: AlertsQuery) -> AlertsReply:
        """Answer about alerts, in a thread; a node that nobody asks never loads the code."""
        from stoker.agent.alerts import alert_answers

        reply = alert_answers.answer(self._setting.state, self._setting.node, query)
        if reply.changed and self._alerts is not None:
            self._tasks.from_thread(self._alerts.hurry)
        return reply

    def _checks(self) -> Mapping[str, str]:
        """Return why each part does not work that jobs need; empty for one that does."""
        ended = self._lease.expiry_boottime_ns <= _boot_ns()
        lease = "the scheduler's lease has run out, or none came yet" if ended else ""
        return {**self._core.checks, "lease": lease, "launch": self._shortage.why}

    def _xids(self) -> Mapping[str, tuple[int, int]]:
        return self._health.watch.xids if self._health is not None else {}

    async def _weigh(self) -> None:
        while True:
            await asyncio.sleep(WEIGH_EVERY_S)
            self._folders.weigh(self._starts.owners())

    async def _count(self) -> None:
        await self._status.count(self._counters)

    def _counters(self) -> list[Mapping[str, int]]:
        parts = (
            self._core,
            self,
            self._link,
            self._bus,
            self._lease_thread,
            self._tracer,
            self._folders,
            self._recorder,
            self._shortage,
            self._gossip,
            self._spooler,
        )
        watch = self._health.watch if self._health is not None else None
        made = (self._telemetry, self._executor, self._queries, self._exporter, self._page, watch)
        spans = self._spans
        pinged, ranks, alerts = self._responder, self._ranks, self._alerts
        kernels = self._reports.kernels if self._reports is not None else None
        others = (*made, pinged, ranks, alerts, kernels, spans, self._events)
        return [part.counters for part in (*parts, *others) if part is not None]


def _boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _responder(setting: AgentSettings) -> PingResponder | None:
    """Return what answers pings; None if the host has not the configured address."""
    try:
        return PingResponder(setting.ping_host)
    except OSError as error:
        host = setting.ping_host
        _log.warning("no pings are answered", host=host, error=error.strerror)
        return None


async def _serve(option: str | None) -> int:
    setting = load(option)
    daemon = AgentDaemon(setting)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.rescan)
    gc.freeze()  # imported objects live as long as the process: no collection visits them
    gc.set_threshold(GC_THRESHOLD)
    _log.info("agent starts", node=setting.node, boot=setting.boot_id, pid=os.getpid())
    await daemon.run()
    _log.info("agent ends", node=setting.node)
    return int(daemon.failed)


def main() -> int:
    """Return 0 after a signal, 2 or 3 if the state folder or a setting cannot be used."""
    match sys.argv[1:]:
        case []:
            option = None
        case ["--state", folder]:
            option = folder
        case _:
            sys.exit("usage: stoker-agent [--state FOLDER]")
    configure_logging()
    try:
        return loop_runner.run(_serve(option))
    except StokerError as error:
        _log.error("agent cannot start", error=error.message, hint=error.hint)
        return error.exit_code
    except OSError as error:
        _log.error("agent cannot start", error=str(error))
        return 1


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that hangs in a driver must not delay the end
