# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the mesh tests: keys, and a real broker stopped or started."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stoker.mesh.identity.identity import Identity
from tests.mesh.nats_server import Server, configured, keys_in


@pytest.fixture
def keyring(tmp_path: Path) -> dict[str, Identity]:
    return keys_in(tmp_path)


@pytest.fixture
def stopped_server(tmp_path: Path, keyring: dict[str, Identity]) -> Iterator[Server]:
    """A broker that is configured and not started."""
    with configured(tmp_path, keyring) as server:
        yield server


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
