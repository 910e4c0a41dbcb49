# SPDX-License-Identifier: Apache-2.0
"""The lease file: messages of the agent to the watchdog, and the watchdog's answers.

Each field has one writer: the agent renews and thaws, the watchdog freezes. Every field is 8 bytes
and aligned, so a store is atomic; the complement of the expiry is stored beside it nevertheless.
Times count from the boot whose id the file has; in another boot there is no lease and no freeze.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
import uuid
from pathlib import Path

from stoker.agent.state import host_facts
from stoker.native.errors import Corrupt

LEASE_BYTES = 192
MAGIC = int.from_bytes(b"stklease", "little")
VERSION = 2
MOST_NS = 5_000_000_000
"""The longest lease; an expiry further ahead than this counts as none."""
STALE_NS = 1_000_000_000
"""A watchdog that has not looked for this long is stale; it looks ten times a second."""
_U64 = (1 << 64) - 1

# Positions of fields in units of 8 bytes.
_MAGIC, _VERSION, _BOOT, _EXPIRY, _EXPIRY_CHECK = 0, 1, 2, 4, 5
_THAW_EPOCH, _THAW_UNTIL, _POWER_EXPIRY, _POWER_CHECK, _AGENT_SEEN = 6, 7, 8, 9, 10
_FREEZE_EPOCH, _FROZEN_SINCE, _WATCHDOG_SEEN, _WATCHDOG_PID, _WATCHDOG_FLAGS = 12, 13, 14, 15, 16
_POWER_DONE = 17

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
    def open(cls, path: str | Path, boot_id: str | None = None) -> Lease:
        """Map the file at `path`, made with mode 0600 and no expiry if it is missing.

        `boot_id` is the kernel's id of this boot, which is read if it is None.

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
        lease._begin(Path(path), boot_id or host_facts.boot_id())
        return lease

    def _begin(self, path: Path, boot_id: str) -> None:
        view = self._view
        if view[_MAGIC] == 0:
            view[_VERSION] = VERSION
            view[_EXPIRY_CHECK] = _U64
            view[_MAGIC] = MAGIC
        if view[_MAGIC] != MAGIC or view[_VERSION] != VERSION:
            self.close()
            raise Corrupt(f"{path} is not a lease file of version {VERSION}", hint="remove it")
        self._bind(uuid.UUID(boot_id).bytes)

    def _bind(self, boot: bytes) -> None:
        """Forget the lease and the freeze of another boot, whose clock began anew."""
        view = self._view
        words = [int.from_bytes(boot[at : at + 8], "little") for at in (0, 8)]
        if [view[_BOOT], view[_BOOT + 1]] == words:
            return
        self._store(0)
        self.renew_power(0)
        for field in (_THAW_UNTIL, _AGENT_SEEN, _FROZEN_SINCE, _WATCHDOG_SEEN):
            view[field] = 0
        view[_BOOT], view[_BOOT + 1] = words

    def renew(self, expiry_boottime_ns: int) -> None:
        """Let jobs run until this CLOCK_BOOTTIME nanosecond; 0 ends the lease."""
        with self._renewing:
            self._store(expiry_boottime_ns)

    def extend(self, expiry_boottime_ns: int) -> None:
        """Renew, unless the expiry would be earlier; safe for two threads.

        A stored expiry that no lease can have is replaced.
        """
        with self._renewing:
            if self._closed:
                return
            later_ns = expiry_boottime_ns - self.expiry_boottime_ns
            if later_ns > 0 or later_ns < -MOST_NS:
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
        """The end of the lease; 0 if there was none. While a store is not complete it is the
        earlier of the two ends."""
        return min(self._view[_EXPIRY], self._view[_EXPIRY_CHECK] ^ _U64)

    def valid(self, now_ns: int) -> bool:
        """Return True if jobs may run at this CLOCK_BOOTTIME, as the watchdog decides as well."""
        return 0 < self.expiry_boottime_ns - now_ns <= MOST_NS

    @property
    def lapsed(self) -> bool:
        """True if the last lease has expired because no scheduler renewed it."""
        return 0 < self.expiry_boottime_ns <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def thaw(self, epoch: int, until_ns: int) -> None:
        """Let the jobs of this freeze go on; call it after reading the log past the freeze.

        The watchdog obeys only before `until_ns`, the end of the present lease (CLOCK_BOOTTIME): a
        later lease, or a later freeze, needs its own thaw.
        """
        self._view[_THAW_UNTIL] = until_ns
        self._view[_THAW_EPOCH] = epoch

    def look(self, now_ns: int) -> None:
        """Note that this process looks at the lease now, and did so not long before."""
        self._view[_AGENT_SEEN] = now_ns

    def watchdog_stale(self, now_ns: int) -> bool:
        """Return True if no watchdog looks at the lease."""
        return now_ns - self._view[_WATCHDOG_SEEN] > STALE_NS

    def frozen_since(self) -> int | None:
        """Return the CLOCK_BOOTTIME ns at which the watchdog froze the jobs; None if they run."""
        return self._view[_FROZEN_SINCE] or None

    def freeze(self) -> tuple[int, int] | None:
        """Return the number of the present freeze and since when it lasts (CLOCK_BOOTTIME ns).

        The watchdog counts a freeze before it stores its time, so both belong together if the
        number is the same before and after.
        """
        while True:
            epoch, since_ns = self._view[_FREEZE_EPOCH], self._view[_FROZEN_SINCE]
            if self._view[_FREEZE_EPOCH] == epoch:
                return (epoch, since_ns) if since_ns else None

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
