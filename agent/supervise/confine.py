# SPDX-License-Identifier: Apache-2.0
"""Confinement of a node's process before it runs its program: privileges and limits.

A privilege that cannot be dropped raises an error; it is never passed over. Source:
capabilities(7), prctl(2).
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
from pathlib import Path

from stoker.native.errors import NotSupported, from_errno

PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
CAP_DAC_READ_SEARCH = 2
CAP_SETPCAP = 8
CAP_SYS_RESOURCE = 24
CAP_LAST_MAX = 63
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def _prctl(option: int, *arguments: int) -> int:
    values = [ctypes.c_ulong(a) for a in (*arguments, 0, 0, 0, 0)[:4]]
    result: int = _libc.prctl(ctypes.c_int(option), *values)
    return result if result >= 0 else -ctypes.get_errno()


def no_new_privileges() -> None:
    """Forbid new privileges: execve ignores set-user-ID bits and file capabilities from now on."""
    result = _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if result < 0:
        raise from_errno(result, "no_new_privs")


def drop_capabilities(keep: frozenset[int] = frozenset()) -> None:
    """Empty the bounding, inheritable and ambient sets except `keep`, so that the next execve
    leaves even uid 0 with `keep` only. Without CAP_SETPCAP there is nothing to drop."""
    _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(CAP_LAST_MAX + 1):
        held = _prctl(PR_CAPBSET_READ, capability)
        if held < 0:
            break  # past this kernel's last capability
        if held and capability not in keep:
            result = _prctl(PR_CAPBSET_DROP, capability)
            if result < 0:
                raise from_errno(result, f"dropping capability {capability}")
    _clear_inheritable()


def _clear_inheritable() -> None:
    header, data = _Header(_CAPABILITY_VERSION_3, 0), (_Data * 2)()
    if _libc.capget(ctypes.byref(header), data) != 0:
        raise from_errno(-ctypes.get_errno(), "capget")
    for word in data:
        word.inheritable = 0
    if _libc.capset(ctypes.byref(header), data) != 0:
        raise from_errno(-ctypes.get_errno(), "capset")


def may_drop() -> bool:
    """True if this process holds CAP_SETPCAP, which dropping needs."""
    return holds(CAP_SETPCAP)


def holds(capability: int) -> bool:
    """True if a capability, given by its number, is effective in this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> capability & 1)
    raise NotSupported("/proc/self/status has no CapEff line")


def needed_to_read(paths: list[Path]) -> frozenset[int]:
    """Return the capabilities that a capless root needs to reach `paths`: none, or
    CAP_DAC_READ_SEARCH if they lie in another user's private folder (`sudo stoker up` in a
    checkout)."""
    if os.geteuid() != 0:
        return frozenset()
    for path in paths:
        for folder in (path, *path.parents):
            found = folder.stat()
            wanted = stat.S_IXOTH if found.st_mode & stat.S_IFDIR else stat.S_IROTH
            if found.st_uid != 0 and not found.st_mode & wanted:
                return frozenset({CAP_DAC_READ_SEARCH})
    return frozenset()


def limit(nofile: int, core_bytes: int = 0) -> None:
    """Limit descriptors to `nofile` or the hard limit, and forbid core dumps, which hold
    secrets."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nofile if hard == resource.RLIM_INFINITY else min(nofile, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    _, core_hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (core_bytes, core_hard))
