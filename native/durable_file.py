# SPDX-License-Identifier: Apache-2.0
"""Small files that are replaced durably, for every part that keeps one.

Owns the guarantee: after a crash or a power loss the file is the old one or the new one, whole, and
once `replace` has returned it is the new one. A write that fails leaves nothing behind.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace a file, or make it; OSError if the disk does not take it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(name).rename(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
