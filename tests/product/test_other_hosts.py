# SPDX-License-Identifier: Apache-2.0
"""A node whose broker takes other hosts: made by `cluster init`, reached from a host of its own.

The other host is a network namespace that a pair of virtual interfaces joins to this one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from product_node import STOKER, LiveNode, live_node, wait_until

from stoker.agent.supervise import pids
from stoker.mesh.connection.context import SavedContext

pytestmark = pytest.mark.needs_root
HERE, THERE = "10.213.77.1", "10.213.77.2"


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


@pytest.fixture(scope="module")
def other_host() -> Iterator[str]:
    """The name of a network namespace that reaches this host at HERE."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    name, near, far = (f"{part}{os.getpid()}" for part in ("stoker-", "sta", "stb"))
    ip("netns", "add", name)
    try:
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        ip("address", "add", f"{HERE}/30", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", name, "address", "add", f"{THERE}/30", "dev", far)
        ip("-n", name, "link", "set", far, "up")
        yield name
    finally:
        ip("netns", "delete", name)  # its interface ends, and with it the near one


@pytest.fixture(scope="module")
def node(other_host: str) -> Iterator[LiveNode]:
    def prepare(made: LiveNode) -> None:
        said = made.stoker("cluster", "init", "--address", HERE, "--name", "first").stdout.decode()
        assert f"other hosts reach it at tls://{HERE}:" in said

    with live_node(prepare=prepare) as live:
        yield live


def port(node: LiveNode) -> int:
    return int(json.loads(node.state.cluster.read_bytes())["port"])


def test_its_own_users_run_jobs(node: LiveNode) -> None:
    assert node.stoker("run", "--", "echo", "near").stdout == b"near\n"
    listed = node.json("nodes")
    assert [each["node"] for each in listed["nodes"]] == ["first"]  # type: ignore[attr-defined]


def test_a_user_of_another_host_runs_a_job(node: LiveNode, other_host: str, tmp_path: Path) -> None:
    key = tmp_path / "far.nk"
    node.stoker("user", "add", "far", "--unix-user", "daemon", "--key-out", str(key))
    os.chown(key, 0, 0)  # root plays the user of the other host
    pinned = tmp_path / "broker.crt"
    pinned.write_bytes(node.state.broker_certificate.read_bytes())
    pinned.chmod(0o644)
    context = tmp_path / "stoker/context.json"
    context.parent.mkdir()
    url = f"tls://{HERE}:{port(node)}"
    saved = SavedContext(url, str(key), "far", certificate_file=str(pinned))
    context.write_text(json.dumps({name: getattr(saved, name) for name in saved.__struct_fields__}))
    variables = {k: v for k, v in os.environ.items() if k != "STOKER_STATE"}
    done = subprocess.run(
        ["ip", "netns", "exec", other_host, STOKER, "run", "--", "id", "-un"],
        env=variables | {"XDG_CONFIG_HOME": str(tmp_path)},
        cwd="/", capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"daemon\n"), done.stderr


def test_nobody_is_greeted_without_tls(node: LiveNode) -> None:
    """The broker waits for TLS and closes: a key that is shown in the clear is never asked for."""
    with socket.create_connection((HERE, port(node)), 30) as plain:
        plain.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
        heard = b""
        try:
            while piece := plain.recv(4096):
                heard += piece
        except ConnectionResetError:
            pass
    assert b"INFO" not in heard
    assert b"nonce" not in heard


def test_it_listens_at_the_named_address_alone(node: LiveNode) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port(node)), 30)


def test_a_broker_that_died_returns_at_the_same_place(node: LiveNode) -> None:
    before = port(node)
    old = node.kill("nats-server")
    node.wait_for_new("nats-server", old)
    wait_until(lambda: pids.find(node.state)["nats-server"].ready, "the broker serves", 60)
    assert node.stoker("run", "--", "echo", "again").stdout == b"again\n"
    assert port(node) == before


def test_up_keeps_the_port_that_other_hosts_know(node: LiveNode) -> None:
    said = node.stoker("cluster", "init", check=False)
    assert said.returncode == 2
    assert b"a node runs in" in said.stderr and said.stderr.count(b"\n") == 1


def test_a_node_that_was_alone_goes_on_with_its_log(other_host: str) -> None:
    with live_node() as live:
        job = live.run("echo", "before").job
        live.stoker("down")
        live.stoker("cluster", "init", "--address", HERE)
        moved = live.stoker("up", "--port", "21999", check=False)
        assert moved.returncode == 2 and b"other hosts reach the broker" in moved.stderr
        live.stoker("up")
        assert live.state.cluster.read_bytes().count(HERE.encode()) == 1
        assert live.output(job) == b"before\n"
        assert live.output(live.run("echo", "after").job) == b"after\n"
        live.stoker("down")
        assert b"takes this host alone" in live.stoker("cluster", "init").stdout
        live.stoker("up")
        assert live.output(job) == b"before\n"
