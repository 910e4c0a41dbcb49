# SPDX-License-Identifier: Apache-2.0
"""The scheduler's process: `python -m stoker.mesh.server.scheduler_daemon --state FOLDER`.

A thin shell: messages become events of `Replica`, its effects become messages, files and log
appends; no decision is made here. No message ends it; a defect in a step does, by name, and the log
has all that was promised.
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
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import nats.errors
import nats.micro
import structlog
from nats.aio.msg import Msg

from stoker import __version__
from stoker.mesh.broker import broker_config, budgets, users
from stoker.mesh.connection import process_connection
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.connection.process_connection import RECONNECT_S, ConnectionCallbacks, key_file
from stoker.mesh.connection.requests import Requests
from stoker.mesh.connection.user_connections import UserConnections
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import log_record
from stoker.mesh.log.jetstream_log import JetStreamLog, StreamGone
from stoker.mesh.replica import events
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.mesh.server import notify
from stoker.mesh.server.heartbeat_thread import HeartbeatThread
from stoker.mesh.server.log_output import configure_logging
from stoker.mesh.server.log_writer import LogWriter
from stoker.mesh.server.node_proxy import NodeProxy
from stoker.mesh.server.request_intake import DaemonCalls, RequestIntake, respond
from stoker.mesh.server.service import Caller, Service
from stoker.mesh.wire import node_messages, request_signature, subjects
from stoker.mesh.wire.command import NodeReply
from stoker.native.errors import Corrupt, Refused, StokerError, Unavailable
from stoker.scheduler.book import Job
from stoker.scheduler.core import Limits

TICK_S = 0.1
SECOND_S = 1.0
DISK_RESERVE_BYTES = 64 << 20
"""Kept free for the end of what runs: below it no job is taken."""
DISK_RESERVE_SHARE = 0.05
"""Of a small disk."""
BROKER_STUCK_S = 6.0
"""A log that answers nothing for so long, with room on the disk, needs its broker restarted."""
BROKER_AGAIN_S = 11.0
"""Before it is asked again: a broker younger than 10 s is not restarted, and the ask is lost."""
CRY_S = 60.0
"""A halted scheduler says so again and again."""

log = structlog.get_logger("scheduler")


class ClusterRecord(msgspec.Struct, frozen=True):
    """What of cluster.json is needed here."""

    cluster: str
    node: str
    scheduler_public_key: str
    port: int


@dataclass(frozen=True)
class SchedulerOptions:
    """The command line."""

    state: Path
    log_max_bytes: int = broker_config.LOG_MAX_BYTES
    disk_reserve_bytes: int = DISK_RESERVE_BYTES


class NodeCaller:
    """A node that waits for a reply."""

    __slots__ = ("message",)

    def __init__(self, message: Msg) -> None:
        self.message = message


class SchedulerDaemon:
    """One process. `run` returns after SIGTERM."""

    def __init__(self, options: SchedulerOptions) -> None:
        self.options = options
        self.cluster = _read_cluster(options.state)
        self.identity = _scheduler_key(options.state, self.cluster)
        self.folder = SnapshotFolder(options.state / "scheduler")
        self.known = log_record.read(self.folder.path)
        self._recorded = 0
        self.users_file = options.state / "users.json"
        self.replica = self._replica()
        requests = request_signature.read(options.state / "config.toml")
        self.service = Service(self.replica, {}, requests)
        self.proxy = NodeProxy(self.replica, self._query_node, self._await_job)
        calls = DaemonCalls(self._feed, self._spawn, self.replica.count)
        self.door = RequestIntake(self.service, self.proxy, calls, self.replica.settings.budgets)
        self.nc = LocalConnection()
        self.lines = UserConnections(self._connect_user, self.door.receive, self.replica.count)
        self.log_nc = LocalConnection()
        self.log_requests = Requests(self.log_nc)
        self.log = JetStreamLog(self.log_requests, self.cluster.cluster, options.log_max_bytes)
        self.beats = HeartbeatThread(self.identity, options.state)
        self._effects: deque[events.Effect] = deque()
        self._carrying = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        self._failed: StokerError | None = None
        self._users_stamp: tuple[int, int, int] | None = None
        self._status = ""
        self._asked_broker_s = 0.0
        self._cried_s = 0.0
        self._young = 0
        """Idempotency keys forgotten too soon, as far as the log was told."""
        self._stuck_since_s: float | None = None
        writer = LogWriter(self.log, self.folder, self._feed)
        self._do: dict[type, Callable[[Any], Awaitable[None]]] = {
            events.Append: self._apart(writer.append),
            events.Read: self._apart(writer.read),
            events.SaveSnapshot: self._apart(writer.save),
            events.Trim: self._apart(writer.trim),
            events.Reply: self._reply,
            events.Send: self._send,
            events.RenewLeases: self._renew,
            events.Lead: self._lead,
            events.Halt: self._halt,
        }

    def _replica(self) -> Replica:
        found = self.folder.newest(self.cluster.cluster)
        for what in found.damaged:
            log.error("snapshot damaged", what=what)
        leader = int.from_bytes(self.identity.public.encode()[1:9], "little")
        settings = ReplicaSettings(
            self.cluster.cluster,
            leader,
            Limits(),
            self.options.log_max_bytes,
            seed=time.monotonic_ns(),
            budgets=budgets.read(self.options.state / "config.toml"),
            known_tail=self.known.tail if self.known is not None else 0,
        )
        verifiers = {leader: self.identity.verifier}
        return Replica(settings, self.identity, dict(verifiers), found.snapshot, found.digest)

    # --- life -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, lead, serve until told to stop."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        self._check_users()
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            await stopping
        starting.cancel()
        notify.stopping()
        self.beats.stop()
        self._record_tail()
        await self.lines.close()
        for nc in (self.nc, self.log_nc):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(nc.close(), 1)
        if self._failed is not None:
            raise self._failed

    async def _start(self) -> None:
        notify.status("waiting: connecting to the broker")
        self._spawn(self._every(SECOND_S, self._look_where))
        callbacks = ConnectionCallbacks(self._on_error, self._on_lost, self._on_back)
        state = self.options.state
        await asyncio.gather(
            process_connection.connect(self.nc, state, "scheduler", callbacks),
            process_connection.connect(self.log_nc, state, "scheduler log", callbacks),
        )
        self.beats.start()
        await self._open_log()
        await self._serve()
        self._spawn(self._every(TICK_S, self._tick))
        self._spawn(self._every(SECOND_S, self._second))

    async def _open_log(self) -> None:
        """Only a state that was never begun makes the stream; it says so before anything is in."""
        known = self.known
        while True:
            try:
                await self.log.open(may_make=known is not None and known.is_new)
                break
            except StreamGone:
                raise log_record.vanished(self.folder.path) from None
            except Unavailable as error:
                log.warning("no log yet", error=error.message)
                await asyncio.sleep(RECONNECT_S)
        if known is None or known.is_new:
            log_record.made(self.folder.path, 0)

    def _record_tail(self) -> None:
        """Once a second and at the end; what came later may be lost unnoticed if the disk lies."""
        tail = self.replica.state.seen
        if self.replica.role == "leading" and tail > self._recorded:
            try:
                log_record.reached(self.folder.path, tail)
                self._recorded = tail
            except Refused as error:
                log.warning("the log's length is not recorded", why=error.message)

    async def _on_error(self, error: Exception) -> None:
        log.warning("broker", error=repr(error))
        await self.log_requests.on_error(error)

    async def _on_lost(self) -> None:
        await self._look_where()
        await self.log_requests.on_lost()

    async def _on_back(self) -> None:
        await self._feed(events.LogReachable())

    async def _look_where(self) -> None:
        connections = (self.nc, self.log_nc, *self.lines.connections)
        process_connection.follow(connections, self.options.state)

    async def _connect_user(self, nc: LocalConnection, name: str) -> None:
        callbacks = ConnectionCallbacks(self._on_users_error, self._look_where, _nothing)
        await process_connection.connect(nc, self.options.state, name, callbacks)

    async def _on_users_error(self, error: Exception) -> None:
        """The broker ends this connection when users send more than is read; the log goes on."""
        self.replica.count("users_connection_error")
        log.warning("broker, connection of users", error=repr(error))

    async def _serve(self) -> None:
        """Every subject: nodes here, each user through a connection of the user's own. The service
        that `nats micro` finds only says what can be asked."""
        await self.nc.subscribe(subjects.EVERY_NODE_REQUEST, cb=self._from_node)
        await self.nc.subscribe(subjects.EVERY_OBSERVATION, cb=self._observed)
        service = await nats.micro.add_service(
            self.nc, name="stoker", version=__version__, description="GPU jobs: docs/schema"
        )
        for noun, verb in subjects.REQUESTS:
            await service.add_endpoint(
                name=f"{noun}-{verb}", subject=subjects.request(noun, verb), handler=_nothing
            )
        self._spawn(self.door.run())
        await self.nc.flush()
        await self.lines.settle(self.service.users)
        self._spawn(self._every(TICK_S, self._settle_users))

    async def _settle_users(self) -> None:
        self._check_users()
        await self.lines.settle(self.service.users)

    def _apart(
        self, what: Callable[[Any], Coroutine[Any, Any, None]]
    ) -> Callable[[Any], Awaitable[None]]:
        """An effect that takes its time: the next one does not wait for it."""

        async def begin(effect: Any) -> None:
            self._spawn(what(effect))

        return begin

    async def _every(self, period_s: float, what: Callable[[], Awaitable[None]]) -> None:
        while True:
            await what()
            await asyncio.sleep(period_s)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _die(str(task.get_coro()), task.exception())

    # --- messages in ------------------------------------------------------------------------------

    async def _from_node(self, message: Msg) -> None:
        try:
            event = _node_event(message)
        except StokerError as error:
            self.replica.count(f"node_{error.code}")
            log.warning("a node's message is refused", subject=message.subject, error=str(error))
            reply = NodeReply(False, error.code, error.message)
            await self._respond(message, msgspec.msgpack.encode(reply))
        else:
            await self._feed(event)

    async def _observed(self, message: Msg) -> None:
        try:
            node = subjects.parse_observation(message.subject)
            event = events.Observed(node, node_messages.observation(message.data, node))
        except StokerError as error:
            self.replica.count("observation_refused")
            log.warning("an observation is refused", error=str(error))
        else:
            await self._feed(event)

    # --- effects out ------------------------------------------------------------------------------

    async def _feed(self, event: events.Event) -> None:
        """One step; effects are carried out in order, also those of steps made meanwhile."""
        try:
            now_ns = boot_ns()
            self._effects.extend(self.replica.step(event, time.time_ns(), now_ns))
        except Exception:
            _die(type(event).__name__)
        if self._carrying:
            return
        self._carrying = True
        while self._effects:
            effect = self._effects.popleft()
            try:
                await self._do[type(effect)](effect)
            except Exception:
                self.replica.count("effect_failed")
                log.exception("an effect failed", effect=type(effect).__name__)
        self._carrying = False

    async def _send(self, effect: events.Send) -> None:
        """A command lost here is a gap in the node's chain, which the next heartbeat shows."""
        try:
            await self.nc.publish(subjects.command(effect.node), effect.data)
        except (nats.errors.Error, OSError):
            self.replica.count("command_lost")

    async def _renew(self, effect: events.RenewLeases) -> None:
        self.beats.grant(effect.authority)

    async def _reply(self, effect: events.Reply) -> None:
        token, value = effect.token, effect.value
        if isinstance(token, Caller):
            await self.door.reply(token, value)
        elif isinstance(token, NodeCaller):
            if isinstance(value, StokerError):
                value = NodeReply(False, value.code, value.message)
            data = value if isinstance(value, bytes) else msgspec.msgpack.encode(value)
            await self._respond(token.message, data)
        elif isinstance(token, asyncio.Future) and not token.done():
            token.set_result(value)

    async def _respond(self, to: Any, data: bytes) -> None:
        await respond(to, data, self.replica.count)

    async def _lead(self, effect: events.Lead) -> None:
        self._stuck_since_s = None
        log.info("leads", term=effect.term, seq=self.replica.state.seen)
        notify.ready("ok")
        self._status = "ok"

    async def _halt(self, effect: events.Halt) -> None:
        self._cry()
        notify.status(self.replica.status())
        if not self.replica.has_led:  # at the start there is nobody to answer questions for
            cut = self.replica.state.seen < self.replica.settings.known_tail
            hint = log_record.remedy(self.folder.path) if cut else ""
            self._failed = Corrupt(effect.reason, hint=hint)
            self._stopped.set()

    def _cry(self) -> None:
        """Again each minute, for as long as it is halted: jobs go on, so nothing else tells."""
        self._cried_s = time.monotonic()
        log.critical(
            "halted: running jobs go on, but nothing is placed, and no end of a job is recorded",
            reason=self.replica.why,
            hint="keep a copy of the state folder; `stoker down` and `stoker up` read the log anew",
        )

    # --- asking -----------------------------------------------------------------------------------

    async def _query_node(self, node: str, what: str, payload: bytes, timeout_s: float) -> bytes:
        try:
            reply = await self.nc.request(subjects.query(node, what), payload, timeout=timeout_s)
        except nats.errors.NoRespondersError:
            raise Unavailable(f"the agent of node {node} is not there now") from None
        except TimeoutError:
            raise Unavailable(f"node {node} did not answer within {timeout_s:g} s") from None
        except (nats.errors.Error, OSError) as error:
            raise Unavailable(f"node {node} cannot be asked: {error!r}") from None
        return bytes(reply.data)

    async def _await_job(self, job: int, until: str, wait_s: float) -> Job:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        deadline_ns = boot_ns() + int(wait_s * 1e9)
        await self._feed(events.Get(future, job, until, deadline_ns))
        value = await future
        if isinstance(value, StokerError):
            raise value
        assert isinstance(value, Job)
        return value

    # --- time -------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        await self._feed(events.TimePassed())

    async def _second(self) -> None:
        await self._feed(events.Disk(self._disk()))
        self._watch_broker()
        self._record_tail()
        young = self.replica.state.core.counters()["keys_forgotten_young"]
        if young > self._young:
            log.warning("idempotency keys were forgotten within an hour", count=young)
            self._young = young
        self.replica.counters.update(self.beats.counters)
        if self.replica.role == "halted" and time.monotonic() - self._cried_s > CRY_S:
            self._cry()
        status = self.replica.status()
        if status != self._status and self._status:
            log.info("status", status=status)
            notify.status(status)
            self._status = status
        notify.alive()

    def _disk(self) -> str:
        """Why the state disk takes no more jobs, or empty."""
        try:
            found = os.statvfs(self.options.state)
        except OSError as error:
            return f"the state disk cannot be asked: {error.strerror}"
        size, free = found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail
        reserve = min(self.options.disk_reserve_bytes, int(size * DISK_RESERVE_SHARE))
        if free >= reserve:
            return ""
        have, want = free / (1 << 20), reserve / (1 << 20)
        return f"the state disk has {have:.1f} MiB free, {want:.1f} MiB are kept in reserve"

    def _watch_broker(self) -> None:
        """An R=1 log that met a full disk may stay silent when there is room: restart it."""
        now_s = time.monotonic()
        if not self.replica.status().startswith("blocked") or self.replica.role == "halted":
            self._stuck_since_s = None
            return
        if self._stuck_since_s is None:
            self._stuck_since_s = now_s
        stuck = now_s - self._stuck_since_s > BROKER_STUCK_S
        if stuck and not self._disk() and now_s - self._asked_broker_s > BROKER_AGAIN_S:
            self._asked_broker_s = now_s
            log.error("asking for a restart of the broker", why=self.replica.why)
            notify.status(f"broker-restart: {self.replica.why}")

    def _check_users(self) -> None:
        """Take over a changed table; a damaged one leaves the old one in force."""
        try:
            status = self.users_file.stat()
            stamp = (status.st_mtime_ns, status.st_ino, status.st_size)
            if stamp == self._users_stamp:
                return
            self._users_stamp = stamp
            self.service.users = users.load(self.users_file)
            self.service.owners.clear()
            log.info("users", count=len(self.service.users))
        except (StokerError, OSError) as error:
            log.error("the table of users cannot be read", error=str(error))


