# SPDX-License-Identifier: Apache-2.0
"""The node agent: `python -m stoker.agent.daemon --state FOLDER`.

A thin shell around `agent/jobs/node_core.py`: it turns messages, the spawner's events and time into
the core's events and carries the effects out. It never forks for a job, no message can end it, and
SIGTERM ends it within a second while jobs go on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from nats.aio.msg import Msg

from stoker import __version__
from stoker.agent.agent_settings import AgentSettings, load
from stoker.agent.export.node_metrics import NodeReading
from stoker.agent.health import sources
from stoker.agent.health.sources import Source
from stoker.agent.health.watch import HealthInputs, HealthWatch
from stoker.agent.job_executor import JobExecutor
from stoker.agent.jobs import steps
from stoker.agent.jobs.attempts import OVER
from stoker.agent.jobs.job_folders import JobFolders
from stoker.agent.jobs.job_output import AttemptLookup, JobOutput, Watches
from stoker.agent.jobs.job_waiters import JobWaiters
from stoker.agent.jobs.node_core import NodeCore
from stoker.agent.jobs.retention import cap
from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.start_records import Starts
from stoker.agent.jobs.steps import Effect, Event, Key
from stoker.agent.link.agent_connection import AgentConnection, Hear
from stoker.agent.link.lease_thread import LeaseThread
from stoker.agent.link.node_telemetry import NodeTelemetry
from stoker.agent.link.query_answers import QueryAnswers
from stoker.agent.link.scheduler_requests import SchedulerRequests
from stoker.agent.link.status_reporter import StatusReporter
from stoker.agent.power.job_limits import JobLimits
from stoker.agent.power.power_loop import PowerInputs, PowerLoop
from stoker.agent.power.user_names import named
from stoker.agent.state.command_position import PositionFile
from stoker.agent.state.lease import Lease
from stoker.agent.state.otlp_config import resource
from stoker.agent.tracing.trace_thread import TraceThread
from stoker.mesh.identity.identity import Verifier
from stoker.mesh.server import notify
from stoker.mesh.server.log_output import configure_logging
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import CommandChain, HeartbeatJudge
from stoker.native.errors import StokerError, Unavailable
from stoker.scheduler.nouns import NodeReport, StartJob

if TYPE_CHECKING:
    from stoker.agent.export.otlp_exporter import OtlpExporter

COMPARE_EVERY_S = 30.0
"""How often what the core believes is compared with what the spawner has."""
WEIGH_EVERY_S = 5.0
"""How often it is looked how much running jobs have written."""
PART_AGAIN_S = 0.5
STOP_S = 0.6
GC_THRESHOLD = 20_000
"""Objects made before a collection: at the default of 700 one falls into every few starts."""

_log = structlog.get_logger("agent")
_encoder = msgspec.msgpack.Encoder()


class AgentDaemon:
    """One agent process; `run` ends when `stop` was called."""

    def __init__(self, setting: AgentSettings) -> None:
        loop = asyncio.get_running_loop()
        self._setting = setting
        self._loop = loop
        self._events: deque[Event] = deque()
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._waiting = JobWaiters(loop)
        self._saying = StatusReporter()
        self.counters: Counter[str] = Counter()
        self.failed = False
        """Whether it ended by itself, because of something that must not be gone on with."""
        self._position = PositionFile.open(setting.agent / "position")
        self._starts = Starts.open(setting.agent / "starts")
        self._lease = Lease.open(setting.state.run / "lease")
        chain = CommandChain(
            setting.cluster.cluster,
            setting.node,
            Verifier(setting.cluster.scheduler_public_key),
            self._position.position,
            nonce=setting.incarnation,
        )
        self._node = NodeCore(chain)
        self._lease_thread = self._make_lease_thread(chain)
        self._tracer = TraceThread(
            setting.jobs, setting.state.shm, self._from_thread, node=setting.node
        )
        self._telemetry = NodeTelemetry(setting, self._tracer)
        self._exporter = self._make_exporter()
        if self._exporter is not None:
            self._tracer.ended = self._exporter.ended
        self._keeping = JobFolders(setting.jobs, setting.config.retention)
        self._link = self._make_link()
        self._tracer.publish = self._link.publish
        self._talking = SchedulerRequests(setting.node, self._link, self._answered, self._spawn)
        self._spawner: Spawner | None = None
        self._actuator: JobExecutor | None = None
        self._queries: QueryAnswers | None = None
        self._power: PowerLoop | None = None
        self._health: HealthWatch | None = None

    # --- life -------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End soon; jobs go on."""
        self._stopping.set()

    def rescan(self) -> None:
        """Look for devices anew soon."""
        self._telemetry.rescan()

    async def run(self) -> None:
        """Until `stop`: find the devices, meet the spawner, then serve."""
        self._spawn(self._for_ever(self._saying.beat))
        begin = self._spawn(self._begin())
        stopping = self._loop.create_task(self._stopping.wait())
        await asyncio.wait((begin, stopping), return_when=asyncio.FIRST_COMPLETED)
        if begin.done():
            begin.result()  # a state folder that cannot be used ends the agent, by name
            await stopping
        notify.stopping()
        await self._end()

    async def _begin(self) -> None:
        """The spawner first: nothing may be asked of it that its memory does not settle."""
        self._spawner = await self._meet_spawner()
        self._telemetry.features = self._spawner.features
        await self._start_tracing()
        self._actuator = JobExecutor(
            self._spawner,
            starts=self._starts,
            place=self._setting.place,
            tracer=self._tracer,
            devices=lambda: self._telemetry.devices.known,
            post=self.post,
        )
        self._actuator.changed = self._waiting.changed
        self._actuator.acknowledged = self._keeping.keep
        self._actuator.output_cap = partial(cap, self._setting.config.retention)
        watches = Watches(self._loop)
        logs = JobOutput(
            self._setting.jobs,
            watches,
            AttemptLookup(self._live, self._ended, self._dropped, self._waiting.change),
        )
        self._queries = QueryAnswers(
            self._setting.node,
            self._setting.jobs,
            node=self._node,
            logs=logs,
            spawner=self._spawner,
            tracer=self._tracer,
            changed=self._waiting.change,
            devices=self._telemetry.devices,
        )
        self._health = self._make_health()
        report = await self._telemetry.report()
        self._power = self._begin_power()
        has = await self._actuator.known(frozenset())
        keys = [each.key for each in has.has]
        self._starts.keep(keys)
        self._keeping.begin(self._setting.state.shm, set(keys))
        self.post(steps.Reported(report))
        self.post(has)
        self._lease_thread.start()
        for work in (
            self._listen,
            self._link.run,
            self._compare,
            self._weigh,
            self._observe,
            self._watch_devices,
            self._health.run,
            self._count,
        ):
            self._spawn(self._for_ever(work))
        if self._exporter is not None:
            self._spawn(self._for_ever(self._exporter.run))

    def _begin_power(self) -> PowerLoop:
        samplers = self._telemetry.devices.samplers
        world = PowerInputs(
            self._setting.agent,
            self._setting.state.run,
            self._setting.boot_id,
            cards=samplers.cards,
            readings=samplers.readings,
            holders=lambda: named(self._starts.holders()),
            connected=lambda: self._link.connected,
            lease=self._lease,
            hold=self._job_limits().of,
        )
        shell = PowerLoop(world, self._setting.config.power)
        shell.start()
        return shell

    def _job_limits(self) -> JobLimits:
        devices = self._telemetry.devices
        return JobLimits(
            self._setting.state.instance,
            self._setting.jobs_cgroup,
            lambda id: next((each.kind for each in devices.known if each.id == id), None),
            self._starts,
            self._tracer.throttle,
            devices.samplers.readings,
        )

    def _make_health(self) -> HealthWatch:
        """What an earlier agent held against devices holds from the first report on."""
        devices = self._telemetry.devices
        world = HealthInputs(
            self._setting.agent,
            self._setting.boot_id,
            devices.samplers,
            devices.addresses,
            self._starts.on,
            self._judged,
            lambda keys, reason: self.post(steps.Faulted(keys, reason, time.time_ns())),
        )
        watch = HealthWatch(world)
        self._tracer.xid = lambda notice: self._from_thread(watch.notice, notice)
        self._telemetry.xids = lambda: watch.sources(self._tracepoint())
        if sources.kernel_log(world.kernel_log).why:
            self._tracer.wait_for_xids()
        verdict = watch.verdict
        self._telemetry.judge(verdict.holds(), verdict.warnings(), verdict.drain())
        return watch

    def _tracepoint(self) -> Source:
        """Of the driver, by the program that listens to it."""
        probe = next((p for p in self._tracer.probes if p.id == sources.PROBE), None)
        if probe is None:
            return Source(sources.TRACEPOINT, "no host probes")
        return Source(sources.TRACEPOINT, "" if probe.state == "attached" else probe.reason)

    def _judged(
        self, holds: Mapping[str, str], warnings: Mapping[str, str], drain: str
    ) -> NodeReport | None:
        report = self._telemetry.judge(holds, warnings, drain)
        if report is not None:
            self.post(steps.Reported(report))
        return report

    def _answered(self, event: Event) -> None:
        """What the scheduler says; a report that it took is in the cluster's log."""
        if isinstance(event, steps.Greeted) and self._health is not None:
            self._health.committed(event.report)
        self.post(event)

    async def _start_tracing(self) -> None:
        """The spawner has made the cgroup of the jobs by now, if it can."""
        cgroup = self._setting.jobs_cgroup()
        self._telemetry.cgroups = cgroup is not None
        attached: asyncio.Future[Any] = self._loop.create_future()
        self._tracer.start(cgroup, attached.set_result)
        await attached

    async def _meet_spawner(self) -> Spawner:
        while True:
            try:
                return await Spawner.connect(self._setting.state.run / "spawner.sock")
            except Unavailable as error:
                notify.status(f"waiting: {error.message}")
                _log.warning("no spawner", error=error.message)

    async def _for_ever(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """One part of the agent that must not end: it is begun again, and that is counted."""
        while True:
            try:
                await work()
            except Exception as error:
                self.counters["part_failed"] += 1
                _log.exception("a part of the agent failed", part=work.__name__, error=str(error))
            await asyncio.sleep(PART_AGAIN_S)

    async def _end(self) -> None:
        if self._power is not None:
            self._power.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                for part in (self._queries, self._actuator, self._health):
                    if part is not None:
                        part.close()
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                if self._spawner is not None:
                    await self._spawner.close()
        if self._power is not None:
            self._power.stop()
        self._tracer.close()
        self._telemetry.close()
        if self._exporter is not None:
            self._exporter.close()
        self._keeping.close()
        self._lease_thread.stop()
        self._lease.close()
        self._starts.close()
        self._position.close()

    # --- events in, effects out -------------------------------------------------------------------

    def post(self, event: Event) -> None:
        """Give an event to the core; it is taken in before the loop waits again."""
        self._events.append(event)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._drain_events)

    def _drain_events(self) -> None:
        """Everything that happened since the last turn, as one batch of effects."""
        self._scheduled = False
        effects: list[Effect] = []
        now_s = time.monotonic()
        try:
            while self._events:
                effects += self._node.step(self._events.popleft(), now_s)
            self._carry_out(effects)
        except Exception as error:
            # What is believed and what was done may differ now. A new agent finds out: the
            # spawner has the jobs, the scheduler the desired state.
            _log.exception("the agent gives up and is to be started anew", error=str(error))
            self.failed = True
            self.stop()
            return
        self._saying.status(self._node.status, ready=self._node.caught_up)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._node.deadline()
        if due is not None:
            wait_s = max(due - time.monotonic(), 0.001)
            self._timer = self._loop.call_later(wait_s, self.post, steps.NodeTick())

    def _carry_out(self, effects: list[Effect]) -> None:
        """In order, but the newest position first, and what may go together, together."""
        actuator = self._actuator
        positions = [effect for effect in effects if isinstance(effect, steps.Persist)]
        if positions:
            self._position.store(positions[-1].position)
        starts: list[StartJob] = []
        done: list[Key] = []
        for effect in effects:
            match effect:
                case steps.StartAttempts():
                    starts += effect.starts
                case steps.Acknowledge():
                    done += effect.keys
                case steps.StopAttempt(key, reason):
                    assert actuator is not None
                    actuator.start(starts)
                    starts = []
                    actuator.stop(key, reason)
                case steps.Settle(key):
                    assert actuator is not None
                    actuator.settle(key)
                case _:
                    self._speak(effect)
        if actuator is not None and starts:
            actuator.start(starts)
        if actuator is not None and done:
            actuator.acknowledge(done)

    def _speak(self, effect: Effect) -> None:
        match effect:
            case steps.Tell() | steps.SayHello() | steps.RequestState():
                self._talking.begin(effect)
            case steps.RenewLease(lease_s, since_ns, thaw):
                now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                begin_ns = now_ns if since_ns is None else since_ns
                self._lease.extend(begin_ns + int(lease_s * 1e9))
                if thaw:
                    self._lease.thaw()
                    _log.warning("frozen jobs go on: the log was read past the freeze")
            case steps.DropFolder(job):
                self._keeping.forget(job)
            case steps.LogNote(text):
                self._saying.note(text)

    # --- what is heard ----------------------------------------------------------------------------

    def _make_link(self) -> AgentConnection:
        name = self._setting.node
        link = self._link_of(
            name,
            {
                subjects.command(name): lambda message: self.post(steps.Offered(message.data)),
                **{subjects.query(name, what): self._asked for what in subjects.QUERIES},
            },
        )
        link.on_up = lambda: self.post(steps.MeshUp())
        link.on_down = lambda: self.post(steps.MeshDown())
        return link

    def _link_of(self, name: str, heard: Mapping[str, Hear]) -> AgentConnection:
        to = self._setting
        inbox = subjects.inbox(f"agent.{to.node}")
        return AgentConnection(name, to.broker, to.state.key("agent"), inbox, heard)

    def _make_lease_thread(self, chain: CommandChain) -> LeaseThread:
        """Heartbeats wait behind nothing that this loop has to do."""
        name = self._setting.node
        return LeaseThread(
            lambda hear: self._link_of(f"{name} lease", {subjects.heartbeat(name): hear}),
            HeartbeatJudge(
                chain.cluster, name, Verifier(self._setting.cluster.scheduler_public_key)
            ),
            self._lease,
            lambda: chain.position,
            lambda beaten: self._from_thread(self.post, beaten),
        )

    def _asked(self, message: Msg) -> None:
        assert self._queries is not None
        self._queries.hear(message)

    async def _listen(self) -> None:
        assert self._spawner is not None and self._actuator is not None
        while True:
            for event in await self._spawner.next_events():
                try:
                    self.post(self._actuator.heard(event))
                except Exception as error:  # the others of the batch must not be lost with it
                    self.counters["event_failed"] += 1
                    _log.exception("an event was not taken in", job=event.job, error=str(error))

    async def _compare(self) -> None:
        assert self._actuator is not None
        while True:
            await asyncio.sleep(COMPARE_EVERY_S)
            with contextlib.suppress(StokerError):
                self.post(await self._actuator.known(self._node.taken()))

    async def _weigh(self) -> None:
        while True:
            await asyncio.sleep(WEIGH_EVERY_S)
            self._keeping.weigh(self._starts.owners())

    async def _observe(self) -> None:
        subject = subjects.observation(self._setting.node)
        async for observation in self._telemetry.observations():
            if self._link.connected:
                self._link.publish(subject, _encoder.encode(observation))

    async def _watch_devices(self) -> None:
        async for report in self._telemetry.changes():
            _log.warning("the report changed", devices=[d.unavailable for d in report.devices])
            if self._health is not None:
                self._health.reported(report)
            self.post(steps.Reported(report))

    async def _count(self) -> None:
        await self._saying.count(self._counters)

    def _counters(self) -> list[Mapping[str, int]]:
        parts = (self._node, self, self._link, self._lease_thread, self._tracer, self._keeping)
        made = (self._telemetry, self._actuator, self._queries, self._exporter, self._health)
        return [part.counters for part in (*parts, *made) if part is not None]

    def _make_exporter(self) -> OtlpExporter | None:
        """Where config.toml names no collector there is none, and nothing of it costs anything."""
        config = self._setting.config.otlp
        if not config.endpoint:
            return None
        from stoker.agent.export.otlp_exporter import OtlpExporter

        said = resource(self._setting.cluster.cluster, self._setting.node)
        return OtlpExporter(config, said, self._reading, __version__)

    async def _reading(self) -> NodeReading:
        counters: Counter[str] = Counter()
        for each in self._counters():
            counters.update(each)
        return NodeReading(
            self._setting.incarnation,
            self._telemetry.devices.known,
            self._telemetry.samples,
            await self._telemetry.readings(),
            counters,
        )

    # --- what the answers to asks need ------------------------------------------------------------

    def _live(self, key: Key) -> bool:
        phase = self._node.phase(key)
        return phase is not None and phase not in OVER

    def _ended(self, key: Key) -> bool:
        exited = self._actuator.exited(key) if self._actuator is not None else None
        return exited is not None or self._keeping.silent(key)

    def _dropped(self, key: Key) -> int:
        exited = self._actuator.exited(key) if self._actuator is not None else None
        return self._keeping.dropped(key, exited)

    def _from_thread(self, call: Callable[..., object], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.counters["task_failed"] += 1
            _log.error("a task ended", task=task.get_name(), error=repr(error), exc_info=error)


async def _serve(option: str | None) -> int:
    setting = load(option)
    daemon = AgentDaemon(setting)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.rescan)
    gc.freeze()  # what was imported lives as long as the process: no collection looks at it again
    gc.set_threshold(GC_THRESHOLD)
    _log.info("agent starts", node=setting.node, boot=setting.boot_id, pid=os.getpid())
    await daemon.run()
    _log.info("agent ends", node=setting.node)
    return int(daemon.failed)


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    """uvloop where it is installed: a third less time per message."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run


def main() -> int:
    """Exit code 0 after a signal, 2 or 3 for a state folder or setting that cannot be used."""
    parser = argparse.ArgumentParser(prog="stoker-agent", description=__doc__.split("\n")[0])
    parser.add_argument("--state", help="state folder of the node")
    option = parser.parse_args().state
    configure_logging()
    try:
        return _runner()(_serve(option))
    except StokerError as error:
        _log.error("agent cannot start", error=error.message, hint=error.hint)
        return error.exit_code
    except OSError as error:
        _log.error("agent cannot start", error=str(error))
        return 1


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that hangs in a driver must not hold the end up
