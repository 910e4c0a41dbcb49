# SPDX-License-Identifier: Apache-2.0
"""Nodes leave a cluster of three schedulers for good: one that was drained, one that is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from fakes.servers import Servers

from stoker.mesh.wire import schema
from stoker.native.errors import NotFound, Refused
from stoker.scheduler.nouns import ENDED
from tests.mesh.nats_server import NODES

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


async def names(servers: Servers) -> list[str]:
    listed: schema.NodeList = await servers.persist("alice", "node", "list")
    return [node.node for node in listed.nodes]


async def test_a_drained_node_leaves_and_a_lost_one_is_given_up(
    servers: Servers, public_folder: Path
) -> None:
    """node1 cannot leave: its host has a scheduler. The jobs of node2 end, those of node3 move."""
    waits = ("/bin/sh", "-c", f"while [ ! -e {public_folder}/go ]; do sleep 0.05; done")
    each = {"group": "g", "company": "repel"}
    jobs = [await servers.submit(*waits, restart="on-node-loss", **each) for _ in NODES]
    views = [await servers.until_state(job, "running") for job in jobs]
    where = {view.decision.node: view.job for view in views if view.decision is not None}
    assert where.keys() == set(NODES)

    with pytest.raises(Refused, match=r"takes jobs|has job"):
        await servers.persist("admin", "node", "remove", node="node2")
    await servers.persist("admin", "node", "drain", node="node2")
    with pytest.raises(Refused, match=f"node node2 has job {where['node2']}") as refused:
        await servers.persist("admin", "node", "remove", node="node2")
    assert "--force" in refused.value.hint

    node3 = next(node for node in servers.nodes if node.name == "node3")
    node3.processes["agent"].send_signal(signal.SIGSTOP)
    frozen = node3.freezes
    done = await servers.persist("admin", "node", "remove", node="node3", force=True)
    assert done.changed or "node3" not in await names(servers)
    assert node3.freezes == frozen + 1, "its jobs were frozen before they were given up"
    assert await names(servers) == ["node1", "node2"]
    (public_folder / "go").touch()
    moved = await servers.until_state(where["node3"], *ENDED)
    assert (moved.state, moved.attempt) == ("succeeded", 2)
    assert (moved.attempts[0].node, moved.attempts[0].state) == ("node3", "lost")

    ended = await servers.until_state(where["node2"], *ENDED)
    assert (ended.state, ended.attempt) == ("succeeded", 1)
    assert (await servers.persist("admin", "node", "remove", node="node2", reason="sold")).changed
    assert await names(servers) == ["node1"]
    devices = (await servers.persist("alice", "device", "list")).devices
    assert {device.node for device in devices} == {"node1"}
    told = await servers.persist("alice", "job", "explain", job=where["node2"])
    assert "node2" in told.summary
    with pytest.raises(NotFound, match=r"node node2 was removed .*: sold, by admin"):
        await servers.persist("alice", "job", "trace", job=where["node2"])

    node3.kill("agent")
    node3.start_agent()
    await servers.until(lambda: "was removed from the cluster" in node3.log())
    later = await servers.submit("true")
    assert (await servers.until_state(later, *ENDED)).state == "succeeded"
    assert await names(servers) == ["node1"]
    await servers.until_equal()
