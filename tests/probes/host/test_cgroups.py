# SPDX-License-Identifier: Apache-2.0
"""Levels by mountinfo: hybrid and unified hosts, bind mounts, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.native.errors import NotSupported
from stoker.probes.host.cgroups import LEVEL_MAX, level_below_mount

HYBRID = """\
21 1 0:20 / / rw - ext4 /dev/vda rw
30 21 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 30 0:38 / /sys/fs/cgroup/unified rw,relatime shared:7 - cgroup2 cgroup2 rw
"""
UNIFIED = """\
21 1 0:20 / / rw - ext4 /dev/vda rw
30 21 0:25 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate
"""
BOUND = UNIFIED + "50 21 0:25 /stoker.slice/a\\040b /mnt/jobs\\040here rw - cgroup2 cgroup2 rw\n"
COVERED = UNIFIED + "60 30 0:40 / /sys/fs/cgroup/over rw - tmpfs tmpfs rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "path", "level"),
    [
        (HYBRID, "/sys/fs/cgroup/unified/stoker-1/jobs", 2),
        (UNIFIED, "/sys/fs/cgroup/stoker-1/jobs", 2),
        (UNIFIED, "/sys/fs/cgroup/system.slice/stoker.service/jobs", 3),
        (BOUND, "/mnt/jobs here/jobs", 3),
    ],
)
def test_level_is_the_depth_below_the_hierarchys_root(
    mountinfo: str, path: str, level: int
) -> None:
    assert level_below_mount(Path(path), mountinfo) == level


@pytest.mark.parametrize(
    ("mountinfo", "path"),
    [
        (HYBRID, "/sys/fs/cgroup/memory/jobs"),
        (HYBRID, "/home/jobs"),
        (COVERED, "/sys/fs/cgroup/over/jobs"),
        ("", "/sys/fs/cgroup/jobs"),
    ],
)
def test_anything_but_cgroup2_is_refused(mountinfo: str, path: str) -> None:
    with pytest.raises(NotSupported, match="not in a cgroup v2 hierarchy"):
        level_below_mount(Path(path), mountinfo)


@pytest.mark.parametrize("depth", [0, LEVEL_MAX + 1])
def test_levels_out_of_range_are_refused(depth: int) -> None:
    path = Path("/sys/fs/cgroup", *["d"] * depth)
    with pytest.raises(NotSupported, match="level"):
        level_below_mount(path, UNIFIED)
