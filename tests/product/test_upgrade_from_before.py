# SPDX-License-Identifier: Apache-2.0
"""Three servers of an earlier build are upgraded to this one while jobs run; no level is pinned.

`make upgrade-check` builds the earlier one below build/before and names its program here in
STOKER_BEFORE; without it these tests skip. The hosts are network namespaces.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

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
from product_node import PATIENCE_S, STOKER, wait_until

from stoker.mesh.log.feature_level import BUILD

BEFORE = os.environ.get("STOKER_BEFORE", "")
NODE = "before"
WHY = "STOKER_BEFORE does not name the program of an earlier build: make upgrade-check"
pytestmark = [
    pytest.mark.needs_root,
    pytest.mark.slow,
    pytest.mark.skipif(not BEFORE, reason=WHY),
]


@pytest.fixture(scope="module")
def hosts() -> Iterator[list[ServerHost]]:
    """Three servers of the earlier build, founded and in step, and a node that keeps it."""
    with three_hosts(NODE) as hosts:
        for host in hosts:
            host.program = BEFORE
        *servers, node = hosts
        found_servers(servers)
        token = servers[0].stoker("cluster", "token").stdout
        node.stoker("cluster", "join", "--name", NODE, stdin=token)
        node.stoker("up", "--label", f"build={NODE}")
        wait_until(lambda: status(servers[0])["nodes"].get(NODE) == "ready", "the node is ready")
        yield hosts


@pytest.fixture(scope="module")
def servers(hosts: list[ServerHost]) -> list[ServerHost]:
    return hosts[:3]


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place of a backup that the earlier build writes."""
    return tmp_path_factory.mktemp("upgrade") / "before.backup"


def runs_on_the_node(server: ServerHost) -> bool:
    """A job from this server runs on the node of the earlier build and its output comes back."""
    said = server.stoker("run", "--constraint", f"build={NODE}", "--", "echo", "there")
    return said.stdout == b"there\n"


def submit(host: ServerHost, *words: str) -> str:
    said: bytes = host.stoker("submit", *words).stdout
    return said.decode().split()[0].rstrip(":")


def becomes(host: ServerHost, program: str, servers: list[ServerHost]) -> None:
    """Restart a server as another build, and prove that the cluster decides with it."""
    host.program = program
    restart(host)
    wait_until(lambda: in_step(servers), f"{host.name} is in step", PATIENCE_S)
    assert host.stoker("run", "--", "echo", host.name).stdout.decode() == f"{host.name}\n"


def test_servers_of_an_earlier_build_are_upgraded_while_jobs_run(
    servers: list[ServerHost], backup: Path
) -> None:
    first = servers[0]
    old = levels(first)[first.name][1]
    assert old < BUILD.newest, "the earlier build has an older feature level"
    job = submit(first, "--", "sh", "-c", "sleep 1000000")
    wait_until(lambda: running(first, job)["state"] == "running", "the job runs")
    began = running(first, job)
    array = submit(first, "--cpus", "1", "--array", "0-39", "--", "true")
    first.stoker("cluster", "backup", str(backup))

    for done, host in enumerate(servers):
        becomes(host, STOKER, servers)
        if done == 0:  # until the raise there is a way back, and it reads what the newer one wrote
            becomes(host, BEFORE, servers)
            becomes(host, STOKER, servers)
    assert levels(first) == {host.name: (1, BUILD.newest) for host in servers}
    assert status(first)["level"] == old, "nothing is raised by itself"
    assert runs_on_the_node(servers[1])
    first.stoker("wait", array)
    raise_level(servers)
    assert status(first)["level"] == BUILD.newest
    assert runs_on_the_node(servers[1]), "what schedulers and nodes send each other is as before"
    now = running(first, job)
    assert (now["attempt"], now["times"]) == (1, began["times"]), "nothing restarted it"
    assert first.stoker("audit", "verify").returncode == 0
    rows = json.loads(first.stoker("jobs", "--all", "-o", "json").stdout)["jobs"]
    ended = [row for row in rows if row["state"] != "running"]
    assert {row["state"] for row in ended} == {"succeeded"}
    assert {row["attempt"] for row in ended} == {1}, "no job ran twice"


def test_the_earlier_build_halts_after_the_raise_and_comes_back_as_this_one(
    servers: list[ServerHost],
) -> None:
    """The test before has raised the level."""
    first, back = servers[0], servers[2]
    needs = f"this scheduler supports 1-{BUILD.newest - 1}"
    back.program = BEFORE
    restart(back)
    wait_until(lambda: needs in log_of(back, "scheduler"), "it says what it needs", PATIENCE_S)
    assert first.stoker("run", "--", "echo", "on").stdout == b"on\n"
    becomes(back, STOKER, servers)
    assert status(first)["level"] == BUILD.newest


def test_a_backup_of_the_earlier_build_is_restored_with_its_level(
    hosts: list[ServerHost], backup: Path, tmp_path: Path
) -> None:
    """The tests before have written it, and their cluster ends here, its node as well."""
    for host in hosts:
        host.stoker("down")
    back = ServerHost("first", 1, tmp_path)
    back.stoker("cluster", "restore", str(backup), "--name", back.name)
    back.stoker("up")
    try:
        assert back.stoker("run", "--", "echo", "restored").stdout == b"restored\n"
        old = status(back)["level"]
        assert old < BUILD.newest, "a restored cluster has the level of its backup"
        back.stoker("cluster", "upgrade")
        assert status(back)["level"] == BUILD.newest
        assert back.stoker("run", "--", "echo", "raised").stdout == b"raised\n"
    finally:
        back.stoker("down")
