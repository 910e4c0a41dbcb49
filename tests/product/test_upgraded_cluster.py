# SPDX-License-Identifier: Apache-2.0
"""Three servers are upgraded one by one while a job runs, and then their feature level is raised.

The hosts are network namespaces. A server of the older version is one that its operator has pinned
to the older level (`upgrade.newest_level`): it takes part in nothing beyond it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from fakes.server_life import (
    found_servers,
    in_step,
    levels,
    log_of,
    raise_level,
    restart,
    running,
    status,
)
from fakes.three_hosts import ServerHost, three_hosts
from product_node import PATIENCE_S, wait_until

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
        found_servers(hosts, PIN)
        yield hosts


def restart_with(host: ServerHost, config: str) -> None:
    """Restart stoker on a host as the version that its configuration says."""
    (host.root / "config.toml").write_text(config)
    restart(host)


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
    wait_until(lambda: running(first, job)["state"] == "running", "the job runs")
    began = running(first, job)

    for done, host in enumerate(servers):
        asks_in_vain(servers, done)
        restart_with(host, "")
        wait_until(lambda: in_step(servers), f"{host.name} is back", PATIENCE_S)
        if done == 0:  # until the raise there is a way back
            restart_with(host, PIN)
            wait_until(lambda: in_step(servers), "the older one is back", PATIENCE_S)
            restart_with(host, "")
            wait_until(lambda: in_step(servers), "the newer one is back", PATIENCE_S)
    assert levels(first) == {host.name: (OLD, NEW) for host in servers}
    line = f"level    {OLD}; all servers support {NEW}: stoker cluster upgrade"
    assert line in first.stoker("cluster", "status").stdout.decode()
    large_is_refused(servers[1])

    raise_level(servers)
    assert b"nothing to change" in first.stoker("cluster", "upgrade").stdout
    assert status(first)["level"] == NEW
    told = first.stoker("audit", "show").stdout.decode()
    assert "cluster.upgrade" in told
    assert servers[1].stoker(*LARGE).returncode == 0
    now = running(first, job)
    assert (now["attempt"], now["times"]) == (1, began["times"]), "nothing restarted it"
    first.stoker("cancel", "all")


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
    restart_with(back, PIN)
    wait_until(lambda: NEEDS in log_of(back, "scheduler"), "it says what it needs", PATIENCE_S)
    wait_until(lambda: NEEDS in doctor_says(back), "doctor tells why it does not run", PATIENCE_S)
    assert log_of(back, "supervisor").count("more and more rarely") <= 1, "it is told once at most"
    row = next(row for row in status(first)["servers"] if row["server"] == back.name)
    assert row["halted"] or "`stoker doctor` on it tells more" in row["because"]
    assert first.stoker("run", "--", "echo", "on").stdout == b"on\n"
    first.stoker("cluster", "remove", back.name)
    said = refused(first, "cluster", "admit", back.name)
    assert "does not answer the leader" in said and "`stoker doctor` on its host" in said
    restart_with(back, "")
    wait_until(lambda: is_admitted(first, back), "the newer one is admitted", PATIENCE_S)
    wait_until(lambda: in_step(servers), "it goes on where it was", PATIENCE_S)


NEEDS = f"and this scheduler supports {OLD}: take upgrade.newest_level out of its config.toml"


def is_admitted(host: ServerHost, other: ServerHost) -> bool:
    return host.stoker("cluster", "admit", other.name, check=False).returncode == 0


def doctor_says(host: ServerHost) -> str:
    """Return what doctor tells of the scheduler there; nothing while it has just started again."""
    found = json.loads(host.stoker("doctor", "-o", "json", check=False).stdout)["checks"]
    return "".join(each["text"] for each in found if each["id"] == "scheduler.state")
