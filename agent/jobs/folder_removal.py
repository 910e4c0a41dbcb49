# SPDX-License-Identifier: Apache-2.0
"""Removing what a job left in a folder of its own: a few files, or whatever else it could think of.

The job is over, but its user may still have processes that swap what is in the folder while it
goes. So no name is looked up twice: a folder is pinned by a descriptor that follows no link, and
everything else is done to that; as root it is taken from the user first, who then can put nothing
more into it. A tree of any depth goes with two open folders and no recursion, and what is more than
a few files goes in a thread of its own, so that no other job's trace waits for it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections import deque
from pathlib import Path

FEW = 256
"""Entries that are removed at once, by who asks."""
FOLDERS_MAX = 1 << 20
"""Folders removed from one tree; who still adds to it, faster than they go, does not win."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def clear(folder: Path) -> list[str]:
    """Remove a folder and all that is in it; what cannot be removed, with the reason. Nothing for
    one that is not there."""
    left: list[str] = []
    try:
        top = _open_taken(folder)
        try:
            _clear_entries(top, str(folder), left)
        finally:
            os.close(top)
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        left.append(f"{folder}: {error.strerror}")
    return left


class FolderRemoval:
    """Folders of jobs that are over, removed one after the other. Its thread lives while there are
    any and ends with the process; what is left then is found when the next agent takes stock."""

    def __init__(self) -> None:
        self._waiting: deque[Path] = deque()
        self._lock = threading.Lock()
        self._busy = False

    def remove(self, folder: Path) -> None:
        """At once if there is little in it, else soon."""
        if _clear_few(folder):
            return
        with self._lock:
            self._waiting.append(folder)
            if self._busy:
                return
            self._busy = True
        threading.Thread(target=self._run, name="clearing", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                folder = self._waiting.popleft()
            clear(folder)


def _clear_few(folder: Path) -> bool:
    """Whether the folder is gone: it held few entries and nothing but files."""
    try:
        top = os.open(folder, _FOLDER)
        try:
            if not _unlink_few(top):
                return False
        finally:
            os.close(top)
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a folder inside, or a file that cannot go
        return False
    return True


def _unlink_few(fd: int) -> bool:
    with os.scandir(fd) as entries:
        for seen, entry in enumerate(entries):
            if seen == FEW:
                return False
            os.unlink(entry.name, dir_fd=fd)
    return True


def _clear_entries(top: int, name: str, left: list[str]) -> None:
    """Empty the folder behind a descriptor. Folders that are not empty are brought up beside their
    parents, so that none is ever more than one level down."""
    number, stuck = 0, set[str]()
    while True:
        folders = _unlink_files(top, name, stuck, left)
        if not folders:
            return
        if number > FOLDERS_MAX:
            left.append(f"{name}: more than {FOLDERS_MAX} folders, and there are still some")
            return
        for folder in folders:
            try:
                number = _lift_folders(top, folder, number)
                os.rmdir(folder, dir_fd=top)
            except OSError as error:
                stuck.add(folder)
                left.append(f"{name}/{folder}: {error.strerror}")


def _unlink_files(fd: int, name: str, stuck: set[str], left: list[str]) -> list[str]:
    """Remove what is no folder; the folders that are left. What cannot go is `stuck`."""
    while True:
        removed, folders = 0, []
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name in stuck:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                    continue
                try:
                    os.unlink(entry.name, dir_fd=fd)
                    removed += 1
                except OSError as error:
                    stuck.add(entry.name)
                    left.append(f"{name}/{entry.name}: {error.strerror}")
        if not removed:  # some file systems skip entries while others are removed
            return folders


def _lift_folders(top: int, name: str, number: int) -> int:
    """Empty one folder of `top`: files are removed, folders moved up under new names."""
    fd = _open_taken(name, top)
    try:
        left: list[str] = []
        for folder in _unlink_files(fd, name, set(), left):
            number = _lift(fd, folder, top, number)
        return number
    finally:
        os.close(fd)


def _open_taken(name: str | Path, top: int | None = None) -> int:
    """A folder, of `top` or by its path, whatever its mode was; OSError for anything else."""
    pinned = os.open(name, _PIN, dir_fd=top)
    try:
        _take(pinned)
        return os.open(".", _FOLDER, dir_fd=pinned)
    finally:
        os.close(pinned)


def _take(pinned: int) -> None:
    """The folder behind a descriptor becomes ours alone; the job's user may have closed it even to
    itself. fchmod(2) takes no O_PATH: the link in /proc leads to the folder itself, whatever has
    its name by now."""
    with contextlib.suppress(OSError):  # what it was needed for then fails, and is named
        if os.geteuid() == 0:
            os.chown(f"/proc/self/fd/{pinned}", 0, 0)
        os.chmod(f"/proc/self/fd/{pinned}", stat.S_IRWXU)  # noqa: PTH101


def _lift(fd: int, folder: str, top: int, number: int) -> int:
    """Move a folder up under the next free name; returns the number it has."""
    while True:
        number += 1
        try:
            os.rename(folder, f".lifted-{number}", src_dir_fd=fd, dst_dir_fd=top)
            return number
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
