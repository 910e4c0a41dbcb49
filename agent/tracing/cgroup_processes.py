# SPDX-License-Identifier: Apache-2.0
"""The processes of a job's cgroup, and whether it is frozen, as the kernel tells them.

A cgroup that is gone has no processes. Invariant: what is read of one job is bounded.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

PIDS_MAX = 512
"""The largest number of processes of one job that are read."""
GROUPS_MAX = 64
"""The largest number of cgroups below a job's own that are searched for processes."""


def is_frozen(group: Path) -> bool:
    """Return whether a cgroup is frozen; False if it is gone."""
    try:
        return "frozen 1" in (group / "cgroup.events").read_text()
    except OSError:
        return False


def processes_of(group: Path) -> list[int]:
    """Return the processes of a cgroup and of those below it; none if it is gone."""
    found: list[int] = []
    for folder, _, _ in itertools.islice(os.walk(group), GROUPS_MAX):
        if len(found) >= PIDS_MAX:
            break
        with contextlib.suppress(OSError):
            text = (Path(folder) / "cgroup.procs").read_text()
            found += [int(pid) for pid in text.split()]
    return found[:PIDS_MAX]
