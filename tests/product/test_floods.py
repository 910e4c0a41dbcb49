# SPDX-License-Identifier: Apache-2.0
"""Floods of an ordinary user on a whole node: each is held to that user's budgets, another user is
served all the while, and what one user writes takes room from that user alone. `make soak` has the
same floods at their full size, with figures.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import LiveNode, live_node, wait_until

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from tests.soak.flooder import CONNECTIONS, SUBSCRIPTIONS
from tests.soak.floods import BROKER_BYTES_MAX, Mallory, broker_bytes, frozen

pytestmark = pytest.mark.needs_root

JOBS = 250
USER_BYTES = 200_000


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    def write(node: LiveNode) -> None:
        node.root.mkdir(mode=0o700)
        text = f"[retention]\nuser_bytes = {USER_BYTES}\n[budgets]\nsubscriptions = 20\n"
        (node.root / "config.toml").write_text(text)

    with live_node(prepare=write) as live:
        yield live


@pytest.fixture(scope="module")
def mallory(node: LiveNode, tmp_path_factory: pytest.TempPathFactory) -> Mallory:
    return Mallory.of(node, tmp_path_factory.mktemp("seed"))


def test_one_users_output_takes_room_from_that_user_alone(node: LiveNode, mallory: Mallory) -> None:
    own = node.run("sh", "-c", "head -c 50000 /dev/zero").job
    folders = node.state.agent / "jobs"

    async def write_much(client: Client) -> list[int]:
        jobs = []
        for _ in range(6):
            argv = ("sh", "-c", "head -c 60000 /dev/zero")
            jobs.append((await client.submit(schema.JobRequest(argv=argv))).job)
            await client.wait(jobs[-1])
        return jobs

    async def talk() -> list[int]:
        async with Client.open(mallory.context) as client:
            return await write_much(client)

    jobs = asyncio.run(talk())
    wait_until(lambda: not (folders / str(jobs[0])).exists(), "the oldest of this user is gone")
    assert (folders / str(jobs[-1]) / "out").stat().st_size == 60_000
    assert len(node.output(own)) == 50_000


@pytest.mark.parametrize(
    "kind", ["lists", "polite", "submits", "output", "subscriptions", "silent"]
)
def test_another_user_is_served_through_a_flood(
    node: LiveNode, mallory: Mallory, kind: str
) -> None:
    if kind == "lists":
        asyncio.run(mallory.fill(JOBS))
    with mallory.flooding(kind, 1.0) as flood:
        assert node.run("echo", "served").state == "succeeded"
        assert flood.stdout is not None
        became = json.loads(flood.stdout.read())
        assert flood.wait() == 0
    if kind == "subscriptions":
        assert became["ended"] == CONNECTIONS, became
        assert became["subscribed"] < SUBSCRIPTIONS // 10
    else:
        assert became["asked"] >= 160, became
    assert node.run("true").state == "succeeded"
    assert frozen(node) == 0, Path(node.root / "log/watchdog.log").read_text()
    assert broker_bytes(node) < BROKER_BYTES_MAX
