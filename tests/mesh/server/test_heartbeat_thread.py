# SPDX-License-Identifier: Apache-2.0
"""A scheduler whose loop is busy still sends heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from stoker.mesh.replica.authority import BEAT_NS, LEASE_MS
from stoker.mesh.wire import subjects
from stoker.mesh.wire.command import HeartbeatJudge, LeaseRenewal
from tests.mesh.blocked_scheduler import BLOCK
from tests.mesh.nats_server import Server
from tests.mesh.node import Node

ROUNDS = LEASE_MS * 1_000_000 // BEAT_NS + 2
"""Longer than one lease."""


@pytest.fixture
async def node(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    node = Node(server_stopped_with_admin, module="tests.mesh.blocked_scheduler")
    yield await node.start()
    (node.folder / "blocked").unlink(missing_ok=True)
    await node.stop()


async def test_no_request_of_a_user_delays_a_heartbeat(node: Node) -> None:
    assert node.agent is not None
    chain, renewed = node.agent.chain, asyncio.Semaphore(0)
    judge = HeartbeatJudge(chain.cluster, chain.node, node.server.identities["scheduler"].verifier)

    async def hear(message: Msg) -> None:
        if isinstance(judge.judge(message.data, chain.position), LeaseRenewal):
            renewed.release()

    nc = await node.server.connect("node1")
    await nc.subscribe(subjects.heartbeat("node1"), cb=hear)
    await asyncio.wait_for(renewed.acquire(), 30)  # the node is known
    asking = asyncio.ensure_future(node.ask("alice", "job", "submit", argv=("true", BLOCK)))
    await node.until((node.folder / "blocked").exists)
    for _ in range(ROUNDS):
        await asyncio.wait_for(renewed.acquire(), 30)
    assert not asking.done()
    (node.folder / "blocked").unlink()
    assert (await asking).job == 1
