# SPDX-License-Identifier: Apache-2.0
"""The time that goes into log entries: CLOCK_REALTIME without its steps.

Pure: both clocks come in as arguments. Owns three promises. The time never goes back: after the
date was set back, it goes on at the pace of CLOCK_BOOTTIME until the date has caught up. It never
leaps while the scheduler runs: after the date was set forward, it follows at twice that pace, so
an event that is due in an hour comes in half an hour at the soonest. A new scheduler begins with
the date, but not before the last entry.

So after a step of the date by D, entries may carry a time ahead of the date, or behind it, for at
most D.
"""

from __future__ import annotations

import msgspec

SLACK_NS = 1_000_000_000
"""The time follows a date that is ahead by at most this much at once, as after a small correction
of the clock."""


class Instant(msgspec.Struct, frozen=True, gc=False):
    """The moment of one event, by both clocks of a replica."""

    log_ns: int
    """The log's time, which is written into entries."""
    boot_ns: int
    """CLOCK_BOOTTIME, by which deadlines are measured."""


class LogTime:
    """The log's time of one scheduler. Call `read` at least once for each entry."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        """The log's time and CLOCK_BOOTTIME at the last reading."""

    def read(self, real_ns: int, boot_ns: int, entry_ns: int = 0) -> int:
        """Return the log's time now, in ns; never less than `entry_ns`, which an entry has."""
        if self._last is None:
            now_ns = real_ns if real_ns > entry_ns else entry_ns
        else:
            last_ns, at_ns = self._last
            passed_ns = boot_ns - at_ns if boot_ns > at_ns else 0
            now_ns = (last_ns if last_ns > entry_ns else entry_ns) + passed_ns
            ahead_ns = real_ns - now_ns
            if ahead_ns > SLACK_NS:  # the date's lead is made up at twice the pace
                now_ns += min(ahead_ns, passed_ns)
            elif ahead_ns > 0:
                now_ns = real_ns
        self._last = (now_ns, boot_ns)
        return now_ns
