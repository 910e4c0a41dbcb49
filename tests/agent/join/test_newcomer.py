# SPDX-License-Identifier: Apache-2.0
"""Hosts join through a real broker and a real registrar; a join that fails leaves nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest

from stoker.agent.join import newcomer, token_issue
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_address, broker_setup, own_users, pids
from stoker.mesh.broker.broker_config import GUEST_INBOX
from stoker.mesh.broker.broker_program import BROKER, broker_program
from stoker.mesh.identity import certificate, identity
from stoker.mesh.identity.identity import Identity
from stoker.mesh.identity.join_token import JoinToken
from stoker.mesh.wire import subjects
from stoker.native.errors import Denied, Refused, StokerError, Unavailable

HERE = "127.0.0.2"
PATIENCE_S = 60


class Cluster:
    """The first node's broker and registrar, without its other processes."""

    def __init__(self, where: StateFolder) -> None:
        self.where = where
        self.record = broker_address.init(where, HERE, None, "first")
        broker_setup.write_config(where, self.record, own_users.load(where))
        state_folder.prepare_run(where)
        conf = where.nats / "nats-server.conf"
        self.processes = {BROKER: self._start(broker_program(), "-c", conf)}
        found = pids.identify(self.processes[BROKER].pid)
        assert found is not None
        pids.write(where, {BROKER: found})
        self._start_registrar()

    def _start_registrar(self) -> None:
        """Start it and wait for its word that it serves, which needs the broker to serve."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as word:
            path = str(self.where.run / "notify.sock")
            word.bind(path)
            word.settimeout(PATIENCE_S)
            module = ("-P", "-m", "stoker.agent.join.registrar", "--state", self.where.root)
            self.processes["registrar"] = self._start(sys.executable, *module, NOTIFY_SOCKET=path)
            while b"READY=1" not in word.recv(4096):
                pass

    def _start(self, *argv: object, **variables: str) -> subprocess.Popen[bytes]:
        with (self.where.log / "all.log").open("ab") as log:
            words = list(map(str, argv))
            return subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **variables})

    def token(self, **changed: Any) -> JoinToken:
        made = token_issue.issue(self.where, 3600, int(time.time()))
        fields = {name: getattr(made, name) for name in JoinToken.__match_args__}
        return JoinToken(**(fields | changed))

    def end(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def connect(self, key: Identity, **options: Any) -> Any:
        return nats.connect(
            self.record.url,
            nkeys_seed_str=key.seed,
            connect_timeout=5,
            **{"error_cb": _ignore, "allow_reconnect": False, **options},
            **certificate.connecting(self.where.broker_certificate),
        )


async def _ignore(error: Exception) -> None:
    """Errors show in what they end."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    made = Cluster(state_folder.locate(folder / "state"))
    try:
        yield made
    finally:
        for name in tuple(made.processes):
            made.end(name)
        shutil.rmtree(made.where.run, ignore_errors=True)
        shutil.rmtree(made.where.shm, ignore_errors=True)
        shutil.rmtree(folder)


@pytest.fixture
def place(tmp_path: Path) -> StateFolder:
    """The place of the newcomer's folder, which is alone in its parent."""
    return state_folder.locate(tmp_path / "hosts" / "second")


def nothing_left(place: StateFolder) -> bool:
    return not place.root.parent.exists() or not list(place.root.parent.iterdir())


