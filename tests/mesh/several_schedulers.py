# SPDX-License-Identifier: Apache-2.0
"""Three real scheduler processes with three state folders, behind real brokers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats.errors
from msgspec.structs import replace
from nats.aio.client import Client as Connection

from stoker.mesh.broker import users
from stoker.mesh.broker.users import User
from stoker.mesh.client.client import new_key
from stoker.mesh.connection.context import CERTIFICATE
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.identity.identity import Identity
from stoker.mesh.log import log_record
from stoker.mesh.log.genesis import Genesis, member_number
from stoker.mesh.log.held_entries import NAME, HeldEntries
from stoker.mesh.replica.new_cluster import founding_several
from stoker.mesh.wire import schema
from stoker.native.errors import Unavailable
from stoker.scheduler.core import Limits
from tests.mesh.fake_agent import FakeAgent
from tests.mesh.nats_server import Server

CLUSTER = "test-cluster"
NAMES = ("s1", "s2", "s3")
PATIENCE_S = 60.0


class SchedulerProcess:
    """One scheduler: its broker, its key, its state folder, its process and what it notified."""

    def __init__(self, server: Server, folder: Path, key: Identity) -> None:
        self.server = server
        self.folder = folder
        self.key = key
        self.number = member_number(key.public)
        self.process: subprocess.Popen[bytes] | None = None
        self._heard: list[str] = []
        self._notify: socket.socket | None = None

    def start(self) -> None:
        """Start the process; what an earlier one notified is forgotten."""
        self.close()
        self._heard = []
        path = self.folder / "notify"
        path.unlink(missing_ok=True)
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(path))
        self._notify.setblocking(False)
        arguments = ["--state", str(self.folder), "--log-max-bytes", str(4 << 20)]
        with (self.folder / "scheduler.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stoker.mesh.server.scheduler_daemon", *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "NOTIFY_SOCKET": str(path)},
            )

    def kill(self) -> None:
        """End the process as a power failure would."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    async def terminate(self) -> int:
        """End the process as an administrator does; return its exit code."""
        assert self.process is not None
        ended, self.process = self.process, None
        ended.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(ended.wait)

    def pause(self) -> None:
        """Stop the process, as a machine does that is suspended."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    @property
    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        """True once this process has said that it leads or follows."""
        if self._notify is not None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    self._heard += self._notify.recv(4096).decode().splitlines()
        return "READY=1" in self._heard

    def terms_led(self) -> list[int]:
        """The terms in which a process of this folder came to lead, oldest first."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line["term"] for line in lines if line["event"] == "leading"]

    def held(self) -> dict[int, bytes]:
        """The entries that this scheduler holds durably, by index; its file is left alone."""
        copy = self.folder / "copy"
        copy.mkdir(exist_ok=True)
        (copy / NAME).write_bytes((self.folder / "scheduler" / NAME).read_bytes())
        held = HeldEntries(copy)
        entries = held.read().entries
        held.close()
        return dict(entries)

    def log(self) -> str:
        return (self.folder / "scheduler.log").read_text()

    def close(self) -> None:
        """Kill the process and forget its socket."""
        if self.process is not None:
            self.kill()
        if self._notify is not None:
            self._notify.close()
            self._notify = None


