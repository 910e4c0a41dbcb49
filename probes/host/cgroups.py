# SPDX-License-Identifier: Apache-2.0
"""The id and level of a cgroup2 directory in the kernel's tree.

Pure over the text of /proc/self/mountinfo, for tests without a kernel; cgroup v1 is refused by
name.
"""

from __future__ import annotations

from pathlib import Path

from stoker.native.errors import NotSupported

INITIAL_NAMESPACE = 0xEFFFFFFB
"""The inode of the initial cgroup namespace, PROC_CGROUP_INIT_INO of include/linux/proc_ns.h."""

LEVEL_MAX = 30
"""The deepest level of a directory of jobs; the kernel's own default has no limit."""


def cgroup_id(path: Path) -> int:
    """Return the kernel's id of a cgroup: the 64-bit inode number of its cgroup2 directory."""
    return path.stat().st_ino


def cgroup_level(path: Path) -> int:
    """Return the depth of a cgroup2 directory below the root; raises NotSupported."""
    namespace = Path("/proc/self/ns/cgroup")
    if namespace.exists() and namespace.stat().st_ino != INITIAL_NAMESPACE:
        raise NotSupported(
            f"the level of {path} is not known inside a cgroup namespace",
            hint="Start stoker in the host's cgroup namespace (docker: --cgroupns=host)",
        )
    return level_below_mount(path.resolve(), Path("/proc/self/mountinfo").read_text())


def level_below_mount(path: Path, mountinfo: str) -> int:
    """Return the level of `path` in its cgroup2 mount; NotSupported if it has none."""
    found: tuple[int, int] | None = None
    for line in mountinfo.splitlines():
        fields = line.split(" ")
        root, mount = _unescape(fields[3]), Path(_unescape(fields[4]))
        is_cgroup2 = fields[fields.index("-") + 1] == "cgroup2"
        if not path.is_relative_to(mount):
            continue
        depth = len(mount.parts)
        if found is None or depth >= found[0]:  # the deepest and latest mount hides the others
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
    """Decode space, tab, newline and backslash, which mountinfo writes as three octal digits."""
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, char)
    return field
