# SPDX-License-Identifier: Apache-2.0
"""A cluster of three servers becomes one of a single server by its backup, and keeps its jobs."""

from __future__ import annotations

import pytest
from fakes.server_life import found_servers, status
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, wait_until

from tests.product.test_cluster_of_servers import job, placed

pytestmark = [pytest.mark.needs_root, pytest.mark.slow, pytest.mark.soak]


def test_three_servers_become_one_with_the_jobs_they_have() -> None:
    """The commands are those of the page; another host joins it as a node without a scheduler."""
    with three_hosts() as hosts:
        folder = hosts[0].root.parent / "shrunk"
        folder.mkdir(mode=0o711)
        kept = str(folder / "kept")
        alone, node = (ServerHost(host.name, n, folder) for n, host in enumerate(hosts[:2], 1))
        found_servers(hosts)
        hosts[0].stoker("queue", "set", "night", "--weight", "3")
        number = job(hosts[0])
        wait_until(lambda: bool(placed(hosts[0], number)), "the job runs", PATIENCE_S)
        end(hosts, kept)
        try:
            begin(alone, kept)
            wait_until(lambda: placed(alone, number) == alone.name, "it runs again", PATIENCE_S)
            assert "night" in alone.stoker("queue", "list").stdout.decode()
            assert [row["server"] for row in status(alone)["servers"]] == [alone.name]
            token = alone.stoker("cluster", "token").stdout
            node.stoker("cluster", "join", "--name", node.name, stdin=token)
            node.stoker("up")
            wait_until(lambda: status(alone)["nodes"].get(node.name) == "ready", "it has joined")
        finally:
            for host in (node, alone):
                if host.root.exists():
                    host.stoker("down", check=False)


def end(hosts: list[ServerHost], kept: str) -> None:
    """Take a backup of the cluster and end it."""
    hosts[0].stoker("cluster", "backup", kept)
    for host in hosts:
        host.stoker("down")


def begin(host: ServerHost, kept: str) -> None:
    """Begin with the backup on one server that other hosts may reach."""
    host.stoker("cluster", "restore", kept, "--name", host.name)
    host.stoker("cluster", "init", "--address", host.address)
    host.stoker("up")
