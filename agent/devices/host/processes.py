# SPDX-License-Identifier: Apache-2.0
"""Processes on devices, by what /proc says of them: their names, and whether they belong to jobs.

Invariant: a process that ended, or that another user hides, is a missing name and never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stoker.agent.devices.record import Process

IsOurs = Callable[[int], bool]
"""Function that is True for a process id of one of this node's jobs."""


def name_of(pid: int, proc: Path) -> str | None:
    """The kernel's name of the process; None if it is gone or in another PID namespace."""
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return None


def describe(pid: int, proc: Path = Path("/proc")) -> str:
    """ "held by pid 812 (python3)"."""
    name = name_of(pid, proc)
    return f"held by pid {pid} ({'not visible from here' if name is None else name})"


def rows(listed: Iterable[Process], proc: Path) -> list[dict[str, Any]]:
    """Rows of the field `processes`, for drivers that do not tell names."""
    return [{**each._asdict(), "name": name_of(each.pid, proc)} for each in listed]


def users(
    listed: Iterable[tuple[str, Iterable[int]]], is_ours: IsOurs, proc: Path
) -> dict[str, str]:
    """Device id -> the first process outside stoker that uses it, by the pids of each device."""
    found: dict[str, str] = {}
    for id, pids in listed:
        for pid in pids:
            if not is_ours(pid) and (proc / str(pid)).exists():
                found.setdefault(id, describe(pid, proc))
    return found


def in_jobs(pid: int, instance: str, cgroups: bool, proc: Path = Path("/proc")) -> bool:
    """True if a process runs under one of this instance's jobs.

    Its cgroup tells. Without cgroups (no root) the variable that every job inherits does; a process
    can forge that one, but then it runs as the same user and stoker could not stop it.
    """
    folder = proc / str(pid)
    try:
        if cgroups:
            return f"/stoker-{instance}/" in (folder / "cgroup").read_text()
        return b"\0STOKER_JOB_ID=" in b"\0" + (folder / "environ").read_bytes()
    except OSError:
        return False
