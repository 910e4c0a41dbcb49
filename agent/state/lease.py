# SPDX-License-Identifier: Apache-2.0
"""The lease file: messages of the agent to the watchdog, and the watchdog's answers.

Each field has one writer: the agent renews and thaws, the watchdog freezes. Every field is 8 bytes
and aligned, so a store is atomic; the complement of the expiry is stored beside it nevertheless.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path

from stoker.native.errors import Corrupt

LEASE_BYTES = 128
MAGIC = int.from_bytes(b"stklease", "little")
VERSION = 1
_U64 = (1 << 64) - 1

# Positions of fields in units of 8 bytes.
_MAGIC, _VERSION, _EXPIRY, _EXPIRY_CHECK, _THAW_EPOCH = 0, 1, 2, 3, 4
_POWER_EXPIRY, _POWER_CHECK = 5, 6
_FREEZE_EPOCH, _FROZEN_SINCE, _WATCHDOG_SEEN, _WATCHDOG_PID, _WATCHDOG_FLAGS = 8, 9, 10, 11, 12
_POWER_DONE = 13

NO_CGROUP, FREEZE_FAILED = 1, 2
"""Bits of `watchdog_flags`: it can only report; its last freeze or thaw was refused."""


class Lease:
    """The mapped file; `close` it or leave the `with` block when done."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._view = memoryview(mapping).cast("Q")
        self._renewing = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, path: str | Path) -> Lease:
        """Map the file at `path`, made with mode 0600 and no expiry if it is missing.

        A file with another magic or version raises Corrupt.
        """
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if os.fstat(fd).st_size == 0:
                os.ftruncate(fd, LEASE_BYTES)
            if os.fstat(fd).st_size != LEASE_BYTES:
                raise Corrupt(f"{path} is not a lease file of {LEASE_BYTES} bytes")
            lease = cls(mmap.mmap(fd, LEASE_BYTES))
        finally:
            os.close(fd)
        lease._begin(Path(path))
        return lease

    def _begin(self, path: Path) -> None:
        view = self._view
        if view[_MAGIC] == 0:
            view[_VERSION] = VERSION
            view[_EXPIRY_CHECK] = _U64
            view[_MAGIC] = MAGIC
        if view[_MAGIC] != MAGIC or view[_VERSION] != VERSION:
            self.close()
            raise Corrupt(f"{path} is not a lease file of version {VERSION}", hint="remove it")

    def renew(self, expiry_boottime_ns: int) -> None:
        """Let jobs run until this CLOCK_BOOTTIME nanosecond; 0 ends the lease rule."""
        with self._renewing:
            self._store(expiry_boottime_ns)

    def extend(self, expiry_boottime_ns: int) -> None:
        """Renew, unless the expiry would be earlier; safe for two threads."""
        with self._renewing:
            if not self._closed and expiry_boottime_ns > self._view[_EXPIRY]:
                self._store(expiry_boottime_ns)

    def _store(self, expiry_boottime_ns: int) -> None:
        self._view[_EXPIRY] = expiry_boottime_ns
        self._view[_EXPIRY_CHECK] = expiry_boottime_ns ^ _U64

    def renew_power(self, expiry_boottime_ns: int) -> None:
        """Set until when the agent controls the cards' limits; 0: there is nothing to restore.

        After this expiry the watchdog has the limits restored.
        """
        self._view[_POWER_EXPIRY] = expiry_boottime_ns
        self._view[_POWER_CHECK] = expiry_boottime_ns ^ _U64

    @property
    def power_restored(self) -> bool:
        """True if the watchdog had the limits restored after the last expiry."""
        return 0 < self._view[_POWER_EXPIRY] == self._view[_POWER_DONE]

    @property
    def expiry_boottime_ns(self) -> int:
        """The last expiry of `renew`; 0 if there was no lease."""
        return self._view[_EXPIRY]

    @property
    def lapsed(self) -> bool:
        """True if the last lease has expired because no scheduler renewed it."""
        return 0 < self._view[_EXPIRY] <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def thaw(self) -> None:
        """Let the jobs of the present freeze go on; call it after reading the log past the freeze.

        The watchdog obeys only while the lease is valid; a later freeze needs its own thaw.
        """
        self._view[_THAW_EPOCH] = self._view[_FREEZE_EPOCH]

    def frozen_since(self) -> int | None:
        """Return the CLOCK_BOOTTIME ns at which the watchdog froze the jobs; None if they run."""
        return self._view[_FROZEN_SINCE] or None

    @property
    def freezes(self) -> int:
        """The number of times the watchdog has frozen the jobs of this file."""
        return self._view[_FREEZE_EPOCH]

    @property
    def watchdog_seen_ns(self) -> int | None:
        """CLOCK_BOOTTIME ns of the watchdog's last check; None if there was none."""
        return self._view[_WATCHDOG_SEEN] or None

    @property
    def watchdog_flags(self) -> int:
        """NO_CGROUP | FREEZE_FAILED, or 0."""
        return self._view[_WATCHDOG_FLAGS]

    def close(self) -> None:
        """Unmap the file, which keeps the last values."""
        with self._renewing:
            self._closed = True
            self._view.release()
            self._mapping.close()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
