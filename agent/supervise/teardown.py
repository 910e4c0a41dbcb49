# SPDX-License-Identifier: Apache-2.0
"""The teardown of a node, which leaves nothing of it, whatever was killed before.

The order: first the supervisor, then the processes, then the jobs, then files and cgroups. The
final check examines the machine and not what was done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stoker.agent.jobs.folder_removal import clear
from stoker.agent.power.setters import record
from stoker.agent.state.state_folder import StateFolder
from stoker.agent.supervise import leftover_cgroups, lock, pids
from stoker.agent.supervise.process_table import ORDER, job_arguments
from stoker.native import paths
from stoker.native.errors import Refused

SUPERVISOR_S = 30.0
"""Seconds in which all children end one after the other, each with its own grace."""
CHILD_S = 5.0
JOBS_S = 10.0
KILL_ALL_S = 30.0


class TeardownResult(msgspec.Struct):
    """The parts that the teardown ended, and those that it could not remove."""

    processes: list[str] = msgspec.field(default_factory=list)
    jobs: int = 0
    left: list[str] = msgspec.field(default_factory=list)

    @property
    def anything(self) -> bool:
        return bool(self.processes or self.jobs)


def finish(state: StateFolder) -> TeardownResult:
    """End the node of this folder; raises Refused if another `up` holds it meanwhile."""
    ended = TeardownResult()
    _end_supervisor(state, ended)
    with _held(state):
        _end_processes(state, ended)
        trees = leftover_cgroups.trees(state.instance)
        ended.jobs = sum(_jobs_in(tree) for tree in trees)
        why = _end_by_spawner(state)
        _end_jobs(state, trees, ended)
        if wrong := record.restore(record.path(state.agent)):
            ended.left.append(f"power limits that stoker set: {wrong}")
        _remove_files(state, ended)
        ended.left += _still_there(state)
        if ended.left and why:
            ended.left.append(why)
    return ended


def _end_supervisor(state: StateFolder, ended: TeardownResult) -> None:
    pid = lock.holder(state)
    process = pids.identify(pid) if pid else None
    if process is None:
        return
    ended.processes.append(f"{pids.SUPERVISOR} (pid {process.pid})")
    ended.processes += [name for name in pids.recorded(state) if name != pids.SUPERVISOR]
    pids.send(process, signal.SIGTERM)
    pids.send(process, signal.SIGCONT)  # a stopped process would never handle SIGTERM
    if not pids.wait(process, SUPERVISOR_S):
        pids.send(process, signal.SIGKILL)
        pids.wait(process, 2.0)


@contextlib.contextmanager
def _held(state: StateFolder) -> Iterator[None]:
    """Hold the lock, so that nobody starts the node during the removal."""
    if not state.root.is_dir():
        yield
        return
    deadline = time.monotonic() + 2.0
    while (handle := lock.take(state)) is None:
        if time.monotonic() > deadline:
            raise Refused(
                f"pid {lock.holder(state)} is starting the node of {state.root}",
                hint="Run `stoker down` again when it is done",
            )
        time.sleep(0.02)
    try:
        yield
    finally:
        os.close(handle)


def _end_processes(state: StateFolder, ended: TeardownResult) -> None:
    """End children without a supervisor, last started first, then other marked processes."""
    found = pids.find(state)
    found.pop(pids.SUPERVISOR, None)
    for name in sorted(found, key=_place, reverse=True):
        ended.processes.append(name)
        pids.end(found[name], CHILD_S)


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _jobs_in(tree: Path) -> int:
    """Return the number of jobs that still run, by their cgroups."""
    groups = [group for kind in ("fenced", "free") for group in (tree / "jobs" / kind).glob("*/")]
    return sum(1 for group in groups if leftover_cgroups.members(group))


def _end_by_spawner(state: StateFolder) -> str:
    """End all jobs by the spawner's program, with or without root, and return why it failed, or "".

    The program knows shims and jobs from its journal, in which it also records their ends.
    """
    if not (state.agent / "journal").exists():
        return ""
    try:
        command = (str(paths.program("stoker-spawner")), "--kill-all", *job_arguments(state))
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=KILL_ALL_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"stoker-spawner --kill-all: {error}"
    lines = done.stderr.strip().splitlines()
    return f"stoker-spawner --kill-all: {lines[-1] if lines else ''}" if done.returncode else ""


def _end_jobs(state: StateFolder, trees: list[Path], ended: TeardownResult) -> None:
    """End the remaining jobs by cgroup and by mark, with or without a journal."""
    for tree in trees:
        leftover_cgroups.kill(tree, JOBS_S)
    for name, process in pids.marked(state.instance):
        ended.processes.append(name)
        pids.end(process, CHILD_S)
    for tree in trees:
        if tree.exists():
            ended.left += leftover_cgroups.remove(tree)


def _remove_files(state: StateFolder, ended: TeardownResult) -> None:
    for folder in (*state.shm_folders, state.run):
        _remove_folder(folder, ended)
    with contextlib.suppress(OSError):  # fails if another node of this user needs it
        state.run.parent.rmdir()


def _remove_folder(folder: Path, ended: TeardownResult) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(folder.lstat().st_mode):
            ended.left.append(f"{folder}: not a folder, not touched")
            return
        ended.left += clear(folder)


def _still_there(state: StateFolder) -> list[str]:
    """Return what the machine still shows of this node."""
    left = [f"process {p.pid} ({name})" for name, p in pids.marked(state.instance)]
    for tree in leftover_cgroups.trees(state.instance):
        left += [f"process {pid} in {tree}" for pid in sorted(leftover_cgroups.members(tree))]
        left.append(f"cgroup {tree}")
    left += [f"folder {folder}" for folder in state.shm_folders]
    return [*left, f"folder {state.run}"] if state.run.exists() else left
