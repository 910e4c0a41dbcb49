# SPDX-License-Identifier: Apache-2.0
"""A joined node that is started while its cluster is away waits, and takes jobs by itself later.

The hosts are network namespaces.
"""

from __future__ import annotations

import pytest
from fakes.server_life import status
from fakes.three_hosts import three_hosts
from product_node import PATIENCE_S, wait_until

from stoker.agent.supervise import pids

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


def test_a_node_that_starts_before_its_cluster_takes_jobs_once_that_is_there() -> None:
    with three_hosts() as hosts:
        server, node, _ = hosts
        server.stoker("cluster", "init", "--address", server.address, "--name", server.name)
        server.stoker("up")
        token = server.stoker("cluster", "token").stdout
        node.stoker("cluster", "join", "--name", node.name, stdin=token)
        server.stoker("down")

        said = node.stoker("up").stdout.decode()
        where = f"stoker waits for its cluster at tls://{server.address}:"
        assert said.startswith(where), said
        assert ": the broker is not connected\n" in said
        assert "# on this host: what it waits for" in said
        agent = pids.find(node.state)["agent"]
        doubt = node.stoker("doctor", check=False).stdout.decode()
        assert "the broker is not connected" in doubt, doubt

        server.stoker("up", "--label", "here=yes")

        def is_ready() -> bool:
            return bool(status(server)["nodes"].get(node.name) == "ready")

        wait_until(is_ready, "the node has found its cluster", PATIENCE_S)
        done = server.stoker("run", "--avoid", "here=yes", "--", "echo", "there")
        assert done.stdout == b"there\n"
        assert pids.find(node.state)["agent"].pid == agent.pid, "nobody started it again"
