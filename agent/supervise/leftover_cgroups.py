# SPDX-License-Identifier: Apache-2.0
"""The cgroups of one node, found, emptied and removed: by `down`, and after a crash of anything.

Owns the rule that a cgroup is only touched when its folder is named `stoker-<instance>`. Source:
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
"""Deepest folder searched below a mount; a delegated unit of a user session is at 6."""
POLL_S = 0.01


def hierarchies(mountinfo: str) -> list[tuple[Path, set[str]]]:
    """Where cgroups are mounted and what each gives: {"cgroup2"}, or the options of a version 1
    mount, among them its controllers. From the text of /proc/self/mountinfo."""
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
    """Every cgroup folder of this node, one per hierarchy it was made in."""
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
    """A tree's folders, innermost first: the order in which they can be removed."""
    return [Path(folder) for folder, _, _ in os.walk(tree, topdown=False)]


def members(tree: Path) -> set[int]:
    """Pids of every process in the tree."""
    found: set[int] = set()
    for group in groups(tree):
        with contextlib.suppress(OSError):
            found.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
    return found


def kill(tree: Path, timeout_s: float) -> set[int]:
    """Kills everything in the tree, also what is frozen or forks; returns the pids that remain."""
    deadline = time.monotonic() + timeout_s
    while True:
        _kill_once(tree)
        left = members(tree)
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(POLL_S)


def _kill_once(tree: Path) -> None:
    if (tree / "cgroup.kill").exists():  # one write reaches the whole tree, forks in flight too
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
    """Removes an emptied tree; returns what could not be removed, with the reason."""
    deadline = time.monotonic() + timeout_s
    while True:
        failed = [text for group in groups(tree) if (text := _remove_one(group))]
        if not failed or time.monotonic() >= deadline:
            return failed
        time.sleep(POLL_S)  # the kernel takes a moment to let go of what was just killed


def _remove_one(group: Path) -> str:
    try:
        group.rmdir()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cgroup {group}: {error.strerror}"
    return ""
