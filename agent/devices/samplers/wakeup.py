# SPDX-License-Identifier: Apache-2.0
"""A descriptor to wait for, which becomes readable when there is news of a card.

Threads that read cards write to it, in C and in Python. Writes that come together are read as one.
Invariant: nobody writes to a descriptor after it was closed.
"""

from __future__ import annotations

import contextlib
import os
import threading


class Wakeup:
    """One descriptor for all cards of a node; each card says whether the news is its own."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Write to it, from any thread; never waits."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if self.descriptor >= 0:
                os.eventfd_write(self.descriptor, 1)

    def take(self) -> int:
        """Return how often it was written to since the last time."""
        try:
            return os.eventfd_read(self.descriptor) if self.descriptor >= 0 else 0
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close it, once no thread in C has it any more."""
        with self._lock:
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1
