# SPDX-License-Identifier: Apache-2.0
"""A whole node, started and ended as people do it, with every process killed once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import broker_port, lock, pids
from stoker.agent.supervise.process_table import ORDER
from stoker.mesh.connection.context import SavedContext

STOKER = Path(sys.executable).with_name("stoker")
ROOT = os.geteuid() == 0
PATIENCE_S = 60.0


class Node:
    """One state folder and the verbs on it."""

    def __init__(self, where: StateFolder) -> None:
        self.where = where

    def stoker(self, *words: str, code: int | None = 0, **more: str) -> str:
        """Return output and error of one verb; `code` is the required exit code."""
        done = subprocess.run(
            [STOKER, *words],
            env={**os.environ, "STOKER_STATE": str(self.where.root), "NO_COLOR": "1", **more},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def job(self, job: str = "last") -> dict[str, object]:
        found: dict[str, object] = json.loads(self.stoker("job", job, "-o", "json"))
        return found

    def pid(self, name: str) -> int:
        return pids.find(self.where)[name].pid

    def kill(self, name: str) -> int:
        process = pids.find(self.where)[name]
        assert pids.send(process, signal.SIGKILL)
        assert pids.wait(process, PATIENCE_S)
        return process.pid

    def wait(self, what: str, holds: Callable[[], bool], every_s: float = 0.02) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, what
            time.sleep(every_s)

    def wait_job(self, *states: str) -> None:
        self.wait(f"the job is not {states}", lambda: self.job()["state"] in states, every_s=0.3)

    def assert_gone(self) -> None:
        """Check that nothing of the node is on the machine, by a search of the test's own."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and pids.identify(int(entry.name)):
                try:
                    text = (entry / "cmdline").read_bytes() + (entry / "cgroup").read_bytes()
                except OSError:
                    continue
                if str(self.where.root).encode() in text or self.where.instance.encode() in text:
                    found.append(text)
        assert found == []
        assert not self.where.run.exists()
        assert not self.where.shm.exists()
        assert not list(Path("/sys/fs/cgroup").glob(f"*/stoker-{self.where.instance}"))
        assert lock.holder(self.where) is None


@pytest.fixture
def node() -> Iterator[Node]:
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-", dir="/tmp"))
    made = Node(state_folder.locate(folder / "state"))
    try:
        yield made
    finally:
        said = made.stoker("down", code=None)
        shutil.rmtree(folder)
        made.assert_gone()
        assert "left behind" not in said, said


def test_up_run_down(node: Node) -> None:
    said = node.stoker("up")
    port = json.loads(node.where.cluster.read_bytes())["port"]
    assert f"stoker is up: tls://127.0.0.1:{port}" in said
    assert f"export STOKER_STATE={node.where.root}" in said
    assert ("jobs of root run as nobody" in said) == (ROOT and not os.environ.get("SUDO_USER"))
    assert set(pids.find(node.where)) == {pids.SUPERVISOR, *ORDER}
    assert node.stoker("run", "--", "echo", "hello") == "hello\n"

    again = node.stoker("up", code=2)
    assert f"(pid {node.pid(pids.SUPERVISOR)}, tls://127.0.0.1:{port})" in again

    assert "stopped: supervisor" in node.stoker("down")
    node.assert_gone()
    assert "nothing runs" in node.stoker("down")


def test_a_second_start_keeps_jobs_on_another_port_too(node: Node) -> None:
    node.stoker("up")
    node.stoker("run", "--", "true")
    before = state_folder.read_json(node.where.cluster, state_folder.ClusterFile)
    node.kill(pids.SUPERVISOR)
    node.stoker("down")
    port = broker_port.choose("0badcafe")
    assert f"127.0.0.1:{port}" in node.stoker("up", "--port", str(port))
    after = state_folder.read_json(node.where.cluster, state_folder.ClusterFile)
    assert after == msgspec.structs.replace(before, port=port)
    assert node.job("1")["state"] == "succeeded"


