# SPDX-License-Identifier: Apache-2.0
"""Processes outside stoker that have a device file open.

A scan reads /proc for at most PROCESSES_MAX processes with DESCRIPTORS_MAX descriptors each, and
says how many processes it could not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from stoker.agent.devices.host.device_files import Node
from stoker.agent.devices.host.processes import IsOurs, describe

PROCESSES_MAX = 32_768
DESCRIPTORS_MAX = 4096


class Holders(msgspec.Struct, frozen=True):
    """Result of one scan."""

    holders: Mapping[Node, str]
    """Node -> "held by pid 812 (python3)"."""
    unread: int = 0
    """Number of processes whose descriptors could not be read, or were too many."""


def scan(
    nodes: frozenset[Node],
    is_ours: IsOurs,
    prefixes: tuple[str, ...] = ("/dev/",),
    proc: Path = Path("/proc"),
) -> Holders:
    """Look for processes outside stoker that have any of these nodes open.

    Only descriptors whose path starts with one of the prefixes are stat'ed: a stat of any other
    file can hang on a dead network file system.
    """
    holders: dict[Node, str] = {}
    unread = 0
    for count, pid in enumerate(_pids(proc)):
        if count >= PROCESSES_MAX:
            return Holders(holders, unread + 1)
        found = _open_nodes(proc / str(pid) / "fd", nodes, prefixes)
        if found is None:
            unread += 1
        elif found and not is_ours(pid):
            for node in found:
                holders.setdefault(node, describe(pid, proc))
    return Holders(holders, unread)


def _pids(proc: Path) -> Iterator[int]:
    me = os.getpid()
    for entry in os.scandir(proc):
        if entry.name.isdecimal() and int(entry.name) != me:
            yield int(entry.name)


def _open_nodes(
    folder: Path, nodes: frozenset[Node], prefixes: tuple[str, ...]
) -> set[Node] | None:
    """Nodes that one process has open; None if its descriptors could not be read."""
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
