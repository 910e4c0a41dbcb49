# SPDX-License-Identifier: Apache-2.0
"""The cgroups of one node: `down` finds, empties and removes them, also after any crash.

Only a cgroup whose folder is named `stoker-<instance>` is touched. Source:
Documentation/admin-guide/cgroup-v2.rst (cgroup.kill, cgroup.events) and
cgroup-v1/freezer-subsystem.rst of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

DEPTH_MAX = 8
"""The depth of the search below a mount; a delegated unit of a user session is at 6."""
POLL_S = 0.01


def hierarchies(mountinfo: str) -> list[tuple[Path, set[str]]]:
    """Return the mount points of cgroups in the text of /proc/self/mountinfo, each with
    {"cgroup2"}, or with the options of a version 1 mount, which include its controllers."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        if kind in ("cgroup", "cgroup2"):
            path = before.split(" ")[4].encode().decode("unicode_escape")
            names = {kind} if kind == "cgroup2" else set(options.split(" ")[-1].split(","))
            found.append((Path(path), names))
    return found


def trees(instance: str) -> list[Path]:
    """Return every cgroup folder of this node, one per hierarchy."""
    text = Path("/proc/self/mountinfo").read_text()
    name = f"stoker-{instance}"
    return [tree for mount, _ in hierarchies(text) for tree in _named(mount, name, 0)]


def _named(folder: Path, name: str, depth: int) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if not entry.is_dir(follow_symlinks=False):
                continue
            if entry.name == name:
                yield Path(entry.path)
            elif depth < DEPTH_MAX:
                yield from _named(Path(entry.path), name, depth + 1)


def groups(tree: Path) -> list[Path]:
    """Return a tree's folders, innermost first: the order of their removal."""
    return [Path(folder) for folder, _, _ in os.walk(tree, topdown=False)]


def members(tree: Path) -> set[int]:
    """Return the pids of all processes in the tree."""
    found: set[int] = set()
    for group in groups(tree):
        with contextlib.suppress(OSError):
            found.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
    return found


def kill(tree: Path, timeout_s: float) -> set[int]:
    """Kill everything in the tree, including frozen and forking processes; return the rest."""
    deadline = time.monotonic() + timeout_s
    while True:
        _kill_once(tree)
        left = members(tree)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(POLL_S)


def _kill_once(tree: Path) -> None:
    if (tree / "cgroup.kill").exists():  # one write reaches the whole tree, including forks
        with contextlib.suppress(OSError):
            (tree / "cgroup.kill").write_text("1")
        return
    for pid in members(tree):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for group in groups(tree):  # a frozen v1 group does not notice that it was killed
        with contextlib.suppress(OSError):
            (group / "freezer.state").write_text("THAWED")


def remove(tree: Path, timeout_s: float = 1.0) -> list[str]:
    """Remove an emptied tree; return what could not be removed, with the reason."""
    deadline = time.monotonic() + timeout_s
    while True:
        failed = [text for group in groups(tree) if (text := _remove_one(group))]
        if not failed or time.monotonic() >= deadline:
            return failed
        time.sleep(POLL_S)  # the kernel needs a moment to release killed processes


def _remove_one(group: Path) -> str:
    try:
        group.rmdir()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cgroup {group}: {error.strerror}"
    return ""
