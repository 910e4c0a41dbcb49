# SPDX-License-Identifier: Apache-2.0
"""Copies of GPU libraries that processes have mapped, whatever their mount namespace.

A copy is a file, not a name: two containers with libcuda.so.1 have two, a library replaced on disk
is another one, and one that was deleted is still what its processes run. Processes belong to jobs,
so their files are opened without side effects, and a failure is a result with a reason.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from stoker.native.errors import NotFound, NotSupported, StokerError

MAPS_MAX = 16 << 20
"""Most text of one process's mappings that is read; Linux allows 65,530 mappings."""
COPIES_MAX = 16
"""Copies of libraries in one process; what is beyond is not looked at."""

PROC = Path("/proc")
_DELETED = " (deleted)"


class Copy(msgspec.Struct, frozen=True):
    """One mapped library, as /proc/<pid>/maps lists it."""

    path: str
    """The path in the process's own mount namespace."""
    device: str
    """The device of the file as major:minor in hex."""
    inode: int
    area: str
    """Start and end of one mapping of it, as in /proc/<pid>/map_files."""
    deleted: bool

    @property
    def key(self) -> tuple[str, int]:
        """Return the identity of the file while it is mapped."""
        return self.device, self.inode


class OpenCopy(msgspec.Struct, frozen=True):
    """A descriptor of the file itself, which the caller closes."""

    fd: int
    version: tuple[int, int, int]
    """(size, mtime ns, ctime ns): another one after it was written to in place."""

    @property
    def path(self) -> str:
        """Return a path to this file that works in this process even if it was deleted."""
        return f"/proc/self/fd/{self.fd}"


def libraries_in(maps: str, prefixes: Iterable[str]) -> list[Copy]:
    """Return the copies whose file name begins with one of `prefixes`, from a maps file. Pure."""
    starts = tuple(prefixes)
    found: dict[tuple[str, int], Copy] = {}
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or "x" not in fields[1] or not fields[4].isdigit():
            continue
        path = fields[5].removesuffix(_DELETED)
        if not path.rpartition("/")[2].startswith(starts) or fields[4] == "0":
            continue
        area = "-".join(f"{int(end, 16):x}" for end in fields[0].split("-"))
        deleted = fields[5].endswith(_DELETED)
        copy = Copy(path, fields[3], int(fields[4]), area, deleted)
        if len(found) < COPIES_MAX:
            found.setdefault(copy.key, copy)
    return list(found.values())


def copies_of(pid: int, prefixes: Iterable[str]) -> list[Copy]:
    """Return the copies in a process; NotFound if it is gone, NotSupported if denied."""
    try:
        with (PROC / str(pid) / "maps").open("rb") as file:
            text = file.read(MAPS_MAX)
    except (FileNotFoundError, ProcessLookupError):
        raise NotFound(f"process {pid} is gone") from None
    except OSError as error:
        raise NotSupported(f"mappings of process {pid} cannot be read: {error.strerror}") from None
    return libraries_in(text.decode(errors="replace"), prefixes)


@contextmanager
def opened(pid: int, copy: Copy) -> Iterator[OpenCopy]:
    """Open the mapped file: by the mapping, else by its path as the process sees it.

    Raises NotFound if the process is gone or its deleted file is out of reach, NotSupported if it
    is no regular file.
    """
    fd = _open(pid, copy)
    try:
        about = os.fstat(fd)
        yield OpenCopy(fd, (about.st_size, about.st_mtime_ns, about.st_ctime_ns))
    finally:
        os.close(fd)


def _open(pid: int, copy: Copy) -> int:
    try:
        return _open_file(f"{PROC}/{pid}/map_files/{copy.area}", copy, named=False)
    except (OSError, StokerError) as by_mapping:
        try:
            return _open_file(f"{PROC}/{pid}/root{copy.path}", copy, named=True)
        except OSError as error:
            first = getattr(by_mapping, "strerror", None) or str(by_mapping)
            why = f"{copy.path} of process {pid} cannot be opened: {error.strerror} ({first})"
            raise NotFound(why) from None


def _open_file(path: str, copy: Copy, *, named: bool) -> int:
    """Open a path only if it is a regular file, as opening a device or a pipe has side effects."""
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        about = os.fstat(place)
        if not stat.S_ISREG(about.st_mode):
            raise NotSupported(f"{copy.path} is no regular file")
        if named and about.st_ino != copy.inode:
            raise NotFound(f"{copy.path} is another file by now, and the mapped one out of reach")
        return os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        os.close(place)


def start_time(pid: int) -> int | None:
    """Return the clock ticks from boot to the process's start; None if it is gone.

    They distinguish it from a later process with the same pid.
    """
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])
