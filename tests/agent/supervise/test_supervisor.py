# SPDX-License-Identifier: Apache-2.0
"""The supervisor with real processes: order, restart, adoption, confinement."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import lock, own_folder, pids, teardown
from stoker.agent.supervise.supervisor import SupervisorSettings

SCRIPT = Path(__file__).resolve().parents[2] / "fakes/supervised.py"
NAMES = ("nats-server", "spawner", "scheduler", "agent")
PATIENCE_S = 60.0


class Node:
    """A state folder and the supervisors that were started for it."""

    def __init__(self, where: StateFolder) -> None:
        self.where = where
        self.started: list[subprocess.Popen[bytes]] = []
        self.reports: list[dict[str, object]] = []

    def start(self, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a supervisor and wait until it is ready, or closes its report."""
        held = lock.take(self.where)
        assert held is not None
        heard, said = os.pipe()
        settings = SupervisorSettings(str(self.where.root), held, said)
        process = subprocess.Popen(
            [sys.executable, SCRIPT, msgspec.json.encode(settings).decode()],
            pass_fds=(held, said),
            env={**os.environ, **(environment or {})},
        )
        self.started.append(process)
        self.reports.clear()
        os.close(held)
        os.close(said)
        self._listen(heard)
        return process

    def _listen(self, heard: int) -> None:
        with os.fdopen(heard, "rb", buffering=0) as pipe:
            data = b""
            while select.select([pipe], [], [], PATIENCE_S)[0]:
                piece = pipe.read(4096)
                *lines, data = (data + piece).split(b"\n")
                self.reports += [json.loads(line) for line in lines]
                if not piece or {"event": "ready"} in self.reports:
                    return
        pytest.fail(f"no report of the supervisor: {self.log('supervisor')}")

    def log(self, name: str) -> str:
        return (self.where.log / f"{name}.log").read_text()

    def pid(self, name: str) -> int:
        return pids.recorded(self.where)[name].pid

    def wait(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline:
                pytest.fail(f"{what}: {self.log('supervisor')}")
            time.sleep(0.01)

    def wait_ready(self, name: str, not_pid: int = 0) -> None:
        def ready() -> bool:
            process = pids.recorded(self.where).get(name)
            return process is not None and process.ready and process.pid != not_pid

        self.wait(f"{name} is not ready", ready)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    where = state_folder.locate(tmp_path / "state")
    state_folder.prepare(where)
    own_folder.load_or_create(where)
    state_folder.prepare_run(where)
    made = Node(where)
    try:
        yield made
    finally:
        for process in made.started:
            if process.poll() is None:
                process.terminate()
        ended = teardown.finish(where)
        for process in made.started:
            process.wait(PATIENCE_S)
        assert ended.left == []


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_starts_in_order_and_says_when_all_serve(node: Node) -> None:
    supervisor = node.start()
    found = pids.recorded(node.where)
    assert set(found) == {pids.SUPERVISOR, *NAMES}
    assert found[pids.SUPERVISOR].pid == supervisor.pid == lock.holder(node.where)
    lines = [json.loads(line) for line in node.log("supervisor").splitlines()]
    order = [line["process"] for line in lines if line["event"].startswith("started")]
    assert order.index("nats-server") < order.index("scheduler") < order.index("agent")
    endpoint = json.loads(node.where.endpoint.read_bytes())
    assert endpoint["state"] == str(node.where.root)


def test_what_a_child_is_given_and_what_it_gave_up(node: Node) -> None:
    node.start(environment={"AWS_SECRET_ACCESS_KEY": "hunter2"})
    for name in NAMES:
        pid = node.pid(name)
        assert status(pid)["NoNewPrivs"] == "1"
        assert Path(f"/proc/{pid}/fd/0").readlink() == Path("/dev/null")
        assert Path(f"/proc/{pid}/fd/1").readlink() == node.where.log / f"{name}.log"
        assert os.getsid(pid) == pid
        assert b"hunter2" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert "Max open files            512 " in Path(f"/proc/{pid}/limits").read_text()
        handles = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]  # noqa: PTH115
        assert str(node.where.lock) not in handles
    if os.geteuid() == 0:
        for name in ("nats-server", "scheduler"):
            found = status(node.pid(name))
            assert {found[key] for key in ("CapPrm", "CapEff", "CapBnd", "CapInh")} == {"0" * 16}
        assert status(node.pid("spawner"))["CapEff"] != "0" * 16


@pytest.mark.parametrize("name", NAMES)
def test_a_killed_child_is_started_again(node: Node, name: str) -> None:
    node.start()
    others = {other: node.pid(other) for other in NAMES if other != name}
    old = node.pid(name)
    os.kill(old, signal.SIGKILL)
    node.wait_ready(name, not_pid=old)
    assert {other: node.pid(other) for other in others} == others
    assert "ended: signal 9; starts in 0.05 s" in node.log("supervisor")


def test_a_killed_supervisor_leaves_children_and_the_next_adopts_them(node: Node) -> None:
    first = node.start()
    before = {name: node.pid(name) for name in NAMES}
    first.kill()
    first.wait()
    assert lock.holder(node.where) is None
    node.start()
    assert {name: node.pid(name) for name in NAMES} == before
    assert node.log("scheduler").count("starts") == 1


