# SPDX-License-Identifier: Apache-2.0
"""One node with a real broker, spawner and agent, and a scripted scheduler.

The scheduler keeps the open attempts in memory, signs commands with the node's scheduler key, and
commits every outcome at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import nats

from stoker.agent.state import host_facts
from stoker.agent.state import state_folder as states
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.mesh.broker import broker_config
from stoker.mesh.broker.broker_program import broker_program
from stoker.mesh.identity import certificate, identity, sealed_json
from stoker.mesh.replica.new_cluster import founding
from stoker.mesh.wire import command as wire
from stoker.mesh.wire import lease_messages, subjects
from stoker.mesh.wire import queries as asks
from stoker.mesh.wire.command import (
    DesiredState,
    NodeCommand,
    NodeReply,
    Position,
    StateRequest,
)
from stoker.mesh.wire.lease_messages import LeaseAnswer, LeaseGrant
from stoker.native import durable_file, paths
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import (
    Action,
    Decision,
    DeviceShare,
    JobSpec,
    NodeReport,
    Observation,
    Outcome,
    Owner,
    StartJob,
    StopJob,
    TaskKey,
)
from tests.fakes import pinned
from tests.fakes.ports import free_port

NODE = "node1"
NATS_SERVER = broker_program()
WAIT_S = 60.0
LEASE_MS = 3000


class Scheduler:
    """A stand-in for the scheduler, with the messages that an agent sends and gets."""

    def __init__(self, cluster: str, key: identity.Identity) -> None:
        self.cluster, self.key = cluster, key
        self.at = Position(1, 0, wire.NO_HASH)
        self.leasing = True
        """True while lease requests are answered."""
        self.renewed = 0
        self.open: dict[TaskKey, StartJob] = {}
        self.stops: dict[TaskKey, StopJob] = {}
        self.told: list[Outcome] = []
        self.reports: list[NodeReport] = []
        self.observations: list[Observation] = []
        self.ended: dict[TaskKey, Outcome] = {}
        self.answering = True
        self.lose_answers = 0
        self.connection: Any = None
        self.changed = asyncio.Event()

    async def connect(self, url: str, seed: Path, pinned: Path) -> None:
        self.connection = await nats.connect(
            url,
            nkeys_seed=str(seed),
            inbox_prefix=subjects.inbox("scheduler").encode(),
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.05,  # type: ignore[arg-type]
            pending_size=-1,
            error_cb=_ignore,
            **certificate.connecting(pinned),
        )
        await self.connection.subscribe(subjects.EVERY_NODE_REQUEST, cb=self._heard)
        await self.connection.subscribe(subjects.EVERY_OBSERVATION, cb=self._observed)
        await self.connection.subscribe(subjects.EVERY_LEASE_REQUEST, cb=self._renew)
        await self.connection.flush()

    async def close(self) -> None:
        await self.connection.close()

    # --- called by tests ---

    async def submit(
        self, *specs: JobSpec, owner: Owner, shares: tuple[DeviceShare, ...] = ()
    ) -> list[TaskKey]:
        keys, actions = [], []
        for spec in specs:
            job = len(self.open) + len(self.ended) + 1
            decision = Decision(job * 65536, NODE, shares, "fits", 1)
            start = StartJob(job, 1, 0, 0, decision, owner, spec)
            self.open[start.key] = start
            keys.append(start.key)
            actions.append(start)
        await self.command(*actions)
        return keys

    async def restore(self, key: TaskKey, spec: JobSpec, *, owner: Owner, placing: int) -> TaskKey:
        """Go back to a log that never had this attempt, and place another one under its name."""
        decision = Decision(key.job * 65536, NODE, (), "fits", 1, placing=placing)
        start = StartJob(*key._replace(placing=placing), decision, owner, spec)
        self.at = Position(self.at.term + 1, 1, wire.NO_HASH)
        self.open = {start.key: start}
        await self.command(start)
        return start.key

    async def stop(self, key: TaskKey, reason: str = "cancelled by alice") -> None:
        self.stops[key] = StopJob(*key, reason)
        await self.command(self.stops[key])

    async def command(self, *actions: Action, lost: bool = False) -> None:
        seq = self.at.seq + 1
        record = NodeCommand(
            wire.FORMAT,
            self.cluster,
            NODE,
            self.at.term,
            seq,
            self.at.seq,
            self.at.hash,
            9,
            actions,
        )
        body = wire.encode(record)
        self.at = Position(self.at.term, seq, wire.body_hash(body))
        if not lost:
            await self._publish(subjects.command(NODE), wire.seal_body(body, self.key))

    async def ask(self, what: str, ask: asks.Query, timeout: float = 10.0) -> Any:
        subject = subjects.query(NODE, what)
        reply = await self.connection.request(subject, asks.encode(ask), timeout=timeout)
        return asks.decode_reply(reply.data)

    async def until(self, done: Callable[[], bool], what: str = "") -> None:
        async with asyncio.timeout(WAIT_S):
            while not done():
                self.changed.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.05)

    async def until_ended(self, *keys: TaskKey) -> list[Outcome]:
        await self.until(lambda: all(key in self.ended for key in keys))
        return [self.ended[key] for key in keys]

    async def output(self, key: TaskKey, stream: Any = "out") -> bytes:
        data = b""
        while True:
            ask = asks.LogsQuery(*key, stream, len(data), wait_s=5.0)
            reply = await self.ask("logs", ask)
            data += reply.data
            if reply.eof:
                return data

    # --- answers to the agent ---

    async def _publish(self, subject: str, data: bytes) -> None:
        with contextlib.suppress(Exception):
            await self.connection.publish(subject, data)
            await self.connection.flush(timeout=2)

    async def _renew(self, message: Any) -> None:
        if not self.leasing:
            return
        self.renewed += 1
        request = lease_messages.open_request(message.data, NODE)
        grant = LeaseGrant(
            NODE, request.instance, request.stamp_ns, request.nonce, self.at.seq, self.at.hash
        )
        answer = LeaseAnswer(
            lease_messages.FORMAT, self.cluster, self.at.term, False, LEASE_MS, 0, (grant,)
        )
        await self._publish(
            subjects.lease_answer(NODE), lease_messages.seal_answer(answer, self.key)
        )

    async def _heard(self, message: Any) -> None:
        if not self.answering:
            return
        what = subjects.parse_node_request(message.subject).what
        if what == "range":
            await message.respond(
                self._desired(msgspec.msgpack.decode(message.data, type=StateRequest))
            )
            return
        if what == "hello":
            self.reports.append(msgspec.msgpack.decode(message.data, type=NodeReport))
        else:
            for outcome in msgspec.msgpack.decode(message.data, type=list[Outcome]):
                self._commit(outcome)
        self.changed.set()
        if self.lose_answers:
            self.lose_answers -= 1
            return
        await message.respond(msgspec.msgpack.encode(NodeReply(True)))

    def _commit(self, outcome: Outcome) -> None:
        self.told.append(outcome)
        key = outcome.key
        if outcome.state != "running" and self.open.pop(key, None):
            self.stops.pop(key, None)
            self.ended[key] = outcome

    def _desired(self, ask: StateRequest) -> bytes:
        have = set(ask.have)
        starts = tuple(s for k, s in self.open.items() if k not in have and k not in self.stops)
        record = DesiredState(
            wire.FORMAT, self.cluster, NODE, self.at.term, self.at.seq, self.at.hash, ask.nonce, 9,
            tuple(self.open), starts, tuple(self.stops.values()),
        )  # fmt: skip
        return wire.seal(record, self.key)

    async def _observed(self, message: Any) -> None:
        self.observations.append(msgspec.msgpack.decode(message.data, type=Observation))
        self.changed.set()


class OneNode:
    """State folder and processes of the node, as an async context manager."""

    def __init__(self, folder: Path, config: str = "") -> None:
        self.state: StateFolder = states.locate(folder / "state")
        self.folder = folder
        self.config = config
        self.cluster = str(uuid.uuid4())
        self.port = free_port()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.owner = _owner()
        self.environment: dict[str, str] = {}
        """Variables of its processes beside those of the test."""

    async def __aenter__(self) -> OneNode:
        where = self.state
        states.prepare(where)
        keys = {name: identity.create(where.key(name)) for name in ("scheduler", "agent", "admin")}
        cluster = ClusterFile(self.cluster, NODE, keys["scheduler"].public, self.port)
        states.write_json(where.root / "cluster.json", cluster)
        founds = founding(self.cluster, cluster.scheduler_public_key, Limits(), {})
        durable_file.replace(where.genesis, sealed_json.encode(founds))
        (where.root / "config.toml").write_text(self.config)
        states.seal_format(where)
        states.prepare_run(where)
        public = broker_config.BrokerKeys(
            keys["scheduler"].public, {NODE: keys["agent"].public}, {}
        )
        settings = broker_config.BrokerSettings(
            "test", self.port, str(where.nats / "jetstream"), *pinned.pair(where.keys)
        )
        (where.nats / "nats-server.conf").write_text(broker_config.render(settings, public))
        self.scheduler = Scheduler(self.cluster, keys["scheduler"])
        self.start_broker()
        self.start_spawner()
        self.start_watchdog()
        self.start_agent()
        await self.scheduler.connect(cluster.url, where.key("scheduler"), where.broker_certificate)
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            await self.scheduler.close()
        for name in ("agent", "watchdog", "spawner", "broker"):
            self.kill(name)
        self._kill_jobs()
        shutil.rmtree(self.state.run, ignore_errors=True)
        shutil.rmtree(self.state.shm, ignore_errors=True)

    def _kill_jobs(self) -> None:
        subprocess.run(
            [paths.program("stoker-spawner"), "--kill-all", *self._kept()],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
        )

    def _kept(self) -> list[str]:
        cgroup = ["--cgroup", f"stoker-{self.state.instance}"] if os.geteuid() == 0 else []
        return ["--journal", str(self.state.agent), *cgroup]

    def start_broker(self) -> None:
        self._start("broker", [NATS_SERVER, "-c", self.state.nats / "nats-server.conf"])
        _until_open(self.port)

    def start_spawner(self) -> None:
        program = paths.program("stoker-spawner")
        self._start(
            "spawner", [program, "--socket", self.state.run / "spawner.sock", *self._kept()]
        )

    def start_watchdog(self) -> None:
        program = paths.program("stoker-watchdog")
        cgroup = ["--cgroup", f"stoker-{self.state.instance}"] if os.geteuid() == 0 else []
        self._start("watchdog", [program, "--lease", self.state.run / "lease", *cgroup])

    def start_agent(self) -> None:
        argv = [sys.executable, "-P", "-m", "stoker.agent.daemon", "--state", self.state.root]
        self._start("agent", argv)

    def jobs_cgroup(self) -> Path:
        """Folder of the jobs' cgroups; only for root."""
        found = host_facts.jobs_cgroup(self.state.instance)
        assert found is not None
        return found

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to a process and wait for it; its exit code."""
        process = self.processes.pop(name, None)
        if process is None:
            return 0
        process.send_signal(number)
        return process.wait(60)

    def log(self, name: str = "agent") -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _start(self, name: str, argv: list[Any]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                list(map(str, argv)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )


def _owner() -> Owner:
    """Owner of jobs: the user nobody for root, otherwise the present user."""
    if os.geteuid() == 0:
        return Owner("nobody", 65534, 65534)
    return Owner("me", os.getuid(), os.getgid(), tuple(os.getgroups()))


def _until_open(port: int) -> None:
    for _ in range(1000):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["sleep", "0.01"], check=False)
    raise AssertionError(f"nothing listens on {port}")


async def _ignore(_: Exception) -> None:
    pass
