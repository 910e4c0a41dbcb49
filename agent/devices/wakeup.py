# SPDX-License-Identifier: Apache-2.0
"""What the threads that read cards ring when there is news of one: a descriptor to wait for.

Relied on by the sampler's threads, in C and in Python, and by health, whose loop waits. Rings that
come together are heard as one. Invariant: nobody writes to a descriptor after it was closed.
"""

from __future__ import annotations

import contextlib
import os
import threading


class Wakeup:
    """One for all cards of a node; which of them it was is asked of each."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()

    def ring(self) -> None:
        """From any thread; never waits."""
        with self._lock, contextlib.suppress(BlockingIOError):
            if self.descriptor >= 0:
                os.eventfd_write(self.descriptor, 1)

    def hush(self) -> int:
        """How often it was rung since the last time."""
        try:
            return os.eventfd_read(self.descriptor) if self.descriptor >= 0 else 0
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Once no thread in C has it any more."""
        with self._lock:
            if self.descriptor >= 0:
                os.close(self.descriptor)
                self.descriptor = -1
