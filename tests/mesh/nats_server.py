# SPDX-License-Identifier: Apache-2.0
"""A real nats-server on a free loopback port, with the configuration that the product writes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nats
from msgspec.structs import replace
from nats.aio.client import Client as Connection

from stoker.mesh.broker import broker_config, broker_reload
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.wire import subjects
from tests.fakes import pinned
from tests.fakes.ports import free_port

SERVER = Path(sys.executable).with_name("nats-server")
CLUSTER = "3f8c0a52-test"
NODES = ("node1", "node2", "node3")


@dataclass
class Server:
    """One nats-server with its keys, which tests can kill, restart and reload."""

    folder: Path
    settings: broker_config.BrokerSettings
    keys: broker_config.BrokerKeys
    identities: dict[str, Identity]
    process: subprocess.Popen[bytes] | None = None
    connections: list[Connection] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    log_start: int = 0
    """The log of the running process begins here in the file of all runs, in bytes."""

    @property
    def url(self) -> str:
        return f"tls://127.0.0.1:{self.settings.port}"

    @property
    def secured(self) -> dict[str, Any]:
        """The options of `nats.connect` beside the address."""
        return certificate.connecting(Path(self.settings.certificate_file))

    @property
    def config(self) -> Path:
        return self.folder / "nats-server.conf"

    def write(self) -> None:
        self.config.write_text(broker_config.render(self.settings, self.keys))

    def start(self) -> None:
        self.write()
        log = (self.folder / "server.log").open("ab")
        self.log_start = log.tell()
        self.process = subprocess.Popen(
            [str(SERVER), "-c", str(self.config)], stdout=log, stderr=log
        )
        log.close()
        self.wait_listening()

    def wait_listening(self) -> None:
        """Wait for the port of clients, and for the routes', which the broker opens on its own.

        The log tells of the second, as a connection there would leave a failed handshake in it.
        """
        self._wait_until(self._takes_clients)
        if self.settings.routes is not None:
            self._wait_until(self._takes_routes)

    def _takes_clients(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self.settings.port), 1),
        ):
            return True
        return False

    def _takes_routes(self) -> bool:
        with (self.folder / "server.log").open() as log:
            log.seek(self.log_start)
            return "Listening for route connections" in log.read()

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(500):
            if is_so():
                return
            os.sched_yield()
            assert self.process is not None and self.process.poll() is None, self.log()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)
        raise AssertionError(self.log())

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
            self.process = None

    def log(self) -> str:
        return (self.folder / "server.log").read_text()[-4000:]

    def hangup(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def grant(self, name: str) -> None:
        """Add a key and an account for one more user."""
        self.identities[name] = identity.create(self.folder / f"{name}.nk")
        users = {**self.keys.users, name: self.identities[name].public}
        admins = self.keys.admins | ({name} if name == "admin" else set())
        self.keys = replace(self.keys, users=users, admins=admins)

    async def close_connections(self) -> None:
        # nats-py cancels the end of a connection whose server died meanwhile.
        for nc in self.connections:
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(nc.close(), 2)

    async def add_user(self, name: str) -> None:
        """Add a user as the verb `user` does: write, then reload twice."""
        self.grant(name)
        self.write()
        assert self.process is not None
        await asyncio.to_thread(
            broker_reload.add_account, self.process.pid, self.folder / "server.log"
        )

    async def connect(self, who: str, **options: Any) -> Connection:
        """Connect as one identity; permission violations go to `errors`."""

        async def on_error(error: Exception) -> None:
            self.errors.append(str(error))

        nc = await nats.connect(
            self.url,
            **self.secured,
            error_cb=options.pop("error_cb", on_error),
            nkeys_seed=str(self.folder / f"{who}.nk"),
            inbox_prefix=options.pop("inbox_prefix", _inbox(who)),
            pending_size=-1,
            connect_timeout=1,
            reconnect_time_wait=0.05,
            max_reconnect_attempts=-1,
            **options,
        )
        self.connections.append(nc)
        return nc


async def settle(nc: Connection) -> None:
    """Wait until the server has all subscriptions of this connection.

    nats-py writes the PING of `flush` past what is still buffered, so one flush may be answered
    before a SUB that was sent first (nats-py 2.16 `_send_ping`).
    """
    await nc.flush()
    await nc.flush()


def _inbox(who: str) -> bytes:
    if who == "scheduler":
        return subjects.inbox("scheduler").encode()
    if who.startswith("node"):
        return subjects.inbox(f"agent.{who}").encode()
    return b"_INBOX"


def keys_in(folder: Path) -> dict[str, Identity]:
    """Write the keys of a scheduler, of three nodes and of two users; return them by name."""
    names = ("scheduler", *NODES, "alice", "bob")
    return {name: identity.create(folder / f"{name}.nk") for name in names}


@contextlib.contextmanager
def configured(folder: Path, keyring: dict[str, Identity]) -> Iterator[Server]:
    """A broker that is configured and not started; it is stopped at the end."""
    public = {name: key.public for name, key in keyring.items()}
    server = Server(
        folder,
        broker_config.BrokerSettings(
            "test", free_port(), str(folder / "jetstream"), *pinned.pair(folder)
        ),
        broker_config.BrokerKeys(
            public["scheduler"],
            {name: public[name] for name in NODES},
            {name: public[name] for name in ("alice", "bob")},
        ),
        dict(keyring),
    )
    try:
        yield server
    finally:
        server.stop()
