# SPDX-License-Identifier: Apache-2.0
"""A full state disk: submits are refused with the reason, and taken again once there is room."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats.errors
import pytest

from stoker.mesh.broker import broker_config
from stoker.mesh.identity import identity
from stoker.native.errors import Refused, StokerError
from tests.fakes import pinned
from tests.fakes.ports import free_port
from tests.mesh.nats_server import Server
from tests.mesh.node import Node

pytestmark = pytest.mark.needs_root


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 24 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
async def node(small_disk: Path) -> AsyncIterator[Node]:
    folder = small_disk / "state"
    folder.mkdir()
    names = ("scheduler", "node1", "alice", "bob", "admin")
    keys = {name: identity.create(folder / f"{name}.nk") for name in names}
    public = {name: key.public for name, key in keys.items()}
    server = Server(
        folder,
        broker_config.BrokerSettings(
            "test", free_port(), str(folder / "js"), *pinned.pair(folder), log_max_bytes=8 << 20
        ),
        broker_config.BrokerKeys(
            public["scheduler"],
            {"node1": public["node1"]},
            {name: public[name] for name in ("alice", "bob", "admin")},
        ),
        keys,
    )
    node = Node(server)
    yield node
    await node.stop()
    await server.close_connections()
    server.stop()


def fill(folder: Path) -> Path:
    """Fill the disk of this folder."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 65_536)
    with path.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x")
    return path


async def restart_on_request(node: Node) -> None:
    """Restart the broker on STATUS=broker-restart, as the supervisor does."""
    done = 0
    while True:
        requests = [line for line in node.listen() if line.startswith("STATUS=broker-restart")]
        if len(requests) > done:
            done = len(requests)
            node.server.kill()
            node.server.start()
        await asyncio.sleep(0.05)


async def submit(node: Node, number: int) -> str:
    """Submit a job; return its number, or the code and message of the error."""
    try:
        view = await node.ask("alice", "job", "submit", argv=("true", str(number), "x" * 4000))
    except StokerError as error:
        return f"{error.code}: {error.message}"
    except (nats.errors.Error, TimeoutError):
        return "no answer"
    return f"job {view.job}"


async def test_submits_are_refused_with_a_reason_until_there_is_room(node: Node) -> None:
    await node.start()
    supervisor = asyncio.ensure_future(restart_on_request(node))
    try:
        assert (await submit(node, 0)).startswith("job ")
        filler = fill(node.folder)
        said = ""
        for number in range(200):
            said = await submit(node, number)
            if said.startswith("refused"):
                break
        assert said.startswith("refused: no job is taken now: the state disk has 0.0 MiB free")
        assert f": make room at {node.folder}" in said
        assert Refused.code == "refused"
        listed = await node.ask("alice", "job", "list")
        filler.unlink()
        for number in range(1000, 1400):
            said = await submit(node, number)
            if said.startswith("job "):
                break
            await asyncio.sleep(0.1)
        assert said.startswith("job "), node.log()
        jobs = (await node.ask("alice", "job", "list", limit=1000)).jobs
        assert len(jobs) >= len(listed.jobs) + 1
        for job in jobs:
            view = await node.persist("alice", "job", "get", job=job.job, until="ended", wait_s=5.0)
            assert view.state == "succeeded"
        assert node.agent is not None
        assert max(node.agent.started.values()) == 1
    finally:
        supervisor.cancel()
