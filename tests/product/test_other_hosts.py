# SPDX-License-Identifier: Apache-2.0
"""A node whose broker takes other hosts: made by `cluster init`, reached from a host of its own,
which then joins it and runs jobs.

The other host is a network namespace that a pair of virtual interfaces joins to this one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.other_host import OtherHost
from fakes.other_host import other_host as made
from fakes.small_disk import empty, fill
from product_node import PATIENCE_S, STOKER, LiveNode, live_node, wait_until

from stoker.agent.state import gossip_files
from stoker.agent.state.gossip_files import SERF
from stoker.agent.supervise import pids
from stoker.agent.supervise.process_table import ORDER
from stoker.mesh.connection.context import SavedContext

pytestmark = pytest.mark.needs_root
HERE, THERE = "10.213.77.1", "10.213.77.2"
DISK_BYTES = 64 << 20
"""The disk of the host that joins, on which a test leaves no room."""
MANY = tuple(range(64))


@pytest.fixture(scope="module")
def other_host() -> Iterator[OtherHost]:
    with made(HERE, THERE) as host:
        yield host


@pytest.fixture(scope="module")
def node(other_host: OtherHost) -> Iterator[LiveNode]:
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
    assert "first" in [each["node"] for each in listed["nodes"]]  # type: ignore[attr-defined]


def test_a_user_of_another_host_runs_a_job(
    node: LiveNode, other_host: OtherHost, tmp_path: Path
) -> None:
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
        ["ip", "netns", "exec", other_host.name, STOKER, "run", "--", "id", "-un"],
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


# --- a host that joins ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def token(node: LiveNode) -> bytes:
    return node.stoker("cluster", "token", "--expires", "30m").stdout


@pytest.fixture(scope="module")
def second(node: LiveNode, other_host: OtherHost, token: bytes) -> Iterator[LiveNode]:
    """The node that the other host becomes, with the name that the first one has already."""
    there = ("--label", "place=there")
    with other_host.joined(token, "first", *there, disk_bytes=DISK_BYTES) as joined:
        assert joined.state.cluster.read_bytes().count(b'"first-2"') == 1
        yield joined


def place(node: LiveNode, job: int) -> str:
    """Return the node of a job; empty if it has none."""
    decision = node.ask(lambda client: client.get(job)).decision
    return decision.node if decision else ""


def states(node: LiveNode) -> dict[str, str]:
    rows: Any = node.json("nodes")["nodes"]
    return {row["node"]: row["state"] for row in rows}


def test_a_host_that_joined_is_a_node_without_a_scheduler(node: LiveNode, second: LiveNode) -> None:
    gossip = {SERF} if gossip_files.program() else set()
    alone = {"spawner", "watchdog", "agent"}
    assert set(pids.find(second.state)) == {pids.SUPERVISOR, *alone, *gossip}
    assert set(pids.find(node.state)) == {pids.SUPERVISOR, *ORDER, "registrar", *gossip}
    assert {path.name for path in second.state.keys.iterdir()} == {
        *("agent.nk", "broker.crt", "gossip.json")
    }
    assert states(node).keys() == {"first", "first-2"}


def test_a_second_use_of_its_token_is_refused_with_one_line(
    node: LiveNode, second: LiveNode, other_host: OtherHost, token: bytes, tmp_path: Path
) -> None:
    state = tmp_path / "other"
    done = other_host.stoker("cluster", "join", "--state", str(state), "-", stdin=token)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert b"node first-2 has joined with this token" in done.stderr
    assert not state.exists()
    log = (node.state.log / "registrar.log").read_text()
    assert '"result": "used"' in log
    for path in (*node.state.log.iterdir(), *second.state.log.iterdir()):
        assert token.strip() not in path.read_bytes(), path


def test_both_hosts_run_jobs_and_the_other_ones_is_traced(
    node: LiveNode, second: LiveNode, public_folder: Path
) -> None:
    program = public_folder / "launches"
    source = Path(__file__).with_name("launches.c")
    subprocess.run(["gcc", "-O2", "-o", program, source, "-lOpenCL"], check=True)
    wait_until(lambda: states(node)["first-2"] == "ready", "its readings arrive", PATIENCE_S)
    near = node.run("echo", "here", avoid=("place=there",))
    assert near.decision and near.decision.node == "first"
    assert node.output(near.job) == b"here\n"
    job = node.submit(str(program), "40", "20", gpu_milli=1000, require=("place=there",))
    far = node.wait(job, trace=True)
    assert far.state == "succeeded", (far.state, far.reason)
    assert far.decision and far.decision.node == "first-2"
    assert far.trace is not None, far.trace_absent
    counts = {row["name"]: row["count"] for row in far.trace["kernels"]}
    assert counts == {"grind": 40, "touch": 20}
    said = {line.split()[0]: int(line.split()[1]) for line in node.output(job).splitlines()[:2]}
    assert said == {b"grind": 40, b"touch": 20}


def test_a_node_with_a_full_disk_takes_jobs_again_once_there_is_room(
    node: LiveNode, second: LiveNode, public_folder: Path
) -> None:
    wait_until(lambda: states(node)["first-2"] == "ready", "it is ready", PATIENCE_S)
    go = f"while [ ! -e {public_folder}/go ]; do sleep 0.05; done"
    runs = node.submit("/bin/sh", "-c", go, require=("place=there",))
    node.wait(runs, "running")
    fill(second.root.parent)
    wait_until(lambda: states(node)["first-2"] == "drained", "it takes no jobs", PATIENCE_S)

    places = [node.run("true").decision for _ in range(3)]
    assert [each.node for each in places if each] == ["first"] * 3
    waits = node.submit("true", require=("place=there",))
    told = node.explained(waits)
    place = f"{second.state.agent}/jobs"
    short = f"MiB are free at {place}, fewer than 3.2 MiB: make room until 6.4 MiB are free"
    assert "first-2 takes none now: " in told and short in told, told
    assert "mend that, and first-2 takes jobs again" in told, told
    assert short in " ".join(node.stoker("node", "first-2").stdout.decode().split())
    status = node.stoker("cluster", "status", check=False).stdout.decode()
    assert f"first-2 takes no new jobs: 0.0 {short}" in " ".join(status.split())
    events = node.stoker("events", "-o", "wide").stdout.decode()
    assert "takes no jobs: 0.0 MiB are free" in events, events

    assert node.ask(lambda client: client.get(runs)).state == "running"
    empty(second.root.parent)
    assert node.wait(waits).state == "succeeded"
    assert node.explained(waits).count("first-2")
    (public_folder / "go").touch()
    assert node.wait(runs).state == "succeeded", "what ran there went on"


def test_jobs_whose_disk_fills_before_their_launch_run_elsewhere(
    node: LiveNode, second: LiveNode, public_folder: Path
) -> None:
    """They are placed on a node that does not know yet that its disk is full. Each may run once
    only, and does, on the other one. So many have no room in the last page of a file."""
    wait_until(lambda: states(node)["first-2"] == "ready", "it is ready", PATIENCE_S)
    ran = public_folder / "ran"
    node.stoker("node", "drain", "first")
    agent = pids.find(second.state)["agent"].pid
    os.kill(agent, signal.SIGSTOP)
    try:
        fill(second.root.parent)
        first = node.submit("/bin/sh", "-c", f"echo $STOKER_JOB_ID >> {ran}", array=MANY)
        jobs = range(first, first + len(MANY))
        wait_until(lambda: place(node, jobs[-1]) == "first-2", "they are placed there", PATIENCE_S)
    finally:
        os.kill(agent, signal.SIGCONT)
    node.stoker("node", "undrain", "first")
    views = [node.wait(job) for job in jobs]
    assert {view.state for view in views} == {"succeeded"}, [view.reason for view in views]
    moved = [view for view in views if view.attempt > 1]
    assert moved, "some were not launched"
    for view in moved:
        assert view.decision and view.decision.node == "first"
        (before,) = view.attempts
        assert (before.node, before.state, before.started_ns) == ("first-2", "cancelled", None)
        assert before.reason.startswith("it could not be launched on node first-2: ")
        assert "No space left on device" in before.reason
    counts = Counter(map(int, ran.read_text().split()))
    assert counts == Counter(jobs), "each ran once"
    told = " ".join(node.stoker("job", str(moved[0].job)).stdout.decode().split())
    assert "it could not be launched on node first-2" in told, told
    empty(second.root.parent)


@pytest.mark.soak
def test_a_gang_of_which_one_rank_cannot_be_launched_runs_later_as_a_whole(
    node: LiveNode, second: LiveNode, public_folder: Path
) -> None:
    """The folder of traces is not there when the shim of one rank wants it. A new agent begins
    without the rest that a node takes after a launch that failed."""
    second.wait_for_new("agent", second.kill("agent"))
    wait_until(lambda: states(node)["first-2"] == "ready", "it is ready", PATIENCE_S)
    ran, shm = public_folder / "gang", second.state.shm
    aside = shm.with_name(f"{shm.name}-aside")
    shm.rename(aside)
    try:
        job = node.submit("/bin/sh", "-c", f"echo $STOKER_ATTEMPT >> {ran}", nodes=2)
        wait_until(lambda: node.ask(lambda c: c.get(job)).attempts != (), "it is back", PATIENCE_S)
    finally:
        aside.rename(shm)
    (before,) = node.ask(lambda client: client.get(job)).attempts
    assert before.state == "cancelled" and not ran.exists(), "no rank has run"
    assert "on node first-2: it could not be launched on node first-2: cannot make" in before.reason
    second.wait_for_new("agent", second.kill("agent"))
    ended = node.wait(job)
    assert (ended.state, ended.attempt) == ("succeeded", 2), ended.reason
    assert ran.read_text().split() == ["2", "2"]


def test_a_node_that_joined_comes_back_after_a_kill_and_shows_when_it_is_gone(
    node: LiveNode, second: LiveNode, other_host: OtherHost
) -> None:
    second.wait_for_new("agent", second.kill("agent"))
    again = node.run("echo", "again", require=("place=there",))
    assert node.output(again.job) == b"again\n"
    state = ("--state", str(second.root))
    assert other_host.stoker("down", *state).returncode == 0
    wait_until(lambda: states(node)["first-2"] == "silent", "its silence shows", PATIENCE_S)
    assert other_host.stoker("up", *state).returncode == 0
    wait_until(lambda: states(node)["first-2"] == "ready", "it is back", PATIENCE_S)


def test_a_node_that_was_alone_goes_on_with_its_log(other_host: OtherHost) -> None:
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
