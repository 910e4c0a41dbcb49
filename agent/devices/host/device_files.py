# SPDX-License-Identifier: Apache-2.0
"""Device files of cards by number: majors that the kernel assigned, and render nodes.

Invariant: a file that cannot be read is a card without that device file, never an error.
"""

from __future__ import annotations

from pathlib import Path

Node = tuple[int, int]
"""(major, minor) of a character device."""
DRM_MAJOR = 226
"""Major number of /dev/dri/* (the kernel's devices.txt)."""


def majors(name: str, root: Path = Path("/")) -> tuple[int, ...]:
    """Major numbers under which /proc/devices lists a driver; empty while it is not loaded."""
    try:
        lines = (root / "proc/devices").read_text().splitlines()
    except OSError:
        return ()
    rows = [line.split() for line in lines]
    return tuple(int(row[0]) for row in rows if row[1:] == [name] and row[0].isdecimal())


def render_nodes(function: Path) -> tuple[Node, ...]:
    """Render nodes (/dev/dri/renderD<minor>) of the PCI function with this folder in sysfs."""
    try:
        names = [path.name for path in (function / "drm").iterdir()]
    except OSError:
        return ()
    minors = [name.removeprefix("renderD") for name in names if name.startswith("renderD")]
    return tuple((DRM_MAJOR, int(minor)) for minor in minors if minor.isdecimal())
