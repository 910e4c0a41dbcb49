# SPDX-License-Identifier: Apache-2.0
"""Keys are taken back while the cluster runs: a node's, a removed node's and a user's; others go
on, and the same host joins again. A stolen key that floods is cut off until then."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import nats.errors
import pytest
from fakes.other_host import OtherHost, first_node
from fakes.other_host import other_host as made
from product_node import PATIENCE_S, STOKER, LiveNode, wait_until

from stoker.agent.state import state_folder
from stoker.agent.state.gossip_files import SERF
from stoker.agent.state.lease import Lease
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import pids
from stoker.mesh.connection.context import SavedContext
from stoker.mesh.identity import certificate
from stoker.mesh.replica.works.fence import FENCE_TAINT
from stoker.mesh.wire import subjects

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
HERE, THERE = "10.213.79.1", "10.213.79.2"


@pytest.fixture(scope="module")
def other_host() -> Iterator[OtherHost]:
    with made(HERE, THERE) as host:
        yield host


@pytest.fixture(scope="module")
def node(other_host: OtherHost) -> Iterator[LiveNode]:
    with first_node(HERE) as live:
        yield live


@pytest.fixture(autouse=True)
def leaves_no_node(node: LiveNode) -> Iterator[None]:
    """A test that fails leaves no node behind that the next one would want to join as."""
    yield
    if "second" in states(node):
        node.stoker("node", "remove", "second", "--force", "--reason", "its test is over")


def token(node: LiveNode) -> bytes:
    return node.stoker("cluster", "token").stdout


def keys(node: LiveNode) -> dict[tuple[str, str], dict[str, Any]]:
    """The newest row of each kind and name."""
    rows: Any = node.json("cluster", "keys")["keys"]
    return {(row["kind"], row["name"]): row for row in reversed(rows)}


def states(node: LiveNode) -> dict[str, str]:
    rows: Any = node.json("nodes")["nodes"]
    return {row["node"]: row["state"] for row in rows}


def until_ready(node: LiveNode, name: str) -> None:
    wait_until(lambda: states(node).get(name) == "ready", f"{name} is ready", PATIENCE_S)


def events(node: LiveNode, what: str) -> list[str]:
    lines = node.stoker("events", "--since", "10m").stdout.decode().splitlines()
    return [line for line in lines if what in line]


def freezes(node: LiveNode) -> int:
    with Lease.open(node.state.run / "lease") as lease:
        return lease.freezes


def processes(node: LiveNode) -> dict[str, int]:
    """The processes without the Serf agent, which starts again with each change of its keys."""
    found = pids.find(node.state).items()
    return {name: process.pid for name, process in found if name != SERF}


def test_a_revoked_node_is_cut_off_and_its_jobs_follow_their_lease(
    node: LiveNode, other_host: OtherHost, public_folder: Path
) -> None:
    """In a cluster of two nodes an operator's word gives the lost one up; it joins again then."""
    waits = ("sh", "-c", f"while [ ! -e {public_folder}/go ]; do sleep 0.1; done")
    with other_host.joined(token(node), "second", "--label", "place=there") as second:
        until_ready(node, "second")
        near = node.submit(*waits, avoid=("place=there",), tolerate=(FENCE_TAINT,))
        far = node.submit(*waits, require=("place=there",), tolerate=(FENCE_TAINT,))
        for job in (near, far):
            assert node.wait(job, "running").state == "running"
        before, frozen = processes(node), freezes(second)
        wait_until(lambda: keys(node)["node", "second"]["seen_ns"], "it was heard", PATIENCE_S)
        was = keys(node)["node", "second"]
        assert was["state"] == "in force" and was["since_ns"]

        said = node.stoker("cluster", "revoke", "second", "--reason", "stolen").stdout
        assert said.splitlines() == [
            b"the key of node second is revoked: its connections are cut",
            b"next, to give its jobs up:",
            b"  stoker node remove second --force",
        ]
        row = keys(node)["node", "second"]
        assert (row["state"], row["why"], row["key"]) == ("revoked", "stolen", was["key"])
        wait_until(lambda: freezes(second) > frozen, "its jobs are frozen", PATIENCE_S)
        wait_until(lambda: states(node)["second"] == "silent", "it is silent", PATIENCE_S)
        refused = "the revoked key of node second was refused"
        wait_until(lambda: bool(events(node, refused)), "the refusal is told", PATIENCE_S)
        told = events(node, refused)[0]
        assert "key.refused" in told and THERE in told
        assert processes(node) == before, "nobody was restarted for it"
        assert node.wait(near, "running").state == "running"
        assert node.output(node.run("echo", "here", tolerate=(FENCE_TAINT,)).job) == b"here\n"
        assert node.stoker("logs", str(far), check=False).returncode != 0

        early = node.stoker("node", "remove", "second", check=False)
        assert early.returncode != 0 and f"has job {far}".encode() in early.stderr
        assert (
            b"removal of node second: done"
            in node.stoker("node", "remove", "second", "--force", "--reason", "stolen").stdout
        )
    assert set(states(node)) == {"first"}
    ended = node.wait(far)
    assert ended.state == "lost" and "stolen, by root" in ended.reason
    assert b"second" in node.stoker("explain", str(far)).stdout
    output = node.stoker("logs", str(far), check=False)
    assert b"node second was removed from the cluster" in output.stderr
    (public_folder / "go").touch()
    assert node.wait(near).state == "succeeded"

    with other_host.joined(token(node), "second", "--label", "place=there"):
        until_ready(node, "second")
        again = node.run("echo", "again", require=("place=there",))
        assert node.output(again.job) == b"again\n"
        assert keys(node)["node", "second"]["state"] == "in force"
        output = node.stoker("logs", str(far), check=False)
        assert b"was removed" in output.stderr, "the new host of this name is not asked"
        node.stoker("node", "drain", "second")
        node.stoker("node", "remove", "second")


