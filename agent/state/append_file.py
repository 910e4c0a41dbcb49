# SPDX-License-Identifier: Apache-2.0
"""A file of records to which one thread appends and which it rewrites from time to time.

Invariant: the file holds whole writes. A short write is cut off again, and a rewrite replaces the
file only when the new one is complete. Each call that writes raises OSError if the disk is full.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW


class AppendFile:
    """The file. `append` needs an opened one; a failed `rewrite` leaves it as it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self.size = 0
        """Bytes of the file; 0 before the first `rewrite`."""

    @property
    def opened(self) -> bool:
        """True between the first `rewrite` and `close`."""
        return self._descriptor >= 0

    def append(self, data: bytes) -> None:
        """Append the data whole or not at all."""
        if os.write(self._descriptor, data) != len(data):
            os.ftruncate(self._descriptor, self.size)
            raise self._full()
        self.size += len(data)

    def rewrite(self, data: bytes) -> None:
        """Write a new file beside the old one and rename it when it is complete."""
        fresh = self._path.with_name(f".{self._path.name}.new")
        descriptor = os.open(fresh, _FLAGS, 0o600)
        try:
            if os.write(descriptor, data) != len(data):
                raise self._full()
            fresh.rename(self._path)
        except OSError:
            os.close(descriptor)
            raise
        self.close()
        self._descriptor, self.size = descriptor, len(data)

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self.opened:
            os.close(self._descriptor)
            self._descriptor = -1

    def _full(self) -> OSError:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
