# SPDX-License-Identifier: Apache-2.0
"""The boot in which a scheduler last ran, which bounds when an earlier process answered nodes.

Owns the caution: without a record of another boot, such an answer may be as young as this process.
"""

from __future__ import annotations

from pathlib import Path

from stoker.mesh.replica.replica_settings import NEVER
from stoker.native import durable_file

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAME = "boot"


def began_ns(folder: Path, boot_id: str, now_ns: int) -> int:
    """Return the last moment at which an earlier process may have answered a node.

    That is now if it ran in this boot, and NEVER if it ran in another one or never. The boot is
    stored before this returns.
    """
    path = folder / _NAME
    try:
        before = path.read_text().strip()
    except FileNotFoundError:
        before = ""
    if before == boot_id:
        return now_ns
    durable_file.replace(path, f"{boot_id}\n".encode())
    return NEVER


def boot_id() -> str:
    """Return the kernel's random name of this boot."""
    return BOOT_ID.read_text().strip()
