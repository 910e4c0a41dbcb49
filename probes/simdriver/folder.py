# SPDX-License-Identifier: Apache-2.0
"""The folder of a simulated node while a command runs on it, and the removal of abandoned ones.

The maker of the folder and the command that runs there hold a lock in it while either lives.
Invariant: only folders of the caller whose lock is free are ever removed.
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
    """Make a folder that other users' jobs can read; return it and the descriptor of its lock.

    Raises Unavailable, with the reason, if no folder can be made.
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
    """Remove the folders that killed runs left, and return them."""
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
