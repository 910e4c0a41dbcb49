# SPDX-License-Identifier: Apache-2.0
"""Where a cgroup2 directory stands in the kernel's own tree: its id and its level.

Pure over the text of /proc/self/mountinfo, so it is tested without a kernel; cgroup v1 is refused
by name.
"""

from __future__ import annotations

from pathlib import Path

from stoker.native.errors import NotSupported

INITIAL_NAMESPACE = 0xEFFFFFFB
"""Inode of the initial cgroup namespace, PROC_CGROUP_INIT_INO of include/linux/proc_ns.h."""

LEVEL_MAX = 30
"""Deepest directory that may hold jobs; the kernel's own default has no limit."""


def cgroup_id(path: Path) -> int:
    """The kernel's id of a cgroup: the inode number of its cgroup2 directory (64 bits)."""
    return path.stat().st_ino


def cgroup_level(path: Path) -> int:
    """Depth of a cgroup2 directory below the root of the hierarchy; raises NotSupported."""
    namespace = Path("/proc/self/ns/cgroup")
    if namespace.exists() and namespace.stat().st_ino != INITIAL_NAMESPACE:
        raise NotSupported(
            f"the level of {path} is not known inside a cgroup namespace",
            hint="Start stoker in the host's cgroup namespace (docker: --cgroupns=host)",
        )
    return level_below_mount(path.resolve(), Path("/proc/self/mountinfo").read_text())


def level_below_mount(path: Path, mountinfo: str) -> int:
    """Level of `path` by the cgroup2 mount that holds it; raises NotSupported if none does."""
    found: tuple[int, int] | None = None
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        root, mount = _unescape(fields[3]), Path(_unescape(fields[4]))
        is_cgroup2 = fields[fields.index("-") + 1] == "cgroup2"
        if not path.is_relative_to(mount):
            continue
        depth = len(mount.parts)
        if found is None or depth >= found[0]:  # the deepest and latest mount is what is seen
            level = _parts(root) + len(path.relative_to(mount).parts)
            found = (depth, level if is_cgroup2 else -1)
    if found is None or found[1] < 0:
        raise NotSupported(f"{path} is not in a cgroup v2 hierarchy")
    if not 0 < found[1] <= LEVEL_MAX:
        raise NotSupported(f"{path} is at level {found[1]}, stoker's jobs need 1 to {LEVEL_MAX}")
    return found[1]


def _parts(root: str) -> int:
    return len([part for part in root.split("/") if part])


def _unescape(field: str) -> str:
    """Mountinfo writes space, tab, newline and backslash as three octal digits."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field
