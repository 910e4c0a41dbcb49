# SPDX-License-Identifier: Apache-2.0
"""The brokers of a bench: nats-server processes on loopback with the product's configuration.

Several brokers form one cluster by routes. Guarantees that every process that was started here has
ended when the block of `running` is left.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from stoker.mesh.broker import broker_config
from stoker.mesh.broker.broker_config import BrokerKeys, BrokerSettings
from stoker.mesh.broker.broker_program import broker_program
from stoker.mesh.broker.broker_routes import BrokerRoutes
from stoker.mesh.connection import context
from stoker.mesh.connection.context import Context
from stoker.mesh.connection.process_connection import key_file
from stoker.mesh.identity import certificate, identity
from stoker.mesh.log.genesis import member_number
from stoker.native.errors import Unavailable

CLUSTER = "bench"
USER = "bench"
LISTEN_S = 30.0
"""The longest time until a new broker takes connections."""
END_S = 10.0


class Broker(NamedTuple):
    """One running broker. `state` holds what the connections of a scheduler read of a node."""

    name: str
    port: int
    state: Path
    process: subprocess.Popen[bytes]

    @property
    def user(self) -> Context:
        """The way of the bench's user to this broker."""
        pinned = self.state / "keys" / context.CERTIFICATE
        return Context(context.broker_url(self.port), _user_key(self.state), USER, pinned)


@contextlib.contextmanager
def running(folder: Path, count: int, *, servers: bool = False) -> Iterator[list[Broker]]:
    """Start `count` brokers of one cluster with new keys, each in a folder below `folder`.

    With `servers`, each is the broker of a scheduler with a key of its own.
    """
    program = broker_program()
    states = [folder / f"broker-{number}" for number in range(1, count + 1)]
    _make_keys(states)
    schedulers = _scheduler_keys(states) if servers else {}
    ports = _free_ports(2 * count)
    routes = _routes(states, ports[count:])
    brokers: list[Broker] = []
    try:
        for state, port, own in zip(states, ports, routes, strict=False):
            settings = _settings(state, port, own)
            text = broker_config.render(settings, _keys(state, schedulers))
            brokers.append(_start(program, settings, state, text))
        for broker in brokers:
            _wait_listening(broker)
        yield brokers
    finally:
        for broker in brokers:
            end(broker.process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End one process that was started for a bench; kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def said(path: Path) -> str:
    """Return the end of a log file for an error message."""
    return path.read_text(errors="replace").strip()[-400:]


def _user_key(state: Path) -> Path:
    return state / "keys" / f"user-{USER}.nk"


def _make_keys(states: Sequence[Path]) -> None:
    """Make one scheduler, one user and one certificate, and give them to each broker."""
    first = states[0]
    identity.create(key_file(first))
    identity.create(_user_key(first))
    private, public = certificate.make(CLUSTER)
    for name, data in (("broker.key", private), (context.CERTIFICATE, public)):
        path = first / "keys" / name
        path.touch(0o600)
        path.write_bytes(data)
    for state in states[1:]:
        shutil.copytree(first / "keys", state / "keys")


def _scheduler_keys(states: Sequence[Path]) -> dict[int, str]:
    """Give each broker a scheduler's key of its own; return all by their numbers."""
    for state in states[1:]:
        key_file(state).unlink()
        identity.create(key_file(state))
    public = [identity.load(key_file(state)).public for state in states]
    return {member_number(key): key for key in public}


def _keys(state: Path, schedulers: dict[int, str]) -> BrokerKeys:
    user = identity.load(_user_key(state)).public
    own = identity.load(key_file(state)).public
    return BrokerKeys(own, users={USER: user}, schedulers=schedulers)


def _settings(state: Path, port: int, routes: BrokerRoutes | None) -> BrokerSettings:
    keys = state / "keys"
    return BrokerSettings(
        server_name=state.name,
        port=port,
        store_dir=str(state / "nats"),
        key_file=str(keys / "broker.key"),
        certificate_file=str(keys / context.CERTIFICATE),
        routes=routes,
    )


def _routes(states: Sequence[Path], ports: Sequence[int]) -> list[BrokerRoutes | None]:
    """Return what makes brokers one cluster by these ports; one broker alone has no routes."""
    if len(ports) == 1:
        return [None]
    places = tuple(f"127.0.0.1:{port}" for port in ports)
    made: list[BrokerRoutes | None] = []
    for state, place in zip(states, places, strict=True):
        pinned = str(state / "keys" / context.CERTIFICATE)  # one certificate, which all have
        key = str(state / "keys" / "broker.key")
        made.append(BrokerRoutes(CLUSTER, place, places, key, pinned, pinned))
    return made


def _start(program: Path, settings: BrokerSettings, state: Path, text: str) -> Broker:
    config = state / "nats-server.conf"
    config.touch(0o600)
    config.write_text(text)
    (state / "cluster.json").write_bytes(msgspec.json.encode({"port": settings.port}))
    with (state / "broker.log").open("wb") as log:
        process = subprocess.Popen([program, "-c", str(config)], stdout=log, stderr=log)
    return Broker(settings.server_name, settings.port, state, process)


def _wait_listening(broker: Broker) -> None:
    deadline = time.monotonic() + LISTEN_S
    while True:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", broker.port), 1),
        ):
            return
        if broker.process.poll() is not None or time.monotonic() > deadline:
            raise Unavailable(f"{broker.name} does not start: {said(broker.state / 'broker.log')}")
        time.sleep(0.02)


def _free_ports(count: int) -> list[int]:
    """Return so many different ports on which no process listens now."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