def test_a_node_gets_another_key_while_its_job_runs(
    node: LiveNode, other_host: OtherHost, public_folder: Path
) -> None:
    waits = ("sh", "-c", f"while [ ! -e {public_folder}/turned ]; do sleep 0.1; done")
    with other_host.joined(token(node), "second", "--label", "place=there") as second:
        until_ready(node, "second")
        job = node.submit(*waits, require=("place=there",), tolerate=(FENCE_TAINT,))
        assert node.wait(job, "running").state == "running"
        before, frozen = keys(node)["node", "second"]["key"], freezes(second)
        there, here = processes(second), processes(node)
        log, conf = second.state.log / "agent.log", node.state.nats / "nats-server.conf"
        connected = log.read_text().count('"connected"')
        for _ in range(2):
            done = other_host.stoker("cluster", "rotate", "--state", str(second.root))
            assert done.returncode == 0, done.stderr
            now = keys(node)["node", "second"]
            assert now["state"] == "in force" and now["key"].encode() in done.stdout
            wait_until(lambda old=before: old not in conf.read_text(), "it is given up", PATIENCE_S)  # type: ignore[misc]
            assert now["key"] != before
            before = now["key"]
        wait_until(
            lambda: log.read_text().count('"connected"') >= 3 * connected, "it is back", PATIENCE_S
        )
        until_ready(node, "second")
        assert freezes(second) == frozen, "its lease was renewed all the time"
        assert (processes(second), processes(node)) == (there, here), "nobody was restarted"
        (public_folder / "turned").touch()
        assert node.wait(job).state == "succeeded"
        assert {path.name for path in second.state.keys.iterdir()} == {
            *("agent.nk", "broker.crt", "gossip.json")
        }
        again = node.run("echo", "again", require=("place=there",), tolerate=(FENCE_TAINT,))
        assert node.output(again.job) == b"again\n"
        rows: Any = node.json("cluster", "keys")["keys"]
        reasons = [row["why"] for row in rows if row["state"] == "revoked"]
        assert reasons.count("the node has another key since") == 2
        node.stoker("node", "drain", "second")
        node.stoker("node", "remove", "second")
    refused = node.stoker("cluster", "rotate", check=False)
    assert refused.returncode != 0 and b"the only server" in refused.stderr


def test_the_key_of_a_removed_node_is_taken_back_by_itself(
    node: LiveNode, other_host: OtherHost, tmp_path: Path
) -> None:
    used = token(node)
    with other_host.joined(used, "third") as third:
        until_ready(node, "third")
        key = keys(node)["node", "third"]["key"]
        node.stoker("node", "drain", "third")
        node.stoker("node", "remove", "third", "--reason", "sold")
        wait_until(
            lambda: keys(node)["node", "third"]["state"] == "revoked", "it is revoked", PATIENCE_S
        )
        row = keys(node)["node", "third"]
        assert (row["key"], row["why"]) == (key, "removed: sold, by root")
        log = third.state.log / "agent.log"
        wait_until(
            lambda: "Authorization Violation" in log.read_text(), "it is refused", PATIENCE_S
        )
        assert key not in (node.state.nats / "nats-server.conf").read_text()
        again = other_host.stoker("cluster", "join", "--state", str(tmp_path / "again"), stdin=used)
        assert again.returncode != 0 and b"did not make this token" in again.stderr
    assert "third" not in states(node)


