# SPDX-License-Identifier: Apache-2.0
"""Readings that an operator takes of servers which are upgraded one by one, and a restart of one.

For the tests of upgrades, whose hosts are those of `fakes.three_hosts`.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from fakes.three_hosts import ServerHost
from product_node import PATIENCE_S, wait_until

from stoker.agent.supervise import pids


def found_servers(hosts: list[ServerHost], config: str = "") -> None:
    """Found the cluster of these servers on the first one, with this configuration on each."""
    first = hosts[0]
    first.stoker("cluster", "init", "--address", first.address, "--name", first.name,
                 "--servers", str(len(hosts)))  # fmt: skip
    for host in hosts:
        if host is not first:
            token = first.stoker("cluster", "token", "--server").stdout
            host.stoker("cluster", "join", "--name", host.name, stdin=token)
        (host.root / "config.toml").write_text(config)
        host.stoker("up")
    wait_until(lambda: in_step(hosts), "all are in step", PATIENCE_S)


def status(host: ServerHost) -> dict[str, Any]:
    """Return what `cluster status` says there; nothing where it fails."""
    done = host.stoker("cluster", "status", "--json", check=False)
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return found


def in_step(hosts: list[ServerHost]) -> bool:
    """Return True once the first host says that each of them is ready and may be restarted."""
    found = status(hosts[0])
    if not found.get("leader") or not found["log_leader"] or not found["nodes"]:
        return False
    ready = all(found["nodes"].get(host.name) == "ready" for host in hosts)
    return ready and all(row["may_go"] for row in found["servers"])


def restart(host: ServerHost) -> None:
    """Restart stoker on a host as a service manager does at an upgrade: its jobs go on."""
    supervisor = pids.find(host.state)[pids.SUPERVISOR].pid
    os.kill(supervisor, signal.SIGTERM)
    wait_until(lambda: pids.SUPERVISOR not in pids.find(host.state), "it has ended")
    host.stoker("up", check=False)


def raise_level(servers: list[ServerHost]) -> None:
    """Raise the feature level; the leader may have heard of an older build within the last 2 s."""

    def raised() -> bool:
        return b"done" in servers[-1].stoker("cluster", "upgrade", check=False).stdout

    wait_until(raised, "the level is raised", PATIENCE_S)
    wait_until(lambda: in_step(servers), "all have read it", PATIENCE_S)


def levels(host: ServerHost) -> dict[str, tuple[int, int]]:
    """Return the feature levels that each server says it supports."""
    rows = status(host)["servers"]
    return {row["server"]: (row["oldest"], row["newest"]) for row in rows}


def running(host: ServerHost, job: str) -> dict[str, Any]:
    """Return a job as the leader has it while it runs; a row without state if it does not."""
    found = host.stoker("jobs", "--all", "-o", "json", "--status", "running").stdout
    rows = json.loads(found)["jobs"]
    return next((row for row in rows if str(row["job"]) == job), {"state": ""})


def log_of(host: ServerHost, process: str) -> str:
    """Return the log of the scheduler, the supervisor or another process there."""
    return (host.state.log / f"{process}.log").read_text()
