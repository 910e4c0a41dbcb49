# SPDX-License-Identifier: Apache-2.0
"""The scheduler's process: `python -m stoker.mesh.server.scheduler_daemon --state FOLDER`.

It turns messages into events of `Replica`, and the replica's effects into messages, files and log
appends; it makes no decision. Guarantees that no message ends it. A defect in a step ends it with
its name in the log file, and the log has everything that was acknowledged.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import nats.errors
import nats.micro

from stoker import __version__
from stoker.mesh.broker import budgets, revoked_keys, spool_bounds
from stoker.mesh.broker.broker_routes import log_copies
from stoker.mesh.connection import loop_runner, process_connection
from stoker.mesh.connection.broker_connection import BrokerConnection, ConnectionCallbacks
from stoker.mesh.connection.broker_requests import BrokerRequests
from stoker.mesh.connection.broker_session import NobodyListens, Overdue
from stoker.mesh.connection.heard_subject import BrokerMessage, HeardSubject
from stoker.mesh.connection.user_connections import UserConnections
from stoker.mesh.log.genesis import member_number
from stoker.mesh.log.held_entries import FORGOTTEN, HeldEntries, Word
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.log.log_archive import LogArchive
from stoker.mesh.replica import events
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.replica.snapshots import SnapshotFolder
from stoker.mesh.server import boot_record, level_pin, notify, scheduler_options, watts_file
from stoker.mesh.server.audit_desk import AuditDesk
from stoker.mesh.server.broker_guard import BrokerGuard
from stoker.mesh.server.checkpoint_desk import CHECKPOINT_S, CheckpointDesk
from stoker.mesh.server.critical_tasks import CriticalTasks
from stoker.mesh.server.departures_file import DeparturesFile
from stoker.mesh.server.effect_loop import EffectLoop, Handlers
from stoker.mesh.server.figures_file import FiguresFile
from stoker.mesh.server.lease_answer_thread import LeaseAnswerThread
from stoker.mesh.server.log_keepers import LogKeepers
from stoker.mesh.server.log_output import configure_logging
from stoker.mesh.server.log_writer import LogWriter
from stoker.mesh.server.node_intake import NodeCaller, NodeIntake
from stoker.mesh.server.node_proxy import NodeProxy
from stoker.mesh.server.peer_link import PeerLink
from stoker.mesh.server.planned_stop import PlannedStop
from stoker.mesh.server.recorded_log import RecordedLog
from stoker.mesh.server.refused_keys import RefusedKeys
from stoker.mesh.server.request_intake import DaemonCalls, RequestIntake, respond
from stoker.mesh.server.scheduler_options import SchedulerOptions
from stoker.mesh.server.score_folder import ScoreFolder
from stoker.mesh.server.score_runner import ScoreRunner
from stoker.mesh.server.server_table import ServerTable
from stoker.mesh.server.service import Caller, Service
from stoker.mesh.server.status_watch import StatusWatch
from stoker.mesh.server.telemetry_desk import TelemetryDesk
from stoker.mesh.server.users_file import UsersFile
from stoker.mesh.wire import queries, request_signature, subjects
from stoker.mesh.wire.command import NodeReply
from stoker.mesh.wire.queries import PingQuery, PingReply
from stoker.native.errors import Corrupt, StokerError, Unavailable
from stoker.native.structured_log import structlog
from stoker.scheduler.book import Job

TICK_S = 0.1
SECOND_S = 1.0
HEARD_S = 0.25
LOG_S = 2.0
"""The pause between two looks at the brokers that keep the log, which people are shown."""
PING_S = 2.0
"""The longest wait for the result of a ping, which takes a node up to a second."""

log = structlog.get_logger("scheduler")


class SchedulerDaemon:
    """One process. `run` returns after SIGTERM."""

    def __init__(self, options: SchedulerOptions) -> None:
        self.options = options
        self.cluster = scheduler_options.read_cluster(options.state)
        self.identity = scheduler_options.read_key(options.state, self.cluster)
        self.folder = SnapshotFolder(options.state / "scheduler")
        self.record = RecordedLog(self.folder.path)
        self.figures = FiguresFile(self.folder.path, time.time_ns())
        self.genesis = scheduler_options.read_genesis(options.state, self.cluster)
        self.number = member_number(self.identity.public)
        self.held = None if self.genesis.alone else self._held_entries()
        self.replica = self._replica()
        self.tasks = CriticalTasks()
        self.loop = EffectLoop(self.replica, self.tasks)
        policy = request_signature.read(options.state / "config.toml")
        offered = ScoreFolder(options.state)
        self.functions = ScoreRunner(offered)
        homes = self.cluster.homes
        self.service = Service(self.replica, policy, offered.check, homes)
        self.service.servers = self.cluster.keys
        self.refused = RefusedKeys(options.state / revoked_keys.FILE, self.replica.count)
        self.departures = DeparturesFile(self.folder.path)
        self.users_file = UsersFile(options.state / "users.json")
        self.telemetry = TelemetryDesk(
            f"{self.number:x}-{time.time_ns():x}",
            self._answers,
            lambda: self.replica.state.book.nodes,
            lambda: self.log.copies,
            spool_bounds.read(options.state / "config.toml"),
        )
        archive = self.folder.path / "archive"
        self.archive = LogArchive(archive)
        self.to_log = BrokerConnection()
        self.log = JetStreamLog(
            BrokerRequests(self.to_log),
            self.cluster.cluster,
            options.log_max_bytes,
            f"read-{self.number:x}",
            log_copies(len(self.genesis.schedulers)),
        )
        audit = AuditDesk(self.replica, self.identity.public, self.archive, self.log, self.held)
        audit.checkpoints = self.checkpoints = CheckpointDesk(self.replica, self.identity, archive)
        self.proxy = NodeProxy(
            self.replica, self._query_node, self._await_job, self.telemetry.answer, audit.answer
        )
        self.proxy.read_spooled = self.telemetry.spooled.read
        calls = DaemonCalls(self.loop.feed, self.tasks.spawn, self.replica.count, self._answers)
        self.intake = RequestIntake(self.service, self.proxy, calls, self.replica.settings.budgets)
        self.broker = BrokerConnection()
        self.users = UserConnections(
            self._connect_user,
            self.intake.receive,
            self.replica.count,
            lambda: self._answers() or self.planned.begun,
            subjects.at(self.number),
        )
        self.planned = PlannedStop(self.loop.feed, self.users, self.intake)
        self.nodes = NodeIntake(self.loop.feed, self.replica.count, self._answers)
        self.guard = BrokerGuard(options.state, self.cluster.node, self.replica.count)
        self._node_requests: HeardSubject | None = None
        self._listening = asyncio.Lock()
        self.keepers = LogKeepers(self.log, self.replica, self.cluster.node, homes)
        self.servers = ServerTable(options.state, self.cluster)
        self.leases = LeaseAnswerThread(self.identity, options.state)
        self.watch = StatusWatch(self.replica, options)
        self._stopped = asyncio.Event()
        self._failed: StokerError | None = None
        self._told_term = 0
        """The newest term of which the log file tells that it began."""
        self.peers: PeerLink | None = None
        self.loop.handlers = self._handlers()

    def _handlers(self) -> Handlers:
        """Return what carries out each kind of effect; one scheduler alone has none for others."""
        writer = LogWriter(self.log, self.folder, self.loop.feed, self.archive, self.held)
        writer.checkpoint = self.checkpoints.saved
        handlers: dict[type, Callable[[Any], Awaitable[None]]] = {
            events.Append: self.loop.in_background(writer.append),
            events.Read: self.loop.in_background(writer.read),
            events.SaveSnapshot: self.loop.in_background(writer.save),
            events.Trim: self.loop.in_background(writer.trim),
            events.Reply: self._reply,
            events.Send: self._send,
            events.RenewLeases: self._renew,
            events.Withhold: self._withhold,
            events.Resume: self._resume,
            events.PingNode: self.loop.in_background(self._ping),
            events.TellRanks: self._tell_ranks,
            events.Score: self.loop.in_background(self._score),
            events.EntryTold: self.telemetry.committed,
            events.Lead: self._lead,
            events.Left: self.planned.note_left,
            events.Halt: self._halt,
        }
        if self.held is not None:
            self.peers = peers = PeerLink(
                self.number, self.folder, self.held, self.loop.feed, self.replica.count
            )
            handlers |= {
                events.SendPeer: peers.send,
                events.Store: peers.store,
                events.ReadSnapshotPart: self.loop.in_background(peers.read_part),
                events.Install: peers.install,
            }
        return handlers

    def _held_entries(self) -> HeldEntries:
        """Return the file of held entries; a folder that has had none yet gets a new one."""
        held = HeldEntries(self.folder.path, is_new=self.record.is_new)
        if held.read().floor == FORGOTTEN:
            log.warning("this scheduler has lost what it held, and asks the others before it votes")
        return held

    def _replica(self) -> Replica:
        found = self.folder.newest(self.cluster.cluster)
        for what in found.damaged:
            log.error("snapshot damaged", what=what)
        word = self.held.read() if self.held is not None else Word()
        settings = ReplicaSettings(
            self.genesis,
            self.number,
            self.options.log_max_bytes,
            seed=time.monotonic_ns(),
            budgets=budgets.read(self.options.state / "config.toml"),
            watts=watts_file.read(self.options.state / "config.toml"),
            known_tail=self.record.tail,
            promised=word.promised,
            floor=word.floor,
            supports=level_pin.read(self.options.state / "config.toml"),
            tells=True,
            began_ns=boot_record.began_ns(self.folder.path, boot_record.boot_id(), boot_ns()),
        )
        return Replica(settings, self.identity, found.snapshot, found.digest, word.entries)

    # --- start and end ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect, lead and serve until SIGTERM; raise the error of a halt at the start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopped.set)
        starting = asyncio.create_task(self._start())
        try:
            await self._until_stopped(starting)
        finally:
            self.tasks.ending()
            starting.cancel()
            await self._close()
        if self._failed is not None:
            raise self._failed

    async def _until_stopped(self, starting: asyncio.Task[None]) -> None:
        stopping = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            await stopping
            await self._hand_over()

    async def _start(self) -> None:
        notify.status("waiting: connecting to the broker")
        self.tasks.repeat(SECOND_S, self._follow_broker)
        callbacks = ConnectionCallbacks(self._on_error, _nothing, self._on_back)
        state = self.options.state
        await asyncio.gather(
            process_connection.begin(self.broker, state, "scheduler", callbacks),
            process_connection.begin(self.to_log, state, "scheduler log", callbacks),
        )
        self.tasks.spawn(self._open_telemetry())
        self.tasks.spawn(self.guard.run())
        if self.peers is not None:
            others = ConnectionCallbacks(self._on_error, _nothing, _nothing)
            peers = self.peers.connection
            await process_connection.begin(peers, state, "scheduler peers", others)
            await self.peers.open()
        self.leases.start()
        founds = any(each.number == self.number for each in self.genesis.schedulers)
        await self.record.open(self.log, founds=founds, broker=self.cluster.node)
        self.telemetry.spool.stay(self.log.place, there=self.record.has_spool(self.log))
        self.watch.copies(self.log.copies, log_copies(len(self.genesis.schedulers)))
        await self._serve()
        self.tasks.repeat(TICK_S, self._tick)
        self.tasks.repeat(SECOND_S, self._second)
        self.tasks.repeat(HEARD_S, self._note_heard)
        self.tasks.repeat(LOG_S, self._look_at_log)
        self.tasks.repeat(CHECKPOINT_S, self.checkpoints.period)

    async def _hand_over(self) -> None:
        """Let another scheduler lead at once, if there is one, before anything here ends."""
        if self.peers is not None:
            connections = [*self._own_connections(), *self.users.connections]
            await self.planned.hand_over(self._listen, connections)

    async def _open_telemetry(self) -> None:
        """Connect what nothing waits for, so that it delays no start."""
        desk = self.telemetry
        callbacks = ConnectionCallbacks(self._on_telemetry_error, self._on_telemetry_lost, _nothing)
        await process_connection.connect(
            desk.nc, self.options.state, "scheduler telemetry", callbacks, again_s=SECOND_S
        )
        with contextlib.suppress(nats.errors.Error, OSError):  # nothing needs the list
            await self._list_requests()
        self.tasks.repeat(TICK_S, desk.flush)
        self.tasks.repeat(SECOND_S, desk.second)

    async def _serve(self) -> None:
        """Hear nodes here, and each user on a connection of their own.

        Among several schedulers only the leader takes requests, so that nobody refuses what it
        answers. All hear the observations of nodes, which are never answered.
        """
        await self._listen()
        await self.nodes.hear_observations(self.broker)
        await self.broker.subscribe(subjects.EVERY_REFUSAL, cb=self._broker_refused)
        self.tasks.spawn(self.intake.run())
        await self.broker.flush()
        await self.users.settle(self.service.users)
        self.tasks.repeat(TICK_S, self._settle_users)

    async def _list_requests(self) -> None:
        """Have a service that `nats micro` finds; it only lists the requests."""
        says = "GPU jobs: docs/schema"
        service = await nats.micro.add_service(
            self.telemetry.nc, name="stoker", version=__version__, description=says
        )
        for noun, verb in subjects.REQUESTS:
            await service.add_endpoint(
                name=f"{noun}-{verb}", subject=subjects.request(noun, verb), handler=_nothing
            )

    async def _close(self) -> None:
        notify.stopping()
        self.leases.stop()
        self.functions.close()
        self.record.record(self.replica)
        await self.users.close()
        own = [*self._own_connections(), self.guard.connection]
        for closing in [each.close() for each in own]:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(closing, 1)
        await self.tasks.end()
        with contextlib.suppress(Exception):  # last, for a task may still have been connecting it
            await asyncio.wait_for(self.telemetry.nc.close(), 1)

    # --- connections ------------------------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        log.warning("broker connection", error=repr(error))

    async def _on_telemetry_error(self, error: Exception) -> None:
        self.replica.count("telemetry_connection_error")
        await self.telemetry.requests.on_error(error)

    async def _on_telemetry_lost(self) -> None:
        await self._follow_broker()
        await self.telemetry.lost()

    async def _on_back(self) -> None:
        await self.loop.feed(events.LogReachable())

    async def _follow_broker(self) -> None:
        process_connection.follow([self.telemetry.nc], self.options.state)

    def _own_connections(self) -> list[BrokerConnection]:
        peers = [self.peers.connection] if self.peers is not None else []
        return [self.broker, self.to_log, *peers]

    def _answers(self) -> bool:
        """True if no other scheduler can answer a request that arrives now."""
        return self.replica.right.may_answer(boot_ns())

    async def _listen(self) -> None:
        """Begin or end to take requests of nodes and users, as this replica may answer or not."""
        async with self._listening:
            takes = self._answers() and not self.planned.begun
            if takes and self._node_requests is None:
                self._node_requests = await self.nodes.hear_requests(self.broker)
            elif self._node_requests is not None and not takes:
                ended, self._node_requests = self._node_requests, None
                with contextlib.suppress(OSError):
                    await self.planned.end(ended)
            await self.users.listen()

    async def _connect_user(self, connection: BrokerConnection, name: str) -> None:
        callbacks = ConnectionCallbacks(self._on_user_error, _nothing, _nothing)
        await process_connection.begin(connection, self.options.state, name, callbacks)

    async def _on_user_error(self, error: Exception) -> None:
        """Count an end of a user's connection, as when the user sends more than is read."""
        self.replica.count("users_connection_error")
        log.warning("broker connection of a user", error=repr(error))

    async def _settle_users(self) -> None:
        if self.users_file.is_due(boot_ns()):
            accounts = await asyncio.to_thread(self.users_file.accounts)
            await self.loop.feed(events.AccountsRead(accounts))
        await self.users.settle(self.service.users)
        if not self.replica.right.alone:
            await self._listen()

    # --- messages in ------------------------------------------------------------------------------

    async def _broker_refused(self, message: BrokerMessage) -> None:
        self.refused.heard(message.data)

    # --- effects out ------------------------------------------------------------------------------

    async def _send(self, effect: events.Send) -> None:
        """Send a command; a lost one is a gap in the node's chain, which its next lease shows."""
        try:
            await self.broker.publish(subjects.command(effect.node), effect.data)
        except (OSError, ValueError):
            self.replica.count("command_lost")

    async def _renew(self, effect: events.RenewLeases) -> None:
        self.leases.grant(effect.authority)
        if effect.authority is None:
            self.tasks.spawn(self._listen())

    async def _withhold(self, effect: events.Withhold) -> None:
        self.leases.answers.withhold(effect.node)
        answered_ns = self.leases.answers.answered_ns(effect.node)
        await self.loop.feed(events.Withheld(effect.node, answered_ns))

    async def _resume(self, effect: events.Resume) -> None:
        self.leases.answers.resume(effect.node)

    async def _ping(self, effect: events.PingNode) -> None:
        """Have a node ping another one; without its answer nothing is known."""
        payload = queries.encode(PingQuery(effect.address, target=effect.target))
        try:
            data = await self._query_node(effect.pinger, "ping", payload, PING_S)
            reply = queries.decode_reply(data)
        except StokerError:
            self.replica.count("ping_unanswered")
            return
        if isinstance(reply, PingReply):
            answered, unable = reply.result == "answered", reply.result == "unable"
            failed = reply.gossip == "failed"
            reported = events.PingReported(effect.pinger, effect.target, answered, unable, failed)
            await self.loop.feed(reported)

    async def _tell_ranks(self, effect: events.TellRanks) -> None:
        """Tell a node of its ranks; what is lost is told again in a second."""
        try:
            await self.broker.publish(subjects.query(effect.node, "ranks"), effect.data)
        except (OSError, ValueError):
            self.replica.count("ranks_untold")

    async def _score(self, effect: events.Score) -> None:
        await self.loop.feed(await self.functions.score(effect))

    async def _reply(self, effect: events.Reply) -> None:
        token, value = effect.token, effect.value
        if isinstance(token, Caller):
            await self.intake.reply(token, value)
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
        if effect.term != self._told_term:  # while the log fails, one term begins again and again
            self._told_term = effect.term
            log.info("leading", term=effect.term, seq=self.replica.state.seen)
        self.telemetry.leads(effect.term, self.replica.real_ns, self.replica.state.index)
        self.telemetry.spool.begin(self.replica.state.book.live_after(0))
        self.tasks.spawn(self._be_ready())

    async def _be_ready(self) -> None:
        """Report ready as soon as all users can reach this process."""
        await self._listen()
        await self.users.settle(self.service.users)
        self.watch.leads()

    async def _halt(self, effect: events.Halt) -> None:
        """End the process if it never led; else it goes on to answer reads. A build that the others
        have left behind goes on as well, and tells whoever asks: no restart would change it."""
        self.watch.halts()
        left_behind = self.replica.right.is_beyond and not self.replica.right.alone
        if not self.replica.has_led and not left_behind:
            self._failed = Corrupt(effect.reason, hint=self.record.remedy(self.replica))
            self._stopped.set()

    # --- requests of the proxy --------------------------------------------------------------------

    async def _query_node(self, node: str, what: str, payload: bytes, timeout_s: float) -> bytes:
        try:
            return await self.broker.request(subjects.query(node, what), payload, timeout_s)
        except NobodyListens:
            raise Unavailable(f"the agent of node {node} is not there now") from None
        except Overdue:
            raise Unavailable(f"node {node} did not answer within {timeout_s:g} s") from None
        except Unavailable as error:
            raise Unavailable(f"node {node} cannot be reached: {error.message}") from None

    async def _await_job(self, job: int, until: str, wait_s: float) -> Job:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        deadline_ns = boot_ns() + int(wait_s * 1e9)
        await self.loop.feed(events.Get(future, job, until, deadline_ns))
        value = await future
        if isinstance(value, StokerError):
            raise value
        assert isinstance(value, Job)
        return value

    # --- time -------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        await self.loop.feed(events.TimePassed())
        await self.departures.follow(self.replica.state.book.departures)

    async def _note_heard(self) -> None:
        if self.replica.watch.watches:
            await self.loop.feed(events.NodesHeard(self.leases.answers.heard()))

    async def _look_at_log(self) -> None:
        """Learn which brokers keep the log, for people to see, and change them if need be."""
        await self._follow_servers()
        self.service.log = await self.keepers.look()
        self.watch.copy(self.service.log, self.cluster.node)

    async def _follow_servers(self) -> None:
        """Know the servers that joined since the founding, or were taken out."""
        if self.peers is not None and self.servers.changed():
            found = self.servers.record
            self.service.servers, self.service.homes = found.keys, found.homes
            self.keepers.servers = found.homes
            await self.loop.feed(events.ServersKnown(self.servers.members))

    async def _second(self) -> None:
        await self.loop.feed(events.Disk(self.watch.disk()))
        self.record.record(self.replica)
        self.replica.counters.update(self.leases.counters)
        self.replica.counters.update(self.telemetry.counters)
        await self.figures.second(self.replica, time.time_ns())
        now_ns, real_ns = boot_ns(), self.replica.real_ns
        for row in self.guard.due(now_ns, real_ns):
            self.telemetry.tell(row, self.replica.state.index)
        if self._answers():
            for row in (*self.refused.due(now_ns, real_ns), *self.nodes.due(now_ns, real_ns)):
                self.telemetry.tell(row, self.replica.state.index)
        self.watch.look()


async def _nothing(*_: object) -> None:
    """Do nothing: users repeat requests after a reconnect, and listed subjects get no messages."""


def main(arguments: list[str] | None = None) -> int:
    """Run the process; return 0, or the exit code of the StokerError that ended it."""
    arguments = sys.argv[1:] if arguments is None else arguments
    options = scheduler_options.parse(arguments, __doc__)
    configure_logging()
    try:
        gc.freeze()
        loop_runner.run(_run(options))
    except StokerError as error:
        log.critical(error.title, error=str(error))
        return error.exit_code
    return 0


async def _run(options: SchedulerOptions) -> None:
    await SchedulerDaemon(options).run()


if __name__ == "__main__":
    sys.exit(main())
