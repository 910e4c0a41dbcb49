# SPDX-License-Identifier: Apache-2.0
"""Processes outside stoker that have a descriptor open on a device node.

/proc is read for at most PROCESSES_MAX processes of DESCRIPTORS_MAX descriptors each; a scan that
had to stop early says so. Vendors use `name_of` for the processes that their drivers list.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stoker.agent.devices.vendor import IsOurs

PROCESSES_MAX = 32_768
DESCRIPTORS_MAX = 4096

Node = tuple[int, int]
"""(major, minor) of a character device."""


@dataclass(frozen=True)
class Held:
    """One finding of a scan."""

    holders: Mapping[Node, str]
    """Node -> "held by pid 812 (python3)"."""
    unread: int = 0
    """Processes whose descriptors could not be read, or were too many."""


def scan(
    nodes: frozenset[Node],
    is_ours: IsOurs,
    prefixes: tuple[str, ...] = ("/dev/",),
    proc: Path = Path("/proc"),
) -> Held:
    """Look for foreign processes that have any of these nodes open.

    Only descriptors whose path starts with one of the prefixes are asked for their number: a
    stat of just any file can hang on a dead network file system.
    """
    holders: dict[Node, str] = {}
    unread = 0
    for count, pid in enumerate(_pids(proc)):
        if count >= PROCESSES_MAX:
            return Held(holders, unread + 1)
        found = _open_nodes(proc / str(pid) / "fd", nodes, prefixes)
        if found is None:
            unread += 1
        elif found and not is_ours(pid):
            for node in found:
                holders.setdefault(node, describe(pid, proc))
    return Held(holders, unread)


def describe(pid: int, proc: Path = Path("/proc")) -> str:
    """ "held by pid 812 (python3)"."""
    try:
        comm = (proc / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        comm = "not visible from here"
    return f"held by pid {pid} ({comm})"


def in_jobs(pid: int, instance: str, cgroups: bool, proc: Path = Path("/proc")) -> bool:
    """True if a process runs under one of this instance's jobs.

    Its cgroup says so. Without cgroups (no root) the variable that every job inherits does; a
    process can forge that one, but then it runs as the same user and stoker could not stop it.
    """
    folder = proc / str(pid)
    try:
        if cgroups:
            return f"/stoker-{instance}/" in (folder / "cgroup").read_text()
        return b"\0STOKER_JOB_ID=" in b"\0" + (folder / "environ").read_bytes()
    except OSError:
        return False


def _pids(proc: Path) -> Iterator[int]:
    me = os.getpid()
    for entry in os.scandir(proc):
        if entry.name.isdecimal() and int(entry.name) != me:
            yield int(entry.name)


def _open_nodes(
    folder: Path, nodes: frozenset[Node], prefixes: tuple[str, ...]
) -> set[Node] | None:
    """The nodes that one process has open; None if that could not be read."""
    found: set[Node] = set()
    try:
        names = os.listdir(folder)  # noqa: PTH208  # a Path per descriptor would double the cost
    except FileNotFoundError:
        return found
    except OSError:
        return None
    if len(names) > DESCRIPTORS_MAX:
        return None
    prefix = f"{folder}/"
    for name in names:
        try:
            if not os.readlink(prefix + name).startswith(prefixes):  # noqa: PTH115
                continue
            device = os.stat(prefix + name).st_rdev  # noqa: PTH116
        except OSError:
            continue
        node = (os.major(device), os.minor(device))
        if node in nodes:
            found.add(node)
    return found


def name_of(pid: int, proc: Path) -> str | None:
    """The kernel's name of the process; None if it is gone or in another PID namespace."""
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return None
