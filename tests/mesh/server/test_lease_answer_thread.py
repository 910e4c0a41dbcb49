# SPDX-License-Identifier: Apache-2.0
"""A scheduler whose loop is busy still answers lease requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from stoker.agent.jobs.lease_judge import LeaseExtended, LeaseHolder, LeaseJudge
from stoker.mesh.replica.boot_clock import boot_ns
from stoker.mesh.wire import subjects
from tests.mesh.blocked_scheduler import BLOCK
from tests.mesh.nats_server import Server
from tests.mesh.node import CLUSTER, Node

ROUNDS = 3
"""Requests while the main loop is blocked."""


@pytest.fixture
async def node(server_stopped_with_admin: Server) -> AsyncIterator[Node]:
    node = Node(server_stopped_with_admin, module="tests.mesh.blocked_scheduler")
    yield await node.start()
    (node.folder / "blocked").unlink(missing_ok=True)
    await node.stop()


class Requester:
    """Requests the lease of node1 and judges the answers, as an agent does."""

    def __init__(self, node: Node) -> None:
        assert node.agent is not None
        self.chain = node.agent.chain
        verifier = node.server.identities["scheduler"].verifier
        nonces = iter(range(1, 1 << 20))
        holder = LeaseHolder(CLUSTER, "node1", 0)
        self.judge = LeaseJudge(holder, [verifier], lambda: next(nonces))
        self.renewed = asyncio.Event()

    async def hear(self, message: Msg) -> None:
        verdict = self.judge.judge(message.data, boot_ns(), self.chain.position, None)
        if isinstance(verdict, LeaseExtended):
            self.renewed.set()

    async def renew(self, node: Node) -> None:
        """Request until one answer has counted."""
        nc = await node.server.connect("node1")
        await nc.subscribe(subjects.lease_answer("node1"), cb=self.hear)
        self.renewed.clear()
        async with asyncio.timeout(60):
            while not self.renewed.is_set():
                data = self.judge.request(boot_ns(), self.chain.position, frozen=False)
                await nc.publish(subjects.lease_request("node1"), data)
                await asyncio.wait({asyncio.ensure_future(self.renewed.wait())}, timeout=0.25)
        await nc.close()


async def test_no_request_of_a_user_delays_an_answer(node: Node) -> None:
    requester = Requester(node)
    await requester.renew(node)
    asking = asyncio.ensure_future(node.ask("alice", "job", "submit", argv=("true", BLOCK)))
    await node.until((node.folder / "blocked").exists)
    for _ in range(ROUNDS):
        before = requester.judge.expiry_ns
        await requester.renew(node)
        assert requester.judge.expiry_ns > before
    assert not asking.done()
    (node.folder / "blocked").unlink()
    assert (await asking).job == 1
