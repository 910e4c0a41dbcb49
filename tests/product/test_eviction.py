# SPDX-License-Identifier: Apache-2.0
"""A node falls silent, is given up, and returns: what ran there goes on elsewhere, once."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from fakes.servers import Servers

from stoker.mesh.wire import schema
from stoker.scheduler.nouns import ENDED

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


async def node_view(servers: Servers, name: str) -> schema.NodeView:
    listed = await servers.persist("alice", "node", "list")
    return next(node for node in listed.nodes if node.node == name)


async def until_node(servers: Servers, name: str, *states: str) -> schema.NodeView:
    """Wait until a node has one of these states."""
    async with asyncio.timeout(60):
        while True:
            if (view := await node_view(servers, name)).state in states:
                return view
            await asyncio.sleep(0.05)


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_silent_node_is_given_up_and_returns(servers: Servers, public_folder: Path) -> None:
    notes = f"echo $$ > {public_folder}/$STOKER_JOB_ID.$STOKER_ATTEMPT"
    waits = ("/bin/sh", "-c", f"{notes}; while [ ! -e {public_folder}/go ]; do sleep 0.05; done")
    whole = {"gpu_milli": 1000, "device_kind": "cpu"}
    moves = await servers.submit(*waits, restart="on-node-loss", **whole)
    first = await servers.until_state(moves, "running")
    assert first.decision is not None
    node = next(each for each in servers.nodes if each.name == first.decision.node)
    once = await servers.submit(*waits, require=(), cpu_milli=100, name="once")
    placed = await servers.until_state(once, "running")
    frozen = node.freezes
    pid = int((public_folder / f"{moves}.1").read_text())

    node.processes["agent"].send_signal(signal.SIGSTOP)
    evicted = await until_node(servers, node.name, "evicted")
    assert "silent for" in evicted.evicted and "went unanswered" in evicted.evicted
    assert node.freezes == frozen + 1, "its jobs were frozen before it was given up"
    assert lives(pid)
    first_output = await servers.persist("alice", "job", "logs", job=moves, attempt=1, wait_s=2.0)
    assert first_output.eof and f"node {node.name} is given up" in first_output.absent
    second = await servers.until_state(moves, "running")
    while second.attempt == 1:
        second = await servers.until_state(moves, "running")
    assert second.decision is not None and second.decision.node != node.name

    node.processes["agent"].send_signal(signal.SIGCONT)
    await until_node(servers, node.name, "ready")
    assert not lives(pid), "it returned after the old attempt had ended"
    (public_folder / "go").touch()
    ended = await servers.until_state(moves, *ENDED)
    assert (ended.state, ended.attempt) == ("succeeded", 2)
    first_output = await servers.persist("alice", "job", "logs", job=moves, attempt=1)
    assert first_output.eof and not first_output.absent, "it can be read again"
    other = await servers.until_state(once, *ENDED)
    here = placed.decision is not None and placed.decision.node == node.name
    assert other.state == ("lost" if here else "succeeded")
    again = await servers.submit("true", **whole)
    assert (await servers.until_state(again, *ENDED)).state == "succeeded"
    await servers.until_equal()
