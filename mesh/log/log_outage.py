# SPDX-License-Identifier: Apache-2.0
"""What stands between a replica and its log: since when, why, and when to try again.

Without I/O: the moments of CLOCK_BOOTTIME come in as arguments. Owns the bounds after which those
who ask are refused instead of kept waiting.
"""

from __future__ import annotations

import random

BACK_OFF_NS = (50_000_000, 1_000_000_000)
BLOCKED_NS = 5_000_000_000
"""Without a working log for so long, submits are refused at once instead of queued."""
FULL_NS = 2_000_000_000
"""A full log makes room for itself in less; after that users are refused."""


class LogOutage:
    """`full` and `disk` say why no job is taken, or are empty."""

    def __init__(self, seed: int) -> None:
        self.full = ""
        self.disk = ""
        self._chance = random.Random(seed)
        self._retries = 0
        self._retry_ns = 0
        self._down_since_ns: int | None = None
        self._full_since_ns: int | None = None

    def failed(self, now_ns: int) -> None:
        """The log could not be read or written."""
        if self._down_since_ns is None:
            self._down_since_ns = now_ns
        self.back_off(now_ns)

    def filled(self, why: str, now_ns: int) -> None:
        """The log has no room."""
        self.full = why
        if self._full_since_ns is None:
            self._full_since_ns = now_ns
        self.back_off(now_ns)

    def appended(self) -> None:
        """An entry went in."""
        self._retries = 0
        self.full, self._full_since_ns = "", None

    def over(self) -> None:
        """The log is read to its end and ends with an entry of ours."""
        self._down_since_ns = None
        self.hurry()

    def hurry(self) -> None:
        """There is no reason to wait any longer."""
        self._retries = self._retry_ns = 0

    def back_off(self, now_ns: int) -> None:
        """Wait, longer each time, with chance in it."""
        low, high = BACK_OFF_NS
        self._retries += 1
        pause = min(high, low << min(self._retries - 1, 10))
        self._retry_ns = now_ns + int(pause * (0.5 + self._chance.random() / 2))

    def may_try(self, now_ns: int) -> bool:
        """Whether the wait is over."""
        return now_ns >= self._retry_ns

    @property
    def is_down(self) -> bool:
        """Whether the log failed and was not led again since."""
        return self._down_since_ns is not None

    def is_blocked(self, now_ns: int) -> bool:
        """Whether the log is down for so long that users should know."""
        since = self._down_since_ns
        return since is not None and now_ns - since >= BLOCKED_NS

    def is_full(self, now_ns: int) -> bool:
        """Whether there was no room for so long that users should know."""
        since = self._full_since_ns
        return since is not None and now_ns - since >= FULL_NS

    def refusal(self, now_ns: int) -> str:
        """Why no job is taken now, or empty."""
        return self.disk or (self.full if self.is_full(now_ns) else "")
