# SPDX-License-Identifier: Apache-2.0
"""A queue with the order fair on a node: behind one user's flood another user's job is next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import LiveNode, live_node

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from tests.soak.floods import Mallory

pytestmark = pytest.mark.needs_root

FLOOD = 40


@pytest.fixture(scope="module")
def node() -> Iterator[LiveNode]:
    with live_node() as live:
        yield live


async def flood(mallory: Mallory, cpu_milli: int) -> int:
    """Submit an array of jobs, each of which wants all CPUs; the number of its first job."""
    request = schema.JobRequest(
        argv=("sleep", "600"), cpu_milli=cpu_milli, array=tuple(range(FLOOD))
    )
    async with Client.open(mallory.context) as client:
        return (await client.submit(request)).job


async def cancel(mallory: Mallory, job: int) -> None:
    async with Client.open(mallory.context) as client:
        await client.cancel(str(job))


def test_behind_a_flood_another_users_job_is_next(node: LiveNode, tmp_path: Path) -> None:
    node.stoker("queue", "set", "default", "--order", "fair")
    assert b"fair" in node.stoker("queue", "list", "-o", "wide").stdout
    mallory = Mallory.of(node, tmp_path)
    row = node.json("nodes")["nodes"][0]  # type: ignore[index]
    first = asyncio.run(flood(mallory, row["cpu_milli"]))
    node.wait(first, "running")
    own = node.submit("true", cpu_milli=row["cpu_milli"])
    said = node.explained(first + 1)
    assert f"the user of job {own} is next: it holds 0 % of the cluster in this queue" in said
    assert "ahead of it" not in node.explained(own)
    asyncio.run(cancel(mallory, first))
    assert node.wait(own).state == "succeeded"
    node.wait(first + 1, "running")
    asyncio.run(cancel(mallory, first + 1))