def _die(where: str, error: BaseException | None = None) -> NoReturn:
    """State in memory may be half changed, what is in the log is not: start again from there."""
    try:
        log.critical("a defect ends the scheduler", where=where, exc_info=error or True)
    finally:
        os._exit(70)  # EX_SOFTWARE of sysexits.h


async def _nothing(*_: object) -> None:
    """What follows when a user's connection is back, as users ask again by themselves; and the
    answer to what cannot be asked."""


def _node_event(message: Msg) -> events.Event:
    node, what = subjects.parse_node_request(message.subject)
    token = NodeCaller(message)
    if what == "hello":
        return events.NodeReported(token, node_messages.report(message.data, node))
    if what == "outcome":
        return events.Outcomes(token, node, node_messages.outcomes(message.data))
    return events.StateRequested(token, node, node_messages.state_request(message.data))


def _read_cluster(state: Path) -> ClusterRecord:
    file = state / "cluster.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=ClusterRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"{file}: {error}") from None


def _scheduler_key(state: Path, cluster: ClusterRecord) -> Identity:
    key = identity.load(key_file(state))
    if key.public != cluster.scheduler_public_key:
        raise Corrupt(f"{key_file(state)} is not the key that cluster.json names")
    return key


def _options(arguments: list[str]) -> SchedulerOptions:
    parser = argparse.ArgumentParser(prog="stoker-scheduler", description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    limit = os.environ.get("STOKER_SCHEDULER_LOG_MAX_BYTES", str(broker_config.LOG_MAX_BYTES))
    parser.add_argument("--log-max-bytes", type=int, default=limit)
    parser.add_argument("--disk-reserve-bytes", type=int, default=DISK_RESERVE_BYTES)
    return SchedulerOptions(**vars(parser.parse_args(arguments)))


def main(arguments: list[str] | None = None) -> int:
    """Entry point; the exit code is that of the StokerError that ended it."""
    options = _options(sys.argv[1:] if arguments is None else arguments)
    configure_logging()
    try:
        run = asyncio.run
        with contextlib.suppress(ImportError):
            import uvloop

            run = uvloop.run
        gc.freeze()
        run(_run(options))
    except StokerError as error:
        log.critical(error.title, error=str(error))
        return error.exit_code
    return 0


async def _run(options: SchedulerOptions) -> None:
    await SchedulerDaemon(options).run()


if __name__ == "__main__":
    sys.exit(main())