class SeveralSchedulers:
    """The schedulers of one cluster at its brokers in turn, one agent that runs nothing, users."""

    def __init__(self, *servers: Server) -> None:
        self.servers = servers
        self.server = servers[0]
        """The broker that the agent and users connect to."""
        keys = [identity.create(self.server.folder / f"{name}.nk") for name in NAMES]
        self.schedulers = [
            SchedulerProcess(server, self.server.folder / name, key)
            for server, name, key in zip(itertools.cycle(servers), NAMES, keys, strict=False)
        ]
        self.agent: FakeAgent | None = None
        self._connections: dict[tuple[str, int], Connection] = {}
        numbers = {each.number: each.key.public for each in self.schedulers}
        for server in servers:
            server.keys = replace(server.keys, scheduler=keys[0].public, schedulers=numbers)
        self._write_states()

    def _write_states(self) -> None:
        public = self.server.identities
        table = {
            name: User(public_key=public[name].public, uid=1000 + n, gid=1000 + n)
            for n, name in enumerate(("alice", "bob"))
        }
        if "admin" in public:  # the first broker knows one
            table["admin"] = User(public_key=public["admin"].public, admin=True)
        keys = [each.key.public for each in self.schedulers]
        self.genesis: Genesis = founding_several(CLUSTER, keys, Limits(), users.accounts(table))
        for each in self.schedulers:
            folder, seeds = each.folder, each.folder / "keys"
            seeds.mkdir(mode=0o700, parents=True)
            os.link(self.server.folder / f"{folder.name}.nk", seeds / "scheduler.nk")
            os.link(each.server.settings.certificate_file, seeds / CERTIFICATE)
            record = {
                "cluster": CLUSTER,
                "node": "node1",
                "scheduler_public_key": each.key.public,
                "port": each.server.settings.port,
            }
            (folder / "cluster.json").write_text(json.dumps(record))
            (folder / "genesis.json").write_bytes(sealed_json.encode(self.genesis))
            users.save(folder / "users.json", table)
            log_record.begin(folder / "scheduler")

    async def start(self) -> SeveralSchedulers:
        """Start the brokers, all schedulers and the agent."""
        await self.start_schedulers()
        members = [each.key.verifier for each in self.schedulers]
        self.agent = await FakeAgent(await self.server.connect("node1"), CLUSTER, members).start()
        return self

    async def start_schedulers(self) -> None:
        """Start the brokers and all schedulers, and wait until each leads or follows."""
        for server in self.servers:
            server.start()
        for each in self.schedulers:
            each.start()
        await self.until(lambda: all(each.is_ready() for each in self.schedulers))

    async def until(self, what: Callable[[], bool]) -> None:
        """Wait until `what()` is true, and restart schedulers that ended by themselves."""
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < deadline, self.logs()
            for each in self.schedulers:
                if each.process is not None and not each.lives:
                    each.start()
            await asyncio.sleep(0.02)

    def leader(self) -> SchedulerProcess:
        """The scheduler that came to lead last."""
        return max(self.schedulers, key=lambda each: max(each.terms_led(), default=0))

    async def until_another_leads(self, than: SchedulerProcess) -> SchedulerProcess:
        """Wait until another scheduler came to lead, and return it."""
        await self.until(lambda: self.leader() is not than)
        return self.leader()

    def logs(self) -> str:
        return "\n\n".join(f"{each.folder.name}: {each.log()[-3000:]}" for each in self.schedulers)

    async def request(
        self,
        user: str,
        noun: str,
        verb: str,
        /,
        at: SchedulerProcess | str = "",
        timeout_s: float = 5,
        **fields: Any,
    ) -> Any:
        """Send one request once, to the leader or to a chosen scheduler; return the decoded reply
        or raise its error."""
        door = user, self.server.settings.port
        if door not in self._connections:
            self._connections[door] = await self.server.connect(user)
        request: schema.Message = schema.ENDPOINTS[noun, verb].request(**fields)
        place = f"{at.number:016x}" if isinstance(at, SchedulerProcess) else at
        subject = f"stoker.v1.read.{place}.{noun}.{verb}" if place else f"stoker.v1.{noun}.{verb}"
        reply = await self._connections[door].request(
            subject, schema.encode(request), timeout=timeout_s
        )
        return schema.decode_reply(noun, verb, reply.data)

    async def persist(self, user: str, noun: str, verb: str, /, **fields: Any) -> Any:
        """Send one request until it is answered. A job is submitted once, however often."""
        if (noun, verb) == ("job", "submit"):
            fields.setdefault("idempotency_key", new_key())
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return await self.request(user, noun, verb, **fields)
            except (nats.errors.Error, TimeoutError, Unavailable):
                assert time.monotonic() < deadline, self.logs()
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Leave no process."""
        if self.agent is not None:
            await self.agent.close()
        for each in self.schedulers:
            each.close()
