# SPDX-License-Identifier: Apache-2.0
"""The number by which the scheduler tells this node from any other of its name.

Owns its life: it is drawn once in each boot and is lost with the state folder, so that neither a
copied folder on another machine nor a machine without its records counts as the node that was.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from stoker.native import durable_file
from stoker.native.errors import Refused

_BITS = 63


def of_boot(path: Path, boot_id: str) -> int:
    """Return the number of this boot, which is stored before it is used. Refused if that fails."""
    try:
        if (found := _read(path, boot_id)) is not None:
            return found
        number = secrets.randbits(_BITS)
        durable_file.replace(path, f"{boot_id} {number}\n".encode())
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    return number


def _read(path: Path, boot_id: str) -> int | None:
    """Return the stored number; None if it is of another boot, or there is none."""
    try:
        words = path.read_text().split()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    good = len(words) == 2 and words[0] == boot_id and words[1].isdecimal()
    return int(words[1]) if good else None
