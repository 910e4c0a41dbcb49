# SPDX-License-Identifier: Apache-2.0
"""Two hosts, one of which dies: the other's gossip stands for the second pinger that is missing.

The hosts are network namespaces, each with a real Serf agent.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, wait_until

from stoker.agent.join import mesh_keys
from stoker.agent.state import gossip_files
from stoker.agent.supervise import pids

pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("serf") is None, reason="serf is not installed"),
]


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[ServerHost, ServerHost]]:
    """A host that was made a cluster, and one that joined it."""
    with three_hosts() as (first, second, _):
        first.stoker("cluster", "init", "--address", first.address, "--name", "first")
        first.stoker("up")
        token = first.stoker("cluster", "token", "--expires", "10m").stdout
        second.stoker("cluster", "join", "--name", "second", stdin=token)
        second.stoker("up")
        both = {"first": "alive", "second": "alive"}
        wait_until(lambda: states(first) == both, "both are members", PATIENCE_S)
        wait_until(lambda: states(second) == both, "both are members", PATIENCE_S)
        yield first, second


def members(host: ServerHost) -> dict[str, dict[str, Any]]:
    done = host.stoker("cluster", "members", "-o", "json", check=False)
    rows = host.json("cluster", "members", "-o", "json")["members"] if not done.returncode else []
    return {row["name"]: row for row in rows}


def states(host: ServerHost) -> dict[str, str]:
    return {name: row["state"] for name, row in members(host).items()}


def node(host: ServerHost, name: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = host.json("nodes", "-o", "json")["nodes"]
    return next(row for row in rows if row["node"] == name)


def job(host: ServerHost, number: int) -> dict[str, Any]:
    return host.json("job", str(number), "-o", "json")


def test_secrets_of_the_mesh_are_in_private_files_alone(
    hosts: tuple[ServerHost, ServerHost],
) -> None:
    for host in hosts:
        access, rpc = gossip_files.load(host.state), gossip_files.rpc(host.state)
        process = Path("/proc", str(pids.find(host.state)["serf"].pid))
        said = b"".join((process / name).read_bytes() for name in ("cmdline", "environ"))
        assert access.keys[0].encode() not in said and rpc.key.encode() not in said
        folder = gossip_files.folder(host.state)
        private = (gossip_files.file(host.state), folder, gossip_files.config_file(host.state))
        for path in (*private, folder / "keyring.json"):
            assert path.stat().st_mode & 0o077 == 0, path
    first, second = hosts
    assert gossip_files.load(first.state) == gossip_files.load(second.state)


def test_a_serf_agent_that_is_stopped_gives_nobody_up(
    hosts: tuple[ServerHost, ServerHost],
) -> None:
    first, second = hosts
    serf = pids.find(second.state)["serf"]
    os.kill(serf.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: states(first)["second"] == "failed", "gossip misses it", PATIENCE_S)
        assert node(first, "second")["state"] == "ready"
        assert first.stoker("run", "--", "echo", "fine").stdout == b"fine\n"
    finally:
        os.kill(serf.pid, signal.SIGCONT)
    wait_until(lambda: states(first)["second"] == "alive", "it is heard again", PATIENCE_S)


def test_one_of_two_hosts_that_dies_is_given_up(hosts: tuple[ServerHost, ServerHost]) -> None:
    first, second = hosts
    first.stoker("node", "drain", "first", "--reason", "the job goes to the other")
    submitted = first.stoker("submit", "--restart", "on-node-loss", "--", "sleep", "600")
    number = int(submitted.stdout.split()[-1])
    wait_until(lambda: job(first, number)["state"] == "running", "it runs", PATIENCE_S)
    first.stoker("node", "undrain", "first")
    second.lose_power()
    wait_until(lambda: node(first, "second")["state"] == "evicted", "it is given up", PATIENCE_S)
    why = node(first, "second")["evicted"]
    assert "pings of first went unanswered, and gossip holds it as failed" in why
    wait_until(
        lambda: job(first, number)["state"] == "running" and place(first, number) == "first",
        "its job runs at the other",
        PATIENCE_S,
    )
    second.plug_in()
    second.stoker("up")
    wait_until(lambda: states(first)["second"] == "alive", "it is a member again", PATIENCE_S)
    wait_until(lambda: node(first, "second")["state"] == "ready", "it is back", PATIENCE_S)


def test_a_host_whose_key_is_revoked_loses_the_mesh(hosts: tuple[ServerHost, ServerHost]) -> None:
    first, second = hosts
    known = gossip_files.load(second.state).keys
    first.stoker("cluster", "revoke", "second", "--reason", "stolen")
    wait_until(lambda: not mesh_keys.file(first.state).exists(), "keys are replaced", PATIENCE_S)
    assert set(known).isdisjoint(gossip_files.load(first.state).keys)
    assert gossip_files.load(second.state).keys == known, "it gets no new one"
    assert states(first).get("second", "left") == "left", "it is no member"


def place(host: ServerHost, number: int) -> str:
    return str((job(host, number).get("decision") or {}).get("node", ""))
