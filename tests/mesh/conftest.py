# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the mesh tests: keys, and a real broker stopped or started."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stoker.mesh.broker import broker_config
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Identity
from tests.fakes import pinned
from tests.fakes.ports import free_port
from tests.mesh.nats_server import Server

NODES = ("node1", "node2", "node3")


@pytest.fixture
def keyring(tmp_path: Path) -> dict[str, Identity]:
    names = ("scheduler", *NODES, "alice", "bob")
    return {name: identity.create(tmp_path / f"{name}.nk") for name in names}


@pytest.fixture
def stopped_server(tmp_path: Path, keyring: dict[str, Identity]) -> Iterator[Server]:
    """A broker that is configured and not started."""
    public = {name: key.public for name, key in keyring.items()}
    server = Server(
        tmp_path,
        broker_config.BrokerSettings(
            "test", free_port(), str(tmp_path / "jetstream"), *pinned.pair(tmp_path)
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


@pytest.fixture
async def server_stopped_with_admin(stopped_server: Server) -> AsyncIterator[Server]:
    """A stopped broker with an administrator; connections are closed at the end."""
    stopped_server.grant("admin")
    try:
        yield stopped_server
    finally:
        await stopped_server.close_connections()


@pytest.fixture
async def server(stopped_server: Server) -> AsyncIterator[Server]:
    """A started broker, whose connections are closed at the end."""
    stopped_server.start()
    try:
        yield stopped_server
    finally:
        await stopped_server.close_connections()