async def accepted(cluster: Cluster, key: Identity) -> None:
    """Wait until the broker lets this key in: it reads its configuration beside the answer."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await (await cluster.connect(key)).close()
                return
            except (nats.errors.Error, OSError, TimeoutError):
                await asyncio.sleep(0.05)


def test_a_host_becomes_a_node_with_its_own_key_alone(cluster: Cluster, place: StateFolder) -> None:
    made = newcomer.join(place, cluster.token(), "second")
    assert state_folder.load(place) == made
    assert (made.node, made.cluster, made.joined) == ("second", cluster.record.cluster, True)
    assert made.scheduler_keys == cluster.record.scheduler_keys
    assert (made.url, made.brokers) == (cluster.record.url, (cluster.record.url,))
    names = {str(path.relative_to(place.root)) for path in place.root.rglob("*") if path.is_file()}
    assert names == {"format", "cluster.json", "keys/agent.nk", "keys/broker.crt"}
    assert [path.name for path in place.root.parent.iterdir()] == ["second"]
    asyncio.run(accepted(cluster, identity.load(place.key("agent"))))


def test_a_token_is_good_once_and_a_refusal_leaves_nothing(
    cluster: Cluster, place: StateFolder, tmp_path: Path
) -> None:
    token = cluster.token()
    newcomer.join(state_folder.locate(tmp_path / "other"), token, "once")
    with pytest.raises(Denied, match="node once has joined with this token"):
        newcomer.join(place, token, "twice")
    assert nothing_left(place)


def test_of_hosts_that_use_one_token_at_once_one_joins(cluster: Cluster, tmp_path: Path) -> None:
    token = cluster.token()

    def attempt(number: int) -> str:
        try:
            where = state_folder.locate(tmp_path / f"host{number}")
            return newcomer.join(where, token, f"at-once-{number}").node
        except StokerError as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(attempt, range(4)))
    joined = [name for name in found if name.startswith("at-once-")]
    assert len(joined) == 1, found
    assert sum(f"node {joined[0]} has joined with this token" in text for text in found) == 3, found
    assert len(list(tmp_path.iterdir())) == 1


def test_hosts_of_one_name_both_join(cluster: Cluster, tmp_path: Path) -> None:
    for number, wanted in enumerate(("gpu", "gpu-2", "gpu-3")):
        where = state_folder.locate(tmp_path / str(number))
        assert newcomer.join(where, cluster.token(), "gpu").node == wanted


def test_another_program_at_the_address_learns_nothing(
    cluster: Cluster, place: StateFolder
) -> None:
    with pytest.raises(Denied, match="is not the broker that the join token names"):
        newcomer.join(place, cluster.token(fingerprint=b"f" * 32), "second")
    with pytest.raises(Unavailable, match=r"no broker answers at 127\.0\.0\.2:1: "):
        newcomer.join(place, cluster.token(port=1), "second")
    assert nothing_left(place)


def test_a_key_that_is_no_guest_is_refused(cluster: Cluster, place: StateFolder) -> None:
    with pytest.raises(Denied, match="knows no guests with this token's guest key"):
        newcomer.join(place, cluster.token(guest=identity.of_raw(b"g" * 32)), "second")
    assert nothing_left(place)


def test_a_folder_with_something_in_it_is_refused(cluster: Cluster, place: StateFolder) -> None:
    token = cluster.token()
    place.root.mkdir(parents=True, mode=0o700)
    (place.root / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match="is not a stoker state folder"):
        newcomer.join(place, token, "second")
    with pytest.raises(Refused, match="is that of node first already"):
        newcomer.join(cluster.where, token, "second")
    (place.root / "notes.txt").unlink()
    assert newcomer.join(place, token, "patient").node == "patient"


class Ended(Exception):
    """The broker ended the connection, as it may while it is reloaded for a node."""


class Violations(asyncio.Queue[str]):
    """The refusals of the broker on one connection, as they come."""

    async def note(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            await self.put(str(error).lower())

    async def end(self) -> None:
        await self.put("")

    async def next(self) -> str:
        text = await self.get()
        if not text:
            raise Ended
        return text


async def on_one_connection(
    cluster: Cluster, key: Identity, check: Callable[[Any, Violations], Awaitable[None]]
) -> None:
    """Carry out a check on a connection of its own, and again on another if the broker ends it."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            denied = Violations()
            try:
                made = await cluster.connect(key, error_cb=denied.note, closed_cb=denied.end)
            except (nats.errors.Error, OSError, TimeoutError):
                await asyncio.sleep(0.05)
                continue
            try:
                await check(made, denied)
                return
            except (Ended, nats.errors.Error, OSError):
                await asyncio.sleep(0.05)
            finally:
                await made.close()


async def test_a_guest_may_ask_the_registrar_and_nothing_else(cluster: Cluster) -> None:
    async def check(guest: Any, denied: Violations) -> None:
        for subject in (
            subjects.hello("first"),
            subjects.LOG,
            subjects.request("job", "submit"),
            subjects.user_request("admin", "job", "submit"),
            f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}",
            f"{GUEST_INBOX}.forged",
        ):
            await guest.publish(subject, b"x")
            assert subject.lower() in await denied.next()
        await guest.subscribe(subjects.command("first"))
        assert "subscription" in await denied.next()

    await on_one_connection(cluster, cluster.token().guest, check)


async def test_a_node_that_joined_speaks_for_itself_alone(
    cluster: Cluster, place: StateFolder
) -> None:
    node = (await asyncio.to_thread(newcomer.join, place, cluster.token(), "alone")).node

    async def check(agent: Any, denied: Violations) -> None:
        await agent.subscribe(subjects.command(node))
        await agent.publish(subjects.hello(node), b"x")
        await agent.flush()
        for subject in (subjects.hello("first"), subjects.lease_request("first"), subjects.LOG):
            await agent.publish(subject, b"x")
            assert subject.lower() in await denied.next()
        for subject in (subjects.command("first"), subjects.JOIN_NODE, ">"):
            await agent.subscribe(subject)
            assert "subscription" in await denied.next()
        assert denied.empty()

    await on_one_connection(cluster, identity.load(place.key("agent")), check)


def test_without_a_registrar_nobody_joins(
    cluster: Cluster, place: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newcomer, "TRIES", 1)
    cluster.end("registrar")
    with pytest.raises(Unavailable, match="no answer of the cluster's registrar: it does not run"):
        newcomer.join(place, cluster.token(), "second")
    assert nothing_left(place)