def test_a_revoked_user_reads_one_clear_line_and_their_job_goes_on(
    node: LiveNode, tmp_path: Path, public_folder: Path
) -> None:
    key, pinned = tmp_path / "far.nk", tmp_path / "broker.crt"
    node.stoker("user", "add", "far", "--unix-user", "daemon", "--key-out", str(key))
    os.chown(key, 0, 0)
    pinned.write_bytes(node.state.broker_certificate.read_bytes())
    context = tmp_path / "stoker/context.json"
    context.parent.mkdir()
    port = json.loads(node.state.cluster.read_bytes())["port"]
    saved = SavedContext(f"tls://{HERE}:{port}", str(key), "far", certificate_file=str(pinned))
    context.write_text(json.dumps({name: getattr(saved, name) for name in saved.__struct_fields__}))
    variables = {k: v for k, v in os.environ.items() if k != "STOKER_STATE"}

    def far(*words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [STOKER, *words], env=variables | {"XDG_CONFIG_HOME": str(tmp_path)},
            cwd="/", capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip

    script = f"while [ ! -e {public_folder}/left ]; do sleep 0.1; done; echo done"
    done = far("submit", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    job = int(done.stdout)
    assert node.wait(job, "running").state == "running"
    before = processes(node)
    assert b"user far is revoked" in node.stoker("cluster", "revoke", "far").stdout
    refused = far("jobs")
    assert refused.returncode != 0 and refused.stdout == b""
    line = refused.stderr.splitlines()[0]
    assert line.startswith(b"stoker: ") and b"does not take the key" in line
    assert b"it was revoked" in line and b"Traceback" not in refused.stderr
    wait_until(
        lambda: any("key of user far" in line for line in events(node, "key.refused")),
        "the refusal is told", PATIENCE_S,
    )  # fmt: skip
    assert processes(node) == before
    (public_folder / "left").touch()
    assert node.wait(job).state == "succeeded"
    assert keys(node)["user", "far"]["state"] == "revoked"
    twice = node.stoker("cluster", "revoke", "far", check=False)
    assert twice.returncode != 0 and b"no node that joined and no user" in twice.stderr
    node.stoker("user", "add", "far", "--unix-user", "daemon", "--key-out", f"{key}.2")
    assert keys(node)["user", "far"]["state"] == "in force"


async def flood(node: LiveNode, place: StateFolder) -> None:
    """Send what is no message with the key of `second`, as fast as the broker takes it, until it is
    cut off; a user's job runs from its submit to its end meanwhile."""
    nc = await nats.connect(
        state_folder.load(place).url,
        nkeys_seed=str(place.key("agent")),
        allow_reconnect=False,
        **certificate.connecting(place.broker_certificate),
    )
    job = asyncio.ensure_future(asyncio.to_thread(node.stoker, "run", "--", "true"))
    async with asyncio.timeout(PATIENCE_S):
        while not nc.is_closed:
            with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
                for subject in (subjects.observation("second"), subjects.hello("second")):
                    for _ in range(500):
                        await nc.publish(subject, b"\xc1" * 100)
                await nc.flush(1)
    assert (await job).returncode == 0


def test_a_stolen_key_that_floods_is_cut_off_and_another_user_is_served(
    node: LiveNode, other_host: OtherHost, tmp_path: Path
) -> None:
    place = state_folder.locate(tmp_path / "thief")
    words = ("cluster", "join", "--state", str(place.root), "--name", "second")
    assert other_host.stoker(*words, stdin=token(node)).returncode == 0
    before = processes(node)
    asyncio.run(flood(node, place))
    wait_until(lambda: len(events(node, "node.flooded")) >= 3, "all that it did is told")
    told = "\n".join(events(node, "node.flooded"))
    for what in ("obs.second", "node.second.hello"):
        assert f"messages on {what} were not read" in told
    assert "a connection was cut, and its key is kept out for 3 s" in told
    assert "second" not in states(node), "what is no report makes no node"
    assert processes(node) == before, "nobody was restarted for it"
    try:
        assert other_host.stoker("up", "--state", str(place.root)).returncode == 0
        until_ready(node, "second")
        job = node.run("echo", "honest again")
        assert node.output(job.job) == b"honest again\n"
    finally:
        assert other_host.stoker("down", "--state", str(place.root)).returncode == 0
    node.stoker("cluster", "revoke", "second", "--reason", "it floods the cluster")
    wait_until(lambda: states(node).get("second") != "ready", "it is silent", PATIENCE_S)
    node.stoker("node", "remove", "second", "--force", "--reason", "it floods the cluster")


def test_the_nodes_own_keys_and_its_owner_cannot_be_revoked(node: LiveNode) -> None:
    for name, why in (("first", b"this host's own"), ("admin", b"keeps its key")):
        refused = node.stoker("cluster", "revoke", name, check=False)
        assert refused.returncode != 0 and why in refused.stderr
    removed = node.stoker("node", "remove", "first", check=False)
    assert removed.returncode != 0 and b"has a scheduler and a broker" in removed.stderr
    shown = node.stoker("cluster", "keys").stdout
    for path in node.state.keys.glob("*.nk"):
        assert path.read_bytes().strip() not in shown
