# SPDX-License-Identifier: Apache-2.0
"""An eventfd that becomes readable when there is news of a card.

The threads that read cards write to it, in C and in Python. Invariant: no thread writes to the
descriptor after it was closed.
"""

from __future__ import annotations

import contextlib
import os
import threading


class Wakeup:
    """One descriptor for all cards of a node; `Sampled.wakeups` tells whose news it is."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Write to the descriptor, from any thread; never blocks."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if self.descriptor >= 0:
                os.eventfd_write(self.descriptor, 1)

    def take(self) -> int:
        """Number of writes since the last call; it may count writes together."""
        try:
            return os.eventfd_read(self.descriptor) if self.descriptor >= 0 else 0
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the descriptor; no thread in C may have it any more."""
        with self._lock:
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1
