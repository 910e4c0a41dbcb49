# SPDX-License-Identifier: Apache-2.0
"""Names of what one start of one task has on its node: its folders and its cgroup.

No two starts share a name, so their files are never mixed and none is overwritten. Folders of a
job's first task keep short names, because people read them: `7` is attempt 1 of job 7, `7.2` its
attempt 2. Folders of a further task have the whole name: `7.2.1` is its task 1 in attempt 2.
"""

from __future__ import annotations

import re
from pathlib import Path

from stoker.scheduler.nouns import TaskKey

FENCED, FREE = "fenced", "free"
"""The groups below the cgroup of all jobs: the first is frozen when the node's lease ends."""
_NAME = re.compile(r"([1-9]\d{0,18})(?:\.([1-9]\d{0,9})(?:\.([1-9]\d{0,4}))?)?", re.ASCII)


def folder_name(key: TaskKey) -> str:
    """Return the name of the folder of files and of the folder of trace segments."""
    if key.task:
        return cgroup_name(key)
    return str(key.job) if key.attempt == 1 else f"{key.job}.{key.attempt}"


def cgroup_name(key: TaskKey) -> str:
    """Return the name of the cgroup, as `native/runner/cgroup/tree.c` makes it."""
    return f"{key.job}.{key.attempt}.{key.task}"


def cgroup_folder(jobs: Path, key: TaskKey) -> Path:
    """Return the cgroup of a start below the cgroup of all jobs, in the group where it is."""
    fenced = jobs / FENCED / cgroup_name(key)
    return fenced if fenced.is_dir() else jobs / FREE / cgroup_name(key)


def cgroup_key(name: str) -> TaskKey | None:
    """Return the start to which a cgroup belongs; None for any other name."""
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return TaskKey(int(parts[0]), int(parts[1]), int(parts[2]))


def key_of(name: str) -> TaskKey | None:
    """Return the start to which a folder belongs; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    key = TaskKey(int(match[1]), int(match[2] or 1), int(match[3] or 0))
    return key if folder_name(key) == name else None
