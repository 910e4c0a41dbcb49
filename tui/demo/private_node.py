# SPDX-License-Identifier: Apache-2.0
"""A private node for the length of a demo or a bench, started and stopped as a user would do it.

It runs the verbs `up` and `down` as processes. The clean-up also runs after a failure, Ctrl-C and
SIGTERM, and reports what is left behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stoker.mesh.connection import context
from stoker.native.errors import StokerError, Unavailable

UP_S, DOWN_S = 60.0, 60.0


@dataclass
class PrivateNode:
    """A node's state folder, a folder that jobs can read, and the failures of its end."""

    state: Path
    work: Path
    failures: list[str] = field(default_factory=list)


@contextlib.contextmanager
def running(*, keep: bool = False) -> Iterator[PrivateNode]:
    """A running node; `keep` leaves it running and its folders in place."""
    with terminable(), _folders(keep) as (state, work):
        node = PrivateNode(state, work)
        try:
            _verb("up", state, UP_S)
            yield node
        finally:
            if not keep:
                node.failures += _down(state)


@contextlib.contextmanager
def _folders(keep: bool) -> Iterator[tuple[Path, Path]]:
    """A private state folder, and one that every job's user can read."""
    state = Path(tempfile.mkdtemp(prefix="stoker-state-"))
    work = Path(tempfile.mkdtemp(prefix="stoker-work-"))
    work.chmod(0o755)
    try:
        yield state, work
    finally:
        if not keep:
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(state, ignore_errors=True)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C, so that the node is stopped in either case."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _verb(verb: str, state: Path, timeout_s: float) -> None:
    """Run a verb as a process; its output is shown only if it fails."""
    # A new session keeps Ctrl-C from the node, which the demo then stops in order.
    done = subprocess.run(
        [sys.executable, "-m", "stoker", verb, "--state", str(state)],
        capture_output=True,
        start_new_session=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise Unavailable(f"`stoker {verb}` exited with {done.returncode}: {words}")


def _down(state: Path) -> list[str]:
    """Stop the node and return what is left behind; a second Ctrl-C does not interrupt this."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _verb("down", state, DOWN_S)
        return [f"left behind: {what}" for what in leftovers(state)]
    except (StokerError, subprocess.TimeoutExpired) as error:
        return [str(error)]
    finally:
        signal.signal(signal.SIGINT, before)


def leftovers(state: Path) -> Iterator[str]:
    """The processes, folders and cgroups that a stopped node has left behind."""
    name = f"stoker-{context.instance(state)}"
    for folder in (*context.run_folders(state), Path("/dev/shm") / name):
        if folder.exists():
            yield str(folder)
    for mount in _cgroup_mounts():
        if (mount / name).exists():
            yield str(mount / name)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(str(state)) in (process / "cmdline").read_bytes():
                yield f"process {process.name}"


def _cgroup_mounts() -> Iterator[Path]:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            yield Path(mount)