def test_a_job_runs_through_the_death_of_everything_and_an_adoption(
    node: Node, public_folder: Path
) -> None:
    node.stoker("up")
    written = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.4; done"
    script = f"{written}; while [ ! -e {public_folder}/go ]; do sleep 0.1; done; exit 7"
    node.stoker("submit", "--", "sh", "-c", script)
    node.wait_job("running")
    killed = {name: node.kill(name) for name in ORDER}
    for name in ORDER:
        node.wait(
            f"{name} is not started again",
            lambda name=name: (
                (p := pids.recorded(node.where).get(name)) is not None  # type: ignore[misc]
                and p.ready
                and p.pid != killed[name]
            ),
        )
    node.kill(pids.SUPERVISOR)
    said = node.stoker("up")
    assert "goes on" in said
    assert f"adopted: {', '.join(ORDER)}" in said
    (public_folder / "go").touch()
    node.stoker("wait", "last", code=None)
    found = node.job()
    assert (found["state"], found["exit_code"]) == ("failed", 7)
    assert node.stoker("logs", "last") == "".join(f"{i}\n" for i in range(1, 10))


def test_down_after_everything_was_killed_while_a_job_ran(node: Node) -> None:
    node.stoker("up")
    node.stoker("submit", "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    node.wait_job("running")
    for name in (pids.SUPERVISOR, *ORDER):
        node.kill(name)
    node.stoker("down")
    node.assert_gone()
    node.stoker("up")
    node.wait_job("cancelled", "lost")
    assert node.job()["reason"]


def test_a_start_that_fails_shows_why_and_leaves_nothing(node: Node) -> None:
    node.stoker("up")
    node.stoker("down")
    (node.where.agent / "journal").write_bytes(b"this is no journal" * 1000)
    said = node.stoker("up", code=3)
    assert said.startswith("stoker: spawner: the journal is corrupt: "), said
    assert "(ended: exit code 3)" in said
    assert len(said.splitlines()) == 1
    (node.where.agent / "journal").unlink()
    node.assert_gone()


def test_foreground_and_the_interrupt_key(node: Node) -> None:
    process = subprocess.Popen(
        [STOKER, "up", "--foreground", "--state", node.where.root],
        stderr=subprocess.PIPE,
        cwd="/",
    )
    try:
        node.wait("it is not ready", node.where.endpoint.exists)
        assert node.pid(pids.SUPERVISOR) == process.pid
        node.stoker("submit", "--", "sleep", "600")
        node.wait_job("running")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0
    assert b"ready at tls://" in said
    node.assert_gone()


@pytest.mark.needs_root
def test_a_second_local_user(node: Node, tmp_path: Path) -> None:
    if not ROOT:
        pytest.skip("a node without root serves its own user alone")
    node.stoker("up")
    out = tmp_path / "other.nk"
    said = node.stoker("user", "add", "other", "--unix-user", "daemon", "--key-out", str(out))
    assert "next `stoker up`" not in said
    os.chown(out, 0, 0)  # root runs this test in place of the user
    context = tmp_path / "stoker/context.json"
    state_folder.prepare_run(node.where)
    context.parent.mkdir()
    url = json.loads(node.where.endpoint.read_bytes())["url"]
    pinned = str(node.where.certificate)
    state_folder.write_json(context, SavedContext(url, str(out), "other", certificate_file=pinned))

    def as_other(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [STOKER, *words],
            env={k: v for k, v in os.environ.items() if k != "STOKER_STATE"}
            | {"XDG_CONFIG_HOME": str(tmp_path)},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert as_other("run", "--", "id", "-un") == "daemon\n"
    mine = node.stoker("run", "--", "id", "-un")
    assert mine == "nobody\n"
    listed = json.loads(as_other("jobs", "-o", "json"))["jobs"]
    assert {row["user"] for row in listed} == {"other"}
    node.stoker("user", "remove", "other")
    as_other("jobs", code=1)


@pytest.mark.needs_root
def test_jobs_of_root_run_as_root_only_on_request(node: Node) -> None:
    if not ROOT:
        pytest.skip("only root's jobs are mapped")
    node.stoker("up", SUDO_USER="")
    assert node.stoker("run", "--", "id", "-u") == "65534\n"
    node.kill(pids.SUPERVISOR)
    spawner = node.pid("spawner")
    said = node.stoker("up", "--root-jobs-as", "root")
    assert "jobs of root run as root" in said
    assert "adopted: nats-server, watchdog, agent\n" in said
    assert node.pid("spawner") != spawner, "it must be started with --allow-root"
    assert node.stoker("run", "--", "id", "-u") == "0\n"
