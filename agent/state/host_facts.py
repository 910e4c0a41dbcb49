# SPDX-License-Identifier: Apache-2.0
"""Facts of this machine from the kernel: boot id, processors, memory, load.

Every function reads one file under a given root (default `/proc`), so tests pass their own. Nothing
is cached or guessed.
"""

from __future__ import annotations

import os
from pathlib import Path

from stoker.native.errors import NotSupported
from stoker.scheduler.nouns import MILLI

PROC = Path("/proc")
READ_BYTES = 8192
"""The most that is read of a file; /proc/meminfo has about 1,500 bytes."""
RESERVE_BYTES_MIN = 512 << 20
RESERVE_PART = 20
"""Memory that all jobs leave to the machine: a twentieth, at least half a GiB."""


def boot_id(proc: Path = PROC) -> str:
    """Return the kernel's random id of this boot (proc_sys_kernel(5)); NotSupported without it."""
    path = proc / "sys/kernel/random/boot_id"
    try:
        return path.read_text().strip()
    except OSError as error:
        raise NotSupported(f"{path} cannot be read: {error.strerror}") from error


def cpu_milli() -> int:
    """Return the processors that this process may use, in thousandths of one."""
    return len(os.sched_getaffinity(0)) * MILLI


def memory_bytes(proc: Path = PROC) -> int:
    """Return the installed memory in bytes."""
    return _meminfo(proc, "MemTotal")


def memory_free_bytes(proc: Path = PROC) -> int:
    """Return the bytes that are available without swapping, by the kernel's estimate."""
    return _meminfo(proc, "MemAvailable")


def load_milli(proc: Path = PROC) -> int:
    """Return the load average of the last minute, in thousandths."""
    return round(float(_read(f"{proc}/loadavg").split(None, 1)[0]) * MILLI)


def processes_max(proc: Path = PROC) -> int:
    """Return the limit of processes and threads of all jobs: nine tenths of the kernel's."""
    names = ("sys/kernel/threads-max", "sys/kernel/pid_max")
    return min(int((proc / name).read_text()) for name in names) * 9 // 10


def jobs_memory_bytes(proc: Path = PROC) -> int:
    """Return the bytes that all jobs together may use; 0 if the machine needs all."""
    total = memory_bytes(proc)
    return max(0, total - max(RESERVE_BYTES_MIN, total // RESERVE_PART))


def _meminfo(proc: Path, field: str) -> int:
    """Return one line of /proc/meminfo in bytes; the kernel calls its kibibytes kB."""
    path = f"{proc}/meminfo"
    _, found, rest = (b"\n" + _read(path)).partition(f"\n{field}:".encode())
    if not found:
        raise NotSupported(f"{path} has no {field}")
    return int(rest.split(None, 1)[0]) * 1024


def _read(path: str) -> bytes:
    """Return a small file of the kernel's; an agent reads two each second, and pathlib and its
    buffers took most of that."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, READ_BYTES)
    finally:
        os.close(descriptor)


def jobs_cgroup(instance: str, proc: Path = PROC) -> Path | None:
    """Return the cgroup v2 directory of all jobs; None if there is none."""
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        if fields[fields.index("-") + 1] == "cgroup2":
            folder = Path(fields[4]) / f"stoker-{instance}" / "jobs"
            if folder.is_dir():
                return folder
    return None
