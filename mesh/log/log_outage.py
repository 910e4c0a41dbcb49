# SPDX-License-Identifier: Apache-2.0
"""Outages of the log: since when it is down or full, why, and when to try again.

Without I/O; moments are CLOCK_BOOTTIME and come in as arguments. Owns the bounds after which
requests are refused instead of queued.
"""

from __future__ import annotations

import random

BACK_OFF_NS = (50_000_000, 1_000_000_000)
BLOCKED_NS = 5_000_000_000
"""After this time without a working log, submits are refused at once instead of queued."""
FULL_NS = 2_000_000_000
"""After this time without room in the log, users are refused; a trim usually takes less."""


class LogOutage:
    """The outage of one replica's log. `full` and `disk` say why no job is taken, or are empty."""

    def __init__(self, seed: int) -> None:
        self.full = ""
        self.disk = ""
        self._chance = random.Random(seed)
        self._retries = 0
        self._retry_ns = 0
        self._down_since_ns: int | None = None
        self._full_since_ns: int | None = None

    def failed(self, now_ns: int) -> None:
        """Record that the log could not be read or written."""
        if self._down_since_ns is None:
            self._down_since_ns = now_ns
        self.back_off(now_ns)

    def filled(self, why: str, now_ns: int) -> None:
        """Record that the log has no room."""
        self.full = why
        if self._full_since_ns is None:
            self._full_since_ns = now_ns
        self.back_off(now_ns)

    def appended(self) -> None:
        """Record that an entry was appended."""
        self._retries = 0
        self.full, self._full_since_ns = "", None

    def over(self) -> None:
        """Record the end of the outage: this replica leads."""
        self._down_since_ns = None
        self.hurry()

    def left(self) -> None:
        """Record that this replica appends nothing any more: the log is another's to watch."""
        self.over()
        self.full, self._full_since_ns = "", None

    def hurry(self) -> None:
        """Make the next try due at once."""
        self._retries = self._retry_ns = 0

    def back_off(self, now_ns: int) -> None:
        """Wait before the next try: exponential back-off with jitter."""
        low, high = BACK_OFF_NS
        self._retries += 1
        pause = min(high, low << min(self._retries - 1, 10))
        self._retry_ns = now_ns + int(pause * (0.5 + self._chance.random() / 2))

    def may_try(self, now_ns: int) -> bool:
        """True if the wait before the next try is over."""
        return now_ns >= self._retry_ns

    @property
    def is_down(self) -> bool:
        """True if the log failed and this replica has not led since."""
        return self._down_since_ns is not None

    def is_blocked(self, now_ns: int) -> bool:
        """True if the log has been down for BLOCKED_NS."""
        since = self._down_since_ns
        return since is not None and now_ns - since >= BLOCKED_NS

    def is_full(self, now_ns: int) -> bool:
        """True if the log has been full for FULL_NS."""
        since = self._full_since_ns
        return since is not None and now_ns - since >= FULL_NS

    def disk_is(self, why: str) -> None:
        """Note why the disk takes no more jobs; empty if it does."""
        self.disk = why

    def refusal(self, now_ns: int) -> str:
        """Return why no job is taken now, or an empty string."""
        return self.disk or (self.full if self.is_full(now_ns) else "")
