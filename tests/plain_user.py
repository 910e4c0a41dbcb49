# SPDX-License-Identifier: Apache-2.0
"""A plain user of this machine, as whom tests that run as root call commands.

Invariant: the user can read the interpreter, and nothing else
that was closed to others.
"""

from __future__ import annotations

import sys
from pathlib import Path

REACH = """
set -e
mount --bind "$1" "$2"
mount -t tmpfs -o mode=755 none "$3"
mkdir -p "$1"
mount --bind "$2" "$1"
shift 3
exec "$@"
"""
"""The script mounts, in a namespace of its own, the interpreter's folder ($1) where everybody can
reach it, though a folder above it ($3) is closed to others."""


def become(uid: int, spare: Path, folder: str = "/") -> list[str]:
    """A command prefix with which a command runs as this user in a folder; `spare` is an unused
    path, whose parent exists."""
    who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return [*_reachable(spare), *who, "env", "-C", folder]


def _reachable(spare: Path) -> list[str]:
    base = Path(sys.base_prefix).resolve()
    closed = [folder for folder in reversed(base.parents) if not folder.stat().st_mode & 0o001]
    if not closed:
        return []
    spare.mkdir(exist_ok=True)
    return ["unshare", "-m", "sh", "-c", REACH, "sh", str(base), str(spare), str(closed[0])]
