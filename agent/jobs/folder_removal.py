# SPDX-License-Identifier: Apache-2.0
"""Removal of a job's own folder, whatever the job has put into it.

The job is over, but its user may still have processes that replace entries during the removal.
So no name is looked up twice: a folder is pinned by a descriptor that follows no link, and every
operation goes through that descriptor. As root, ownership is taken from the user first, who then
can add nothing more. A tree of any depth needs two open folders and no recursion. Large folders are
removed in a thread, so that no other job's trace waits for them.
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
"""The largest number of entries that are removed at once, by the calling thread."""
FOLDERS_MAX = 1 << 20
"""The largest number of folders removed from one tree, so that a user who keeps adding folders
cannot keep the removal busy for ever."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PIN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def clear(folder: Path) -> list[str]:
    """Remove a folder and its content; return what could not be removed, with the reason. A folder
    that does not exist returns nothing."""
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
    """Removes the folders of ended jobs one after the other. The thread lives while folders wait
    and ends with the process; the next agent finds the rest when it lists the folders."""

    def __init__(self) -> None:
        self._waiting: deque[Path] = deque()
        self._lock = threading.Lock()
        self._busy = False

    def remove(self, folder: Path) -> None:
        """Remove the folder, at once if it holds few entries, else in the thread."""
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
    """Remove a folder that holds few entries and only files; True if it is gone."""
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
    """Empty the folder behind a descriptor. Folders that are not empty are moved up beside their
    parents, so that no folder is ever more than one level down."""
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
    """Remove all files; return the remaining folders. Names that cannot go are added to `stuck`."""
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
    """Empty one folder of `top`: remove its files and move its folders up under new names."""
    fd = _open_taken(name, top)
    try:
        left: list[str] = []
        for folder in _unlink_files(fd, name, set(), left):
            number = _lift(fd, folder, top, number)
        return number
    finally:
        os.close(fd)


def _open_taken(name: str | Path, top: int | None = None) -> int:
    """Open a folder, in `top` or by its path, whatever its mode is; OSError for anything else."""
    pinned = os.open(name, _PIN, dir_fd=top)
    try:
        _take(pinned)
        return os.open(".", _FOLDER, dir_fd=pinned)
    finally:
        os.close(pinned)


def _take(pinned: int) -> None:
    """Make root the only user of the folder behind a descriptor; the job's user may have removed
    even the owner's access. fchmod(2) refuses O_PATH, so this goes through the link in /proc, which
    leads to the folder itself, whatever has its name now."""
    with contextlib.suppress(OSError):  # the operation that needed this fails later and is reported
        if os.geteuid() == 0:
            os.chown(f"/proc/self/fd/{pinned}", 0, 0)
        os.chmod(f"/proc/self/fd/{pinned}", stat.S_IRWXU)  # noqa: PTH101


def _lift(fd: int, folder: str, top: int, number: int) -> int:
    """Move a folder up under the next free name and return that name's number."""
    while True:
        number += 1
        try:
            os.rename(folder, f".lifted-{number}", src_dir_fd=fd, dst_dir_fd=top)
            return number
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
