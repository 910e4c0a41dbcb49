# SPDX-License-Identifier: Apache-2.0
"""The folder that holds a simulated node while a command runs on it, and what killed ones left.

A lock in the folder is held by whoever made it and by the command that runs there, for as long as
either lives. Invariant: a folder whose lock is free is of nobody any more, and only such folders,
and only the caller's own, are ever removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from stoker.native.errors import Unavailable

PREFIX: Final = "stoker-sim-"
LOCK: Final = "lock"


def make() -> tuple[Path, int]:
    """A new folder that jobs of other users can look into, and a descriptor that keeps it.

    Unavailable where no folder can be made, with the reason.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        folder.chmod(0o755)
        lock = os.open(folder / f"{LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / f"{LOCK}.new").rename(folder / LOCK)
    except OSError as wrong:
        raise Unavailable(f"no folder for the simulated node: {wrong.strerror}") from None
    return folder, lock


def sweep() -> list[Path]:
    """Remove what runs that were killed left, and return the folders."""
    return [path for path in sorted(_all()) if _is_left(path) and _removed(path)]


def _all() -> list[Path]:
    try:
        return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}*"))
    except OSError:
        return []


def _is_left(path: Path) -> bool:
    try:
        if path.stat(follow_symlinks=False).st_uid != os.geteuid():
            return False
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _removed(path: Path) -> bool:
    shutil.rmtree(path, ignore_errors=True)
    return not path.exists()