def test_adoption_starts_what_is_missing(node: Node) -> None:
    first = node.start()
    before = {name: node.pid(name) for name in NAMES}
    first.kill()
    first.wait()
    os.kill(before["agent"], signal.SIGKILL)
    node.start()
    after = {name: node.pid(name) for name in NAMES}
    assert after.pop("agent") != before.pop("agent")
    assert after == before


def test_adoption_without_pids_file_ends_and_restarts(node: Node) -> None:
    first = node.start()
    before = {name: pids.recorded(node.where)[name] for name in NAMES}
    first.kill()
    first.wait()
    node.where.pids.unlink()
    node.start()
    assert not any(pids.lives(process) for process in before.values())
    assert len(list(pids.marked(node.where.instance))) == len(NAMES)


def test_a_reused_pid_is_not_adopted(node: Node) -> None:
    unrelated = subprocess.Popen(["sleep", "60"])
    try:
        false = pids.ProcessId(unrelated.pid, 1, ready=True)
        pids.write(node.where, {"agent": false})
        node.start()
        assert node.pid("agent") != unrelated.pid
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait()


def test_an_adopted_child_is_watched(node: Node) -> None:
    first = node.start()
    first.kill()
    first.wait()
    node.start()
    old = node.pid("scheduler")
    os.kill(old, signal.SIGKILL)
    node.wait_ready("scheduler", not_pid=old)


def test_a_process_of_another_version_is_not_adopted(node: Node) -> None:
    first = node.start()
    first.kill()
    first.wait()
    odd = subprocess.Popen(["sleep", "60"])
    try:
        found = pids.recorded(node.where)
        identified = pids.identify(odd.pid)
        assert identified is not None
        ready = pids.ProcessId(identified.pid, identified.start, ready=True)
        pids.end(found["agent"], 2.0)
        pids.write(node.where, {**found, "agent": ready})
        node.start()
        assert node.pid("agent") != odd.pid
        assert odd.wait(PATIENCE_S) == -signal.SIGTERM
    finally:
        odd.kill()
        odd.wait()


def test_terminate_stops_everything_in_reverse(node: Node) -> None:
    supervisor = node.start()
    supervisor.terminate()
    assert supervisor.wait(PATIENCE_S) == 0
    assert pids.find(node.where) == {}
    assert not node.where.endpoint.exists()
    lines = [json.loads(line) for line in node.log("supervisor").splitlines()]
    ended = [line["process"] for line in lines if line["event"].startswith("ended")]
    assert ended == ["agent", "scheduler", "spawner", "nats-server"]


def test_a_failing_child_is_reported_with_its_failures(node: Node) -> None:
    (node.where.root / "scheduler.fails").touch()
    held = lock.take(node.where)
    assert held is not None
    os.close(held)
    reports: list[dict[str, object]] = []

    def enough() -> bool:
        return any(report.get("failures") == 3 for report in reports)

    held = lock.take(node.where)
    assert held is not None
    heard, said = os.pipe()
    settings = SupervisorSettings(str(node.where.root), held, said)
    node.started.append(
        subprocess.Popen(
            [sys.executable, SCRIPT, msgspec.json.encode(settings).decode()], pass_fds=(held, said)
        )
    )
    os.close(held)
    os.close(said)
    with os.fdopen(heard, "rb", buffering=0) as pipe:
        while not enough() and select.select([pipe], [], [], PATIENCE_S)[0]:
            reports += [json.loads(line) for line in pipe.read(4096).splitlines()]
    assert enough()
    assert "because it was told to" in node.log("scheduler")
    assert "agent" not in pids.recorded(node.where)


def test_a_broker_restart_is_not_carried_out_right_after_its_start(node: Node) -> None:
    (node.where.root / "scheduler.says").write_text("STATUS=broker-restart disk full")
    node.start()
    broker = node.pid("nats-server")
    node.wait_ready("agent")
    assert node.pid("nats-server") == broker


def test_a_requested_broker_restart(node: Node) -> None:
    (node.where.root / "agent.says").write_text("STATUS=broker-restart disk full")
    node.start(environment={"RESTART_GAP_S": "0"})
    node.wait("it is not restarted", lambda: node.log("nats-server").count("starts") == 2)
    node.wait_ready("nats-server")
    assert "restart: agent requested it: broker-restart disk full" in node.log("supervisor")
    assert node.log("scheduler").count("starts") == 1


def test_a_foreign_process_cannot_notify(node: Node) -> None:
    node.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"STATUS=broker-restart now", str(node.where.run / "notify.sock"))
    node.wait("it is not logged", lambda: "unknown pid" in node.log("supervisor"))
    assert (node.where.run / "notify.sock").stat().st_mode & 0o077 == 0


def test_systemd_hears_ready_and_stopping(node: Node, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "systemd"))
        sock.settimeout(PATIENCE_S)
        supervisor = node.start({"NOTIFY_SOCKET": str(tmp_path / "systemd")})
        assert sock.recv(4096).startswith(b"READY=1")
        supervisor.terminate()
        assert sock.recv(4096) == b"STOPPING=1"


def test_the_supervisor_is_small(node: Node) -> None:
    supervisor = node.start()
    peak_kb = int(status(supervisor.pid)["VmHWM"].split()[0])
    assert peak_kb < 30 * 1024
