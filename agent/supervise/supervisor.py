# SPDX-License-Identifier: Apache-2.0
"""The supervisor: it starts a node's processes, adopts those of an earlier supervisor, restarts
processes that end, and stops all in reverse order. `agent/supervise/processes.py` decides.

It holds the lock of the state folder. A child never depends on this process, which may be killed at
any moment and started again by `stoker up`. Run as `python -m
stoker.agent.supervise.supervisor SETTINGS`, where SETTINGS is JSON of `SupervisorSettings`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence

from stoker.agent import lean_imports  # noqa: F401  # isort: skip  # first: it makes msgspec smaller
import msgspec

from stoker.agent.state.gossip_files import SERF
from stoker.agent.state.state_folder import (
    AGENT,
    load,
    locate,
    write_cluster,
    write_json,
)
from stoker.agent.supervise import (
    broker_port,
    broker_setup,
    child_process,
    lock,
    log_rotation,
    notify_socket,
    pids,
    serf_setup,
)
from stoker.agent.supervise.process_table import Program, programs
from stoker.agent.supervise.processes import (
    Adopted,
    AllReady,
    AllStopped,
    Effect,
    Event,
    Kill,
    ProcessExited,
    ProcessTree,
    Ready,
    RestartRequested,
    StartProcess,
    StopRequested,
    Terminate,
    Tick,
    TreeNote,
    WatchdogBeat,
)
from stoker.mesh.broker.broker_program import BROKER
from stoker.mesh.connection.context import LOOPBACK, NodeEndpoint
from stoker.mesh.identity import certificate
from stoker.mesh.log import kept_log
from stoker.native.errors import Corrupt, StokerError

ROTATE_EVERY_S = 5.0
FOUNDED = "founded"
"""The status of a process whose record of the cluster may have other servers than before."""
WAITS_S = 30.0
"""A joined node of which all serves but its cluster is told after so long as one that waits; `up`
and systemd would take it for one that cannot start after 60 s."""
WAITING = "waiting: "
PROBE_EVERY_S = 0.02
NOTIFY_BYTES_MAX = 4096
_CREDENTIALS = struct.Struct("iII")  # struct ucred, unix(7)


class SupervisorSettings(msgspec.Struct, frozen=True):
    """The settings from `stoker up`. Descriptors are inherited; `report` may be closed."""

    state: str
    lock: int
    report: int = -1
    foreground: bool = False
    allow_root: bool = False
    log_max_bytes: int = 64 << 20
    port: int = 0
    """The port of the broker; 0 keeps the last one."""


class Supervisor:
    """One node's process tree. `run` returns when everything has been stopped."""

    def __init__(
        self, settings: SupervisorSettings, table: Sequence[Program] | None = None
    ) -> None:
        self.settings = settings
        self.state = locate(settings.state)
        self.recorded = load(self.state)
        self.cluster = msgspec.structs.replace(
            self.recorded, port=settings.port or self.recorded.port
        )
        if table is None:
            table = programs(self.state, self.recorded, allow_root=settings.allow_root)
        self.programs = {program.spec.name: program for program in table}
        self.tree = ProcessTree.of(program.spec for program in table)
        self.running: dict[str, pids.ProcessId] = {}
        self.watched: dict[str, int] = {}
        self.own: set[str] = set()
        self.codes: dict[str, int] = {}
        """The last exit code of each process, negative for a signal."""
        self.statuses: dict[str, str] = {}
        self.events: deque[Event] = deque()
        self.stopped = asyncio.Event()
        self.end_all = False
        self.begins_again = False
        """True if this process is to begin anew once everything is stopped."""
        self.timer: asyncio.TimerHandle | None = None
        self.probes: dict[str, asyncio.Task[None]] = {}
        self.log_file = log_rotation.open_log(self.state.log / f"{pids.SUPERVISOR}.log")

    async def run(self) -> None:
        """Adopt, start and watch processes; ends after a signal and the last child."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_requested, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        self.notify = notify_socket.opened(self.state)
        loop.add_reader(self.notify, self._read_notification)
        loop.call_later(WAITS_S, self._tell_waiting)
        rotating = asyncio.create_task(self._rotate())
        beating = asyncio.create_task(notify_socket.beat_watchdog())
        self._adopt()
        await self.stopped.wait()
        rotating.cancel()
        beating.cancel()
        if not self.begins_again:  # who waits for the node then finds it where it was
            self.state.endpoint.unlink(missing_ok=True)

    # --- events in ---------------------------------------------------------------------------

    def _feed(self, event: Event) -> None:
        """Pass one event to the tree and carry out its effects, in order."""
        self.events.append(event)
        if len(self.events) > 1:
            return  # an effect of the event in progress: the loop below handles it
        while self.events:
            for effect in self.tree.step(self.events[0], time.monotonic()):
                self._do(effect)
            self.events.popleft()
        self._schedule()

    def _schedule(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        due = self.tree.deadline()
        if due is not None:
            wait = max(0.0, due - time.monotonic())
            self.timer = asyncio.get_running_loop().call_later(wait, self._feed, Tick())

    def _stop_requested(self, number: signal.Signals) -> None:
        self._log("supervisor", f"{number.name}: stopping")
        self.end_all = self.settings.foreground and number == signal.SIGINT
        self.begins_again = False
        notify_socket.tell_above("STOPPING=1")
        self._feed(StopRequested())

    def _reload(self) -> None:
        broker = self.running.get(BROKER)
        if broker is not None:
            pids.send(broker, signal.SIGHUP)

    def _read_notification(self) -> None:
        """Handle one datagram of sd_notify(3) from a child; others are dropped and logged."""
        data, control, _, _ = self.notify.recvmsg(NOTIFY_BYTES_MAX, 64)
        sender = next((_CREDENTIALS.unpack(c[2])[0] for c in control), 0)
        name = next((n for n, p in self.running.items() if p.pid == sender), None)
        if name is None:
            self._log("supervisor", f"notification of an unknown pid {sender} dropped")
            return
        for line in data.decode(errors="replace").splitlines():
            if line == "READY=1":
                self._ready(name)
            elif line == "WATCHDOG=1":
                self._feed(WatchdogBeat(name))
            elif line == f"STATUS={FOUNDED}":
                self._founded()
            elif line.startswith("STATUS=broker-restart"):
                self._feed(RestartRequested(BROKER, f"{name} requested it: {line[7:]}"))
            elif line.startswith(f"STATUS={SERF}-restart") and SERF in self.programs:
                self._feed(RestartRequested(SERF, f"{name} requested it: {line[7:]}"))
            elif line.startswith("STATUS=") and self.statuses.get(name) != line:
                self.statuses[name] = line
                self._log(name, line[7:])
                self._report(event="status", name=name, text=line[7:])

    def _founded(self) -> None:
        """Begin again as a server of a cluster that was founded meanwhile, or that has grown from
        one server, or is one server again: other processes run then, and the broker has routes or
        none. Jobs go on."""
        try:
            several = load(self.state).several
        except (StokerError, OSError) as error:
            self._log("supervisor", f"the record of the cluster: {error}")
            return
        same = several == self.recorded.several and not self.recorded.waits
        if same or self.tree.stopping:
            return
        what = "has all its servers" if several else "has one server"
        self._log("supervisor", f"the cluster {what}: all processes begin again")
        self.begins_again = True
        self._feed(StopRequested())

    def _ready(self, name: str) -> None:
        if name == BROKER:
            self._store_port()
        process = self.running[name]
        self.running[name] = pids.ProcessId(process.pid, process.start, ready=True)
        self._save()
        if name == BROKER:
            self._write_endpoint()
        self._feed(Ready(name))

    def _store_port(self) -> None:
        """Store the broker's port, which is proven only now that the broker listens."""
        if self.recorded != self.cluster:
            with self._disk_errors_logged("cluster.json"):
                write_cluster(self.state, self.cluster)
                self.recorded = self.cluster

    def _gone(self, name: str) -> None:
        handle = self.watched.pop(name)
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)
        how = "status unknown, it was adopted"
        process = self.running.pop(name)
        self.codes.pop(name, None)
        if name in self.own:
            self.own.discard(name)
            how = self._ended_as(name, os.waitpid(process.pid, 0)[1])
        self._save()
        self._feed(ProcessExited(name, how, self.codes.get(name) == Corrupt.exit_code))
        self._reap()

    def _ended_as(self, name: str, status: int) -> str:
        self.codes[name] = os.waitstatus_to_exitcode(status)
        return child_process.exit_text(status)

    def _reap(self) -> None:
        """Collect orphaned zombies as process 1 of a container; `_gone` collects the own
        children."""
        if os.getpid() != 1:
            return
        ours = {self.running[name].pid for name in self.own}
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid in ours:
                    return
                os.waitpid(found.si_pid, 0)

    # --- effects out -------------------------------------------------------------------------

    def _do(self, effect: Effect) -> None:
        match effect:
            case StartProcess(name):
                self._start(self.programs[name])
            case Terminate(name):
                self._signal(name, signal.SIGTERM)
            case Kill(name):
                self._signal(name, signal.SIGKILL)
            case TreeNote(name, text, failures):
                self._log(name, text)
                code = self.codes.get(name) if failures else None
                if not self.programs[name].spec.optional:
                    self._report(event="exited", name=name, text=text, failures=failures, code=code)
            case AllReady():
                self._announce()
            case AllStopped():
                self._log("supervisor", "everything is stopped")
                self.stopped.set()

    def _start(self, program: Program) -> None:
        name = program.spec.name
        try:
            if name == BROKER:
                self._leave_taken_port()
                self._settle_log()
            if name == SERF:
                serf_setup.prepare(self.state, self.recorded)
            pid = child_process.spawn(program, self.state)
        except (OSError, StokerError) as error:  # no memory, a full disk: tried again after a wait
            self.codes.pop(name, None)
            self._feed(ProcessExited(name, f"cannot be started: {error}"))
            return
        process = pids.identify(pid)
        if process is None:  # it ended at once
            self._feed(ProcessExited(name, self._ended_as(name, os.waitpid(pid, 0)[1])))
            return
        if not self.tree.is_futile(name):
            self._log(name, f"started as pid {pid}")
        self.own.add(name)
        self._watch(name, process, os.pidfd_open(pid))
        self._save()
        if program.ready == "start":
            self._ready(name)
        elif program.ready != "notify":
            self.probes[name] = asyncio.create_task(self._probe(program, process))

    def _leave_taken_port(self) -> None:
        """Move the broker to another port if a foreign process took its own while it was down:
        waiting for that process could stop the node for ever. Where other hosts know the port, the
        broker waits for it, and Refused names who has it."""
        port = self.cluster.port
        if self.cluster.address:
            broker_port.check(port, self.cluster.address)
            return
        if broker_port.is_free(port):
            return
        self.cluster = broker_setup.move_broker(self.state, self.cluster)
        held = f"port {port} was taken by {broker_port.holder(port)}"
        self._log(BROKER, f"{held}: the broker moves to {self.cluster.port}")

    def _settle_log(self) -> None:
        """Keep the log of an only server whole, whose broker begins as one of several."""
        if self.recorded.several and not self.recorded.waits:
            kept_log.settle(self.state.nats)
        elif not self.recorded.several:
            kept_log.settle_alone(self.state.nats)

    def _watch(self, name: str, process: pids.ProcessId, handle: int) -> None:
        self.running[name] = process
        self.watched[name] = handle
        asyncio.get_running_loop().add_reader(handle, self._gone, name)

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self.running.get(name)
        if process is not None:
            pids.send(process, number)

    async def _probe(self, program: Program, process: pids.ProcessId) -> None:
        """Probe a process without notifications until it serves or has been replaced."""
        name = program.spec.name
        while self.running.get(name) == process:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    served = await self._serves(program)
                if served and self.running.get(name) == process:
                    self._ready(name)
                    return
            await asyncio.sleep(PROBE_EVERY_S)

    async def _serves(self, program: Program) -> bool:
        """True if the broker sends `INFO`, as a NATS server does first, or the spawner's socket
        takes a connection."""
        if program.ready == "socket":
            _, writer = await asyncio.open_unix_connection(self.state.run / "spawner.sock")
            writer.close()
            return True
        pinned = certificate.pinned(self.state.broker_certificate)
        host = self.cluster.address or LOOPBACK
        reader, writer = await asyncio.open_connection(
            host, self.cluster.port, ssl=pinned, server_hostname=certificate.NAMES[0]
        )
        greeting = await reader.readline()
        writer.close()
        return greeting.startswith(b"INFO ")

    def _announce(self) -> None:
        url = self.cluster.url
        self._write_endpoint()
        self._log("supervisor", f"ready at {url}")
        self._report(event="ready")
        notify_socket.tell_above(f"READY=1\nSTATUS=serving at {url}")

    def _tell_waiting(self) -> None:
        """Tell who waits for a joined node that it lacks nothing but its cluster, which is away.

        Its parts go on, so that it takes jobs by itself once a scheduler answers: after a power
        failure nobody has to start the hosts in an order.
        """
        unready = {
            name
            for name, program in self.programs.items()
            if not program.spec.optional and not (name in self.running and self.running[name].ready)
        }
        status = self.statuses.get(AGENT, "").removeprefix("STATUS=")
        alone = BROKER not in self.programs and unready == {AGENT}
        if self.tree.stopping or not alone or not status.startswith(WAITING):
            return
        self._log("supervisor", f"the cluster at {self.cluster.url} is away: {status}")
        self._report(event="waiting", text=status.removeprefix(WAITING))
        notify_socket.tell_above(f"READY=1\nSTATUS={status}")

    def _write_endpoint(self) -> None:
        """Write the endpoint file, once the node is ready."""
        if not self.tree.announced or self.cluster.waits:
            return
        record = NodeEndpoint(
            self.cluster.url,
            self.cluster.cluster,
            self.cluster.node,
            str(self.state.root),
            str(self.state.certificate),
        )
        with self._disk_errors_logged("endpoint.json"):
            write_json(self.state.endpoint, record, mode=0o644)

    # --- housekeeping ------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Adopt the processes of an earlier supervisor. One that was not ready, or whose arguments
        differ (another version, other options), is ended and started again."""
        recorded = pids.find(self.state)
        if SERF in recorded and SERF not in self.programs:
            self._log(SERF, f"left over as pid {recorded[SERF].pid}, not wanted any more: ended")
            pids.end(recorded[SERF], 2.0)
        found = {n: p for n, p in recorded.items() if n in self.programs}
        for name, process in found.items():
            same = pids.arguments(process) == self.programs[name].argv
            handle = pids.open_pidfd(process) if process.ready and same else None
            if handle is None:
                why = "started with other arguments" if process.ready else "not ready"
                self._log(name, f"left over as pid {process.pid}, {why}: ended")
                pids.end(process, 2.0)
            else:
                self._log(name, f"adopted as pid {process.pid}")
                self._watch(name, process, handle)
        self._save()
        self._feed(Adopted(tuple(self.running)))

    def _save(self) -> None:
        me = pids.identify(os.getpid())
        assert me is not None
        with self._disk_errors_logged("pids.json"):
            pids.write(self.state, {pids.SUPERVISOR: me, **self.running})

    async def _rotate(self) -> None:
        while True:
            for name in (pids.SUPERVISOR, *self.programs):
                with self._disk_errors_logged(f"rotating the log of {name}"):
                    log_rotation.rotate(self.state.log / f"{name}.log", self.settings.log_max_bytes)
            await asyncio.sleep(ROTATE_EVERY_S)

    @contextlib.contextmanager
    def _disk_errors_logged(self, what: str) -> Iterator[None]:
        """Log a full disk, which must not end the process that keeps the others alive."""
        try:
            yield
        except OSError as error:
            self._log("supervisor", f"{what}: {error.strerror}")

    def _log(self, name: str, text: str) -> None:
        line = json.dumps({"t": round(time.time(), 6), "process": name, "event": text})
        with contextlib.suppress(OSError):  # the line has nowhere to go
            os.write(self.log_file, line.encode() + b"\n")
            if self.settings.foreground:
                os.write(2, line.encode() + b"\n")

    def _report(self, **fields: object) -> None:
        if self.settings.report >= 0:
            with contextlib.suppress(OSError):  # `stoker up` has ended
                os.write(self.settings.report, json.dumps(fields).encode() + b"\n")


def main(table: Sequence[Program] | None = None) -> None:
    """Run the process; tests replace the node's programs by `table`."""
    settings = msgspec.json.decode(sys.argv[1], type=SupervisorSettings)
    os.set_inheritable(settings.lock, False)
    lock.sign(settings.lock)
    if settings.report >= 0:
        os.set_inheritable(settings.report, False)
    try:
        supervisor = Supervisor(settings, table)
        asyncio.run(supervisor.run())
    except StokerError as error:
        print(f"stoker: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    if supervisor.begins_again:
        _begin_again(settings)
    if supervisor.end_all:
        from stoker.agent.supervise.teardown import finish

        os.close(settings.lock)  # otherwise `finish` would end this process first
        sys.exit(1 if finish(supervisor.state).left else 0)


def _begin_again(settings: SupervisorSettings) -> None:
    """Become a new supervisor with the same pid and lock; nobody follows its reports."""
    os.set_inheritable(settings.lock, True)
    argument = msgspec.json.encode(msgspec.structs.replace(settings, report=-1)).decode()
    module = "stoker.agent.supervise.supervisor"
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, argument])


if __name__ == "__main__":
    main()
