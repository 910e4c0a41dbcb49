# SPDX-License-Identifier: Apache-2.0
"""Three servers are upgraded one by one while a job runs, and then their feature level is raised.

The hosts are network namespaces. A server of the older version is one that its operator has pinned
to the older level (`upgrade.newest_level`): it takes part in nothing beyond it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, wait_until

from stoker.agent.supervise import pids
from stoker.mesh.log.feature_level import BUILD
from stoker.mesh.replica.works.array_bound import MOST

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
OLD, NEW = 1, BUILD.newest
PIN = f"[upgrade]\nnewest_level = {OLD}\n"
LARGE = ("submit", "--cpus", "1", "--array", f"0-{MOST[1]}", "--", "true")


@pytest.fixture(scope="module")
def servers() -> Iterator[list[ServerHost]]:
    """Three servers of the older version, founded and in step."""
    with three_hosts() as hosts:
        first = hosts[0]
        first.stoker("cluster", "init", "--address", first.address, "--name", "first",
                     "--servers", "3")  # fmt: skip
        for host in hosts:
            if host is not first:
                token = first.stoker("cluster", "token", "--server").stdout
                host.stoker("cluster", "join", "--name", host.name, stdin=token)
            (host.root / "config.toml").write_text(PIN)
            host.stoker("up")
        wait_until(lambda: in_step(hosts), "all three are in step", PATIENCE_S)
        yield hosts


def status(host: ServerHost) -> dict[str, Any]:
    done = host.stoker("cluster", "status", "--json", check=False)
    found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
    return found


def in_step(hosts: list[ServerHost]) -> bool:
    found = status(hosts[0])
    if not found.get("leader") or not found["log_leader"] or not found["nodes"]:
        return False
    ready = all(found["nodes"].get(host.name) == "ready" for host in hosts)
    return ready and all(row["may_go"] for row in found["servers"])


def restart(host: ServerHost, config: str) -> None:
    """Restart stoker on a host as a service manager does at an upgrade: its jobs go on."""
    supervisor = pids.find(host.state)[pids.SUPERVISOR].pid
    os.kill(supervisor, signal.SIGTERM)
    wait_until(lambda: pids.SUPERVISOR not in pids.find(host.state), "it has ended")
    (host.root / "config.toml").write_text(config)
    host.stoker("up", check=False)


def refused(host: ServerHost, *words: str) -> str:
    done = host.stoker(*words, check=False)
    assert done.returncode == 2, host.told(done)
    assert done.stderr.count(b"\n") <= 2
    return done.stderr.decode()


def test_a_cluster_is_upgraded_server_by_server_and_then_as_a_whole(
    servers: list[ServerHost],
) -> None:
    first = servers[0]
    assert levels(first) == {host.name: (OLD, OLD) for host in servers}
    said = first.stoker("cluster", "status").stdout.decode()
    assert f"level    {OLD}, the newest that these servers support" in said
    job = first.stoker("submit", "--", "sh", "-c", "sleep 1000000").stdout.decode().split()[0]
    wait_until(lambda: job_of(first, job)["state"] == "running", "the job runs")
    began = job_of(first, job)

    for done, host in enumerate(servers):
        asks_in_vain(servers, done)
        restart(host, "")
        wait_until(lambda: in_step(servers), f"{host.name} is back", PATIENCE_S)
        if done == 0:  # until the raise there is a way back
            restart(host, PIN)
            wait_until(lambda: in_step(servers), "the older one is back", PATIENCE_S)
            restart(host, "")
            wait_until(lambda: in_step(servers), "the newer one is back", PATIENCE_S)
    assert levels(first) == {host.name: (OLD, NEW) for host in servers}
    line = f"level    {OLD}; all servers support {NEW}: stoker cluster upgrade"
    assert line in first.stoker("cluster", "status").stdout.decode()
    large_is_refused(servers[1])

    def raised() -> bool:  # the leader may have heard of the older build within the last 2 s
        return b"done" in servers[2].stoker("cluster", "upgrade", check=False).stdout

    wait_until(raised, "the level is raised", PATIENCE_S)
    assert b"nothing to change" in first.stoker("cluster", "upgrade").stdout
    wait_until(lambda: in_step(servers), "all have read it", PATIENCE_S)
    assert status(first)["level"] == NEW
    told = first.stoker("audit", "show").stdout.decode()
    assert "cluster.upgrade" in told
    assert servers[1].stoker(*LARGE).returncode == 0
    now = job_of(first, job)
    assert (now["attempt"], now["times"]) == (1, began["times"]), "nothing restarted it"
    first.stoker("cancel", "all")


def levels(host: ServerHost) -> dict[str, tuple[int, int]]:
    rows = status(host)["servers"]
    return {row["server"]: (row["oldest"], row["newest"]) for row in rows}


def job_of(host: ServerHost, job: str) -> dict[str, Any]:
    """The job as the leader has it; there is one job until a large array is taken."""
    found = host.stoker("jobs", "--all", "-o", "json", "--status", "running").stdout
    rows = json.loads(found)["jobs"]
    return next((row for row in rows if str(row["job"]) == job), {"state": ""})


def asks_in_vain(servers: list[ServerHost], done: int) -> None:
    """Nothing is raised and nothing new is taken while one server is of the older version."""
    large_is_refused(servers[done])
    if done:
        lacks = [f"{host.name} supports {OLD}, not {NEW}: upgrade it" for host in servers[done:]]

        def is_named() -> bool:  # one that has just started pledges after 2 s, and says it then
            said = refused(servers[0], "cluster", "upgrade")
            return any(each in said for each in lacks) and "counts for 2 s" in said

        wait_until(is_named, "the server that lags is named", PATIENCE_S)


def large_is_refused(host: ServerHost) -> None:
    said = refused(host, *LARGE)
    assert f"at most {MOST[1]} at feature level {OLD}" in said
    assert "stoker cluster upgrade" in said


def test_an_older_version_that_returns_halts_in_one_line_and_the_others_go_on(
    servers: list[ServerHost],
) -> None:
    """The test before has raised the level."""
    first, back = servers[0], servers[2]
    restart(back, PIN)
    wait_until(lambda: NEEDS in scheduler_log(back), "it says what it needs", PATIENCE_S)
    wait_until(lambda: NEEDS in doctor_says(back), "doctor tells why it does not run", PATIENCE_S)
    assert supervisor_log(back).count("more and more rarely") <= 1, "it is told once at most"
    row = next(row for row in status(first)["servers"] if row["server"] == back.name)
    assert row["halted"] or "`stoker doctor` on it tells more" in row["because"]
    assert first.stoker("run", "--", "echo", "on").stdout == b"on\n"
    first.stoker("cluster", "remove", back.name)
    said = refused(first, "cluster", "admit", back.name)
    assert "does not answer the leader" in said and "`stoker doctor` on its host" in said
    restart(back, "")
    wait_until(lambda: is_admitted(first, back), "the newer one is admitted", PATIENCE_S)
    wait_until(lambda: in_step(servers), "it goes on where it was", PATIENCE_S)


NEEDS = f"and this scheduler supports {OLD}: take upgrade.newest_level out of its config.toml"


def is_admitted(host: ServerHost, other: ServerHost) -> bool:
    return host.stoker("cluster", "admit", other.name, check=False).returncode == 0


def doctor_says(host: ServerHost) -> str:
    """Return what doctor tells of the scheduler there; nothing while it has just started again."""
    found = json.loads(host.stoker("doctor", "-o", "json", check=False).stdout)["checks"]
    return "".join(each["text"] for each in found if each["id"] == "scheduler.state")


def supervisor_log(host: ServerHost) -> str:
    return (host.state.log / "supervisor.log").read_text()


def scheduler_log(host: ServerHost) -> str:
    return (host.state.log / "scheduler.log").read_text()
