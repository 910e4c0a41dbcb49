# SPDX-License-Identifier: Apache-2.0
"""`down` after kills: real spawner, shims, jobs and cgroups, and nothing is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stoker.agent.jobs.spawner import Spawner
from stoker.agent.jobs.spawner_messages import Launch, Started
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import leftover_cgroups, lock, own_folder, pids, teardown
from stoker.agent.supervise.supervisor import SupervisorSettings

SCRIPT = Path(__file__).resolve().parents[2] / "fakes/bare_node.py"
NOBODY = 65534 if os.geteuid() == 0 else os.geteuid()
PATIENCE_S = 60.0
JOBS = 3


@pytest.fixture
def where() -> Iterator[StateFolder]:
    folder = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    made = state_folder.locate(folder / "state")
    state_folder.prepare(made)
    own_folder.load_or_create(made)
    state_folder.prepare_run(made)
    try:
        yield made
    finally:
        left = teardown.finish(made).left
        shutil.rmtree(folder)
        assert left == []


def start(where: StateFolder) -> subprocess.Popen[bytes]:
    """Start a supervisor with spawner and watchdog; return when both serve."""
    held = lock.take(where)
    assert held is not None
    settings = SupervisorSettings(str(where.root), held)
    process = subprocess.Popen(
        [sys.executable, SCRIPT, msgspec.json.encode(settings).decode()], pass_fds=(held,)
    )
    os.close(held)
    deadline = time.monotonic() + PATIENCE_S
    while not where.endpoint.exists():
        assert time.monotonic() < deadline, (where.log / "supervisor.log").read_text()
        time.sleep(0.01)
    return process


async def start_jobs(where: StateFolder, script: str) -> list[int]:
    """Start JOBS jobs of another user and return their pids."""
    spawner = await Spawner.connect(where.run / "spawner.sock")
    try:
        launches = []
        for job in range(1, JOBS + 1):
            folder = where.agent / "jobs" / str(job)
            folder.mkdir(parents=True)
            launches.append(
                Launch(job, 1, 0, 0, ("/bin/sh", "-c", script), {"PATH": "/usr/bin:/bin"}, "/",
                       NOBODY, NOBODY, str(folder), fenced=False)
            )  # fmt: skip
        assert await spawner.start(launches) == []
        found: dict[int, int] = {}
        async for event in spawner.events():
            assert isinstance(event, Started), event
            found[event.job] = event.pid
            if len(found) == JOBS:
                return list(found.values())
        raise AssertionError("the spawner went away")
    finally:
        await spawner.close()


def processes_of(where: StateFolder) -> set[int]:
    """Return all processes of this node, found without the product's own search."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "cmdline").read_bytes() + (entry / "cgroup").read_bytes()
            except OSError:
                continue
            ours = str(where.root).encode() in text or where.instance.encode() in text
            if ours and pids.identify(int(entry.name)):  # a zombie belongs to its parent
                found.add(int(entry.name))
    return found


def assert_nothing_left(where: StateFolder, jobs: list[int]) -> None:
    assert processes_of(where) == set()
    assert [pid for pid in jobs if pids.identify(pid)] == []
    assert not where.run.exists()
    assert not where.shm.exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/stoker-{where.instance}"))
    assert lock.holder(where) is None


KILLS = [(), ("supervisor",), ("spawner",), ("supervisor", "spawner"), ("supervisor", "watchdog")]
STUBBORN = "trap '' TERM HUP INT; (setsid sleep 600 &) ; while :; do sleep 1; done"


@pytest.mark.parametrize("killed", [*KILLS, ("everything",)], ids="+".join)
async def test_down_ends_everything_whatever_was_killed(
    where: StateFolder, killed: tuple[str, ...]
) -> None:
    supervisor = start(where)
    jobs = await start_jobs(where, STUBBORN)
    found = pids.find(where)
    assert set(found) == {"supervisor", "spawner", "watchdog"}
    for name in found if killed == ("everything",) else killed:
        pids.send(found[name], signal.SIGKILL)
    ended = teardown.finish(where)
    supervisor.wait(PATIENCE_S)
    assert ended.left == []
    assert_nothing_left(where, jobs)
    if os.geteuid() == 0:
        assert ended.jobs == JOBS


async def test_down_without_pids_journal_and_marks(where: StateFolder) -> None:
    """Only the cgroups show that there are jobs."""
    if os.geteuid() != 0:
        pytest.skip("without root there are no cgroups to find jobs by")
    supervisor = start(where)
    jobs = await start_jobs(where, STUBBORN)
    for name in ("supervisor", "spawner", "watchdog"):
        pids.send(pids.find(where)[name], signal.SIGKILL)
    supervisor.wait(PATIENCE_S)
    where.pids.unlink()
    (where.agent / "journal").unlink()
    assert teardown.finish(where).left == []
    assert_nothing_left(where, jobs)


async def test_jobs_outlive_a_stop_of_the_supervisor(where: StateFolder) -> None:
    supervisor = start(where)
    jobs = await start_jobs(where, STUBBORN)
    supervisor.terminate()
    assert supervisor.wait(PATIENCE_S) == 0
    assert all(pids.identify(pid) for pid in jobs)
    teardown.finish(where)
    assert_nothing_left(where, jobs)


async def test_down_of_frozen_jobs(where: StateFolder) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root there are no cgroups to freeze")
    start(where)
    jobs = await start_jobs(where, STUBBORN)
    trees = [
        t for t in leftover_cgroups.trees(where.instance) if (t / "jobs/cgroup.freeze").exists()
    ]
    (trees[0] / "jobs/cgroup.freeze").write_text("1")
    assert teardown.finish(where).left == []
    assert_nothing_left(where, jobs)


def test_down_of_nothing(where: StateFolder, tmp_path: Path) -> None:
    where.run.rmdir()
    ended = teardown.finish(where)
    assert not ended.anything
    assert ended.left == []
    assert not teardown.finish(state_folder.locate(tmp_path / "never")).anything
    assert not (tmp_path / "never").exists()


def test_the_lock_ends_with_its_holder(where: StateFolder) -> None:
    """However it ends; and its pid can be told meanwhile."""
    script = (
        "import signal, sys, time; from stoker.agent.state import state_folder;"
        "from stoker.agent.supervise import lock;"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "held = lock.take(state_folder.locate(sys.argv[1])); print(held, flush=True);"
        "time.sleep(60)"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(where.root)], stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    try:
        other.stdout.readline()
        assert lock.holder(where) == other.pid
        assert lock.take(where) is None
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert lock.holder(where) is None


def test_what_is_left_is_named(where: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftover_cgroups, "trees", lambda instance: [where.root / "cgroup"])
    group = where.root / "cgroup/inner"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    monkeypatch.setattr(leftover_cgroups, "kill", lambda tree, timeout_s: {os.getpid()})
    left = teardown.finish(where).left
    assert f"process {os.getpid()} in {where.root / 'cgroup'}" in left
    assert any("not empty" in text for text in left)
    shutil.rmtree(where.root / "cgroup")
