# SPDX-License-Identifier: Apache-2.0
"""The homes of job owners from the user database, and a cache folder for those without one.

Answers are kept for a minute, because a directory service may be slow. An owner whose home is not
writable (nobody, a service user) gets a private folder below /tmp: GPU runtimes compile kernels at
run time and find no device when they cannot store them.
"""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
import time
from pathlib import Path

from stoker.agent.jobs.job_launch import Home

CACHE_S = 60.0
OWNERS_MAX = 1024
"""The largest number of owners that are remembered; past it all are looked up again."""


class UserHomes:
    """Homes by uid."""

    def __init__(self, below: Path = Path("/tmp")) -> None:
        self._below = below
        self._homes: dict[int, tuple[Home, float]] = {}
        self._caches: dict[int, str] = {}

    def of(self, uid: int, gid: int) -> Home:
        """Return the home of this owner; raises OSError if a cache folder cannot be made."""
        now_s = time.monotonic()
        found = self._homes.get(uid)
        if found is not None and found[1] > now_s:
            return found[0]
        try:
            entry = pwd.getpwuid(uid)
            folder, shell = entry.pw_dir or "/", entry.pw_shell or "/bin/sh"
        except KeyError:
            folder, shell = "/", "/bin/sh"
        cache = "" if _is_writable(folder, uid) else self._cache(uid, gid)
        home = Home(folder, shell, cache)
        if len(self._homes) >= OWNERS_MAX:
            self._homes.clear()
        self._homes[uid] = (home, now_s + CACHE_S)
        return home

    def _cache(self, uid: int, gid: int) -> str:
        """Return a private folder of this user: that of an earlier agent, or a new one."""
        path = self._caches.get(uid) or str(self._below / f"stoker-cache-{uid}")
        if not _is_private(path, uid):
            try:
                os.mkdir(path, 0o700)  # noqa: PTH102
            except FileExistsError:  # another user made it: take a name that nobody can predict
                path = tempfile.mkdtemp(prefix=f"stoker-cache-{uid}-", dir=self._below)
            if os.geteuid() == 0:
                os.chown(path, uid, gid, follow_symlinks=False)
        self._caches[uid] = path
        return path


def _is_writable(folder: str, uid: int) -> bool:
    """True if this user can write to the home; a home that cannot be checked counts as writable."""
    try:
        found = Path(folder).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # a network home that root may not see
        return True
    return uid == 0 or (found.st_uid == uid and found.st_mode & 0o300 == 0o300)


def _is_private(path: str, uid: int) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    mine = uid if os.geteuid() == 0 else os.geteuid()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == mine and not found.st_mode & 0o077
