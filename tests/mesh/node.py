# SPDX-License-Identifier: Apache-2.0
"""A control side on loopback: real broker, real scheduler process, an agent that runs nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client as Connection

from stoker.mesh.broker import users
from stoker.mesh.broker.users import User
from stoker.mesh.connection.context import CERTIFICATE
from stoker.mesh.identity import sealed_json
from stoker.mesh.log import log_record
from stoker.mesh.replica.new_cluster import founding
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema import Message
from stoker.native.errors import StokerError, Unavailable
from stoker.scheduler.core import Limits
from stoker.scheduler.nouns import Account
from tests.mesh.fake_agent import FakeAgent
from tests.mesh.nats_server import Server

CLUSTER = "test-cluster"
LOG_BYTES = 4 << 20


def write_state(server: Server, accounts: dict[str, Account] | None = None) -> Path:
    """Write the files by which the scheduler finds its broker; return the state folder."""
    keys = server.folder / "keys"
    keys.mkdir(mode=0o700)
    os.link(server.folder / "scheduler.nk", keys / "scheduler.nk")
    os.link(server.settings.certificate_file, keys / CERTIFICATE)
    record = {
        "cluster": CLUSTER,
        "node": "node1",
        "scheduler_public_key": server.identities["scheduler"].public,
        "port": server.settings.port,
    }
    (server.folder / "cluster.json").write_text(json.dumps(record))
    founds = founding(CLUSTER, str(record["scheduler_public_key"]), Limits(), accounts or {})
    (server.folder / "genesis.json").write_bytes(sealed_json.encode(founds))
    log_record.begin(server.folder / "scheduler")
    return server.folder


class Node:
    """One control side, in the server's folder as its state folder; `stop` leaves no process."""

    def __init__(
        self, server: Server, *options: str, module: str = "stoker.mesh.server.scheduler_daemon"
    ) -> None:
        self.module = module
        self.stderr: Path | None = None
        """The log file of the scheduler; None is the file that `log` reads."""
        self.server = server
        self.folder = server.folder
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.connections: dict[str, Connection] = {}
        self._connecting = asyncio.Lock()
        self.agent: FakeAgent | None = None
        self.heard: list[str] = []
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self.folder / "notify"))
        self._notify.setblocking(False)
        self._write_state()

    def _write_state(self) -> None:
        public = self.server.identities
        self.users = {
            "alice": User(public_key=public["alice"].public, uid=1000, gid=1000),
            "bob": User(public_key=public["bob"].public, uid=1001, gid=1001),
            "admin": User(public_key=public["admin"].public, admin=True),
        }
        write_state(self.server, users.accounts(self.users))
        users.save(self.folder / "users.json", self.users)

    def start_scheduler(self) -> None:
        with (self.stderr or self.folder / "scheduler.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", self.module),
                    *("--state", str(self.folder), "--log-max-bytes", str(LOG_BYTES)),
                    *self.options,
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")},
            )

    def kill_scheduler(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end_scheduler(self) -> int:
        """Send SIGTERM and return the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60)

    def log(self) -> str:
        if self.stderr is not None:
            return "its log is not kept"
        return (self.folder / "scheduler.log").read_text()[-3000:]

    def listen(self) -> list[str]:
        """Return all lines of sd_notify so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.heard += self._notify.recv(4096).decode().splitlines()
        return self.heard

    async def until(self, what: Any, seconds: float = 60.0) -> None:
        """Wait until `what()` is true."""
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, self.log()
            assert self.process is None or self.process.poll() is None, self.log()
            await asyncio.sleep(0.02)

    async def start(self, *, agent: bool = True) -> Node:
        self.server.start()
        self.start_scheduler()
        await self.until(lambda: "READY=1" in self.listen())
        if agent:
            nc = await self.server.connect("node1")
            members = [self.server.identities["scheduler"].verifier]
            self.agent = await FakeAgent(nc, CLUSTER, members).start()
        return self

    async def raw(self, user: str, subject: str, data: bytes, timeout: float = 5.0) -> bytes:
        """Send one request as plain bytes and return the reply."""
        async with self._connecting:
            if user not in self.connections:
                self.connections[user] = await self.server.connect(user)
        return bytes((await self.connections[user].request(subject, data, timeout=timeout)).data)

    async def ask(self, caller: str, noun: str, verb: str, /, **fields: Any) -> Any:
        """Send one request; return the decoded reply or raise its error."""
        request: Message = schema.ENDPOINTS[noun, verb].request(**fields)
        data = await self.raw(caller, f"stoker.v1.{noun}.{verb}", schema.encode(request), 35.0)
        return schema.decode_reply(noun, verb, data)

    async def persist(self, caller: str, noun: str, verb: str, /, **fields: Any) -> Any:
        """Send one request as `ask` does, and repeat it while broker or scheduler are away."""
        request: Message = schema.ENDPOINTS[noun, verb].request(**fields)
        deadline = time.monotonic() + 60
        while True:
            try:
                subject = f"stoker.v1.{noun}.{verb}"
                data = await self.raw(caller, subject, schema.encode(request), 3.0)
                return schema.decode_reply(noun, verb, data)
            except (nats.errors.Error, TimeoutError, Unavailable):
                assert time.monotonic() < deadline, self.log()
            except StokerError as error:
                assert error.code == "refused", error
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        if self.agent is not None:
            await self.agent.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._notify.close()
