# SPDX-License-Identifier: Apache-2.0
"""The lock of a folder: one process at a time changes the records in it.

For the state folder's users and keys, which several programs change. Owns that the lock ends with
the block, or with the process that held it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder (flock(2)); waits for another holder, OSError if there is no such folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
