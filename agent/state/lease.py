# SPDX-License-Identifier: Apache-2.0
"""The lease file: what the agent tells the watchdog, and what the watchdog did.

One writer per field: the agent renews and thaws, the watchdog freezes. Every field is 8 bytes and
aligned, so a store is whole; the expiry has its complement beside it all the same.
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

# Positions in units of 8 bytes.
_MAGIC, _VERSION, _EXPIRY, _EXPIRY_CHECK, _THAW_EPOCH = 0, 1, 2, 3, 4
_POWER_EXPIRY, _POWER_CHECK = 5, 6
_FREEZE_EPOCH, _FROZEN_SINCE, _WATCHDOG_SEEN, _WATCHDOG_PID, _WATCHDOG_FLAGS = 8, 9, 10, 11, 12
_POWER_DONE = 13

NO_CGROUP, FREEZE_FAILED = 1, 2
"""Bits of `watchdog_flags`: it can only report; its last freeze or thaw was refused."""


class Lease:
    """The mapped file; `close` or leave the `with` block when done."""

    def __init__(self, mapping: mmap.mmap) -> None:
        self._mapping = mapping
        self._view = memoryview(mapping).cast("Q")
        self._renewing = threading.Lock()
        self._closed = False

    @classmethod
    def open(cls, path: str | Path) -> Lease:
        """Map the file at `path`, making it (0600, no expiry) where there is none.

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
            raise Corrupt(f"{path} is no lease file of version {VERSION}", hint="remove it")

    def renew(self, expiry_boottime_ns: int) -> None:
        """Jobs may run until this CLOCK_BOOTTIME nanosecond; 0 takes the lease rule away."""
        with self._renewing:
            self._store(expiry_boottime_ns)

    def extend(self, expiry_boottime_ns: int) -> None:
        """As `renew`, but an earlier moment changes nothing; for two threads that both may."""
        with self._renewing:
            if not self._closed and expiry_boottime_ns > self._view[_EXPIRY]:
                self._store(expiry_boottime_ns)

    def _store(self, expiry_boottime_ns: int) -> None:
        self._view[_EXPIRY] = expiry_boottime_ns
        self._view[_EXPIRY_CHECK] = expiry_boottime_ns ^ _U64

    def renew_power(self, expiry_boottime_ns: int) -> None:
        """The agent is in charge of the cards' limits until then; 0: there is nothing to restore.

        After an expiry the watchdog has them restored.
        """
        self._view[_POWER_EXPIRY] = expiry_boottime_ns
        self._view[_POWER_CHECK] = expiry_boottime_ns ^ _U64

    @property
    def power_expiry_ns(self) -> int:
        """What was last renewed by `renew_power`."""
        return self._view[_POWER_EXPIRY]

    @property
    def power_restored(self) -> bool:
        """Whether the watchdog had the limits restored after the last expiry."""
        return 0 < self._view[_POWER_EXPIRY] == self._view[_POWER_DONE]

    @property
    def expiry_boottime_ns(self) -> int:
        """What was last renewed; 0 if no lease was ever given."""
        return self._view[_EXPIRY]

    @property
    def lapsed(self) -> bool:
        """Whether no scheduler was heard for so long that the last lease has run out."""
        return 0 < self._view[_EXPIRY] <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def thaw(self) -> None:
        """Let the jobs of the present freeze go on; to be called after reading the log past it.

        The watchdog does so only while the lease is valid; a later freeze needs its own thaw.
        """
        self._view[_THAW_EPOCH] = self._view[_FREEZE_EPOCH]

    def frozen_since(self) -> int | None:
        """CLOCK_BOOTTIME ns at which the watchdog froze the jobs; None if they run."""
        return self._view[_FROZEN_SINCE] or None

    @property
    def freezes(self) -> int:
        """How many times the watchdog has frozen the jobs of this file."""
        return self._view[_FREEZE_EPOCH]

    @property
    def watchdog_seen_ns(self) -> int | None:
        """CLOCK_BOOTTIME ns of the watchdog's last look; None if there never was one."""
        return self._view[_WATCHDOG_SEEN] or None

    @property
    def watchdog_flags(self) -> int:
        """NO_CGROUP | FREEZE_FAILED, or 0."""
        return self._view[_WATCHDOG_FLAGS]

    def close(self) -> None:
        """Unmap; what was renewed stays in the file."""
        with self._renewing:
            self._closed = True
            self._view.release()
            self._mapping.close()

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
