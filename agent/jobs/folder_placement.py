# SPDX-License-Identifier: Apache-2.0
"""A hint to ext4 without a journal: the folders of jobs are to lie apart from each other.

ext4 puts a folder near its parent. Without a journal it does not use the inode of a file again for
up to six minutes after the removal (ialloc.c, recently_deleted), and passes over all such inodes of
one block group for each new file. A node that starts and forgets a thousand jobs a second would
spend most of its time there. With the hint, folders and removed inodes spread over all groups.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
"""FS_IOC_GETFLAGS and FS_IOC_SETFLAGS of 64-bit machines (include/uapi/linux/fs.h)."""
_TOPDIR = 0x00020000
"""FS_TOPDIR_FL, which `chattr +T` sets: the folders inside are not related."""
_FLAGS = struct.Struct("=I4x")


def spread(folder: Path) -> bool:
    """Have the folders that are made in `folder` from now on spread over the disk.

    Returns False if the file system does not need the hint or does not take it.
    """
    with contextlib.suppress(OSError):
        if not _reuses_late(folder.stat().st_dev):
            return False
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            flags = _flags(descriptor) | _TOPDIR
            fcntl.ioctl(descriptor, _SET_FLAGS, _FLAGS.pack(flags))
            return bool(_flags(descriptor) & _TOPDIR)
        finally:
            os.close(descriptor)
    return False


def _reuses_late(device: int) -> bool:
    """True if the device holds an ext4 without a journal, as the kernel's tables say."""
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    journals = Path("/proc/fs/jbd2").glob(f"{name}-*")
    return Path("/proc/fs/ext4", name).exists() and not any(journals)


def _flags(descriptor: int) -> int:
    (flags,) = _FLAGS.unpack(fcntl.ioctl(descriptor, _GET_FLAGS, bytes(_FLAGS.size)))
    return int(flags)
